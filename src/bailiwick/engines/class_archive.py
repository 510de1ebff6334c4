"""Java's own memory of the classes it loaded (AppCDS), so that an engine starts in about half the time.

It is made once for each Java and set of jars, by a training run (`class_training.py`). Java checks an archive
against its jars and passes over one that does not fit, so a wrong one costs time, never correctness. No
engine ever waits for an archive.
"""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from bailiwick.engines.jars import Jars
from bailiwick.engines.java import Java


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive that fits this Java and these jars, whether it has been made or not."""

    java: Java
    jars: Jars
    path: Path

    @classmethod
    def fitting(cls, java: Java, jars: Jars, cache: Path) -> "ClassArchive":
        return cls(java, jars, cache / "archives" / f"{_fingerprint(java, jars)}.jsa")

    @property
    def is_supported(self) -> bool:
        """Ours is built upon the one that came with Java, which some builds lack."""
        return self.java.archive.is_file()

    @property
    def is_made(self) -> bool:
        return self.path.is_file()

    @property
    def flags(self) -> tuple[str, ...]:
        return (f"-XX:SharedArchiveFile={self.path}", "-Xshare:auto") if self.is_made else ()


def _fingerprint(java: Java, jars: Jars) -> str:
    """Changes with anything that Java would refuse the archive for."""
    files = [jars.guard, jars.iceberg, *sorted(jars.pyspark.glob("*.jar"))]
    parts = [str(java.executable), java.release]
    for file in files:
        status = file.stat()
        parts.append(f"{file} {status.st_size} {status.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
