"""The jars that pyspark does not ship: Iceberg's runtime, and our own Java compiled from source.

Iceberg and the compiler come by the Ivy inside pyspark and are checked against pinned digests. Our Java is
compiled by ECJ, which needs no JDK, whenever its sources change.
"""

import fcntl
import hashlib
import importlib.util
import os
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bailiwick.engines.java import Java
from bailiwick.errors import BailiwickError, Code

Report = Callable[[str], None]
"""Told one line at each slow step."""

_FETCH_TIMEOUT_S = 600.0
_COMPILE_TIMEOUT_S = 120.0
_OUTPUT_SHOWN_MAX = 2000


@dataclass(frozen=True, slots=True)
class Artifact:
    """A jar of the public registry, and the only content we accept for it."""

    organisation: str
    module: str
    revision: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.module}-{self.revision}.jar"


@dataclass(frozen=True, slots=True)
class Jars:
    """What an engine's class path is made of."""

    pyspark: Path
    """The directory of the jars that came with pyspark."""
    iceberg: Path
    guard: Path


def ensure_jars(java: Java, *, report: Report = lambda _line: None, cache: Path | None = None) -> Jars:
    """Every jar in place and checked. Quick when they are; two processes may ask at once."""
    cache = cache_directory() if cache is None else cache
    cache.mkdir(parents=True, exist_ok=True)
    artifacts = pinned()
    with only_process(cache / "lock"):
        iceberg = fetch(artifacts["iceberg"], cache / "jars", java, report)
        guard = _ensure_guard(artifacts["ecj"], iceberg, cache, java, report)
    return Jars(pyspark_jars(), iceberg, guard)


def cache_directory() -> Path:
    """Where jars and class archives are kept: beside the environment that uses them."""
    override = os.environ.get("BAILIWICK_CACHE")
    return Path(override) if override else Path(sys.prefix) / "share" / "bailiwick"


def pinned() -> Mapping[str, Artifact]:
    table = tomllib.loads(Path(__file__).with_name("jars.toml").read_text(encoding="utf-8"))
    return {name: Artifact(**fields) for name, fields in table.items()}


def pyspark_jars() -> Path:
    # Found without importing it: pyspark takes a second to import, and we want only its files.
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise BailiwickError(Code.NOT_SUPPORTED, "pyspark is not installed; run `make setup`")
    return Path(spec.origin).parent / "jars"


def fetch(artifact: Artifact, directory: Path, java: Java, report: Report) -> Path:
    """The jar, fetched if it is not there. One with a wrong digest is deleted and is an error."""
    path = directory / artifact.file_name
    if not path.exists():
        report(f"fetching {artifact.file_name}")
        _retrieve(artifact, path, java)
    check_digest(path, artifact.sha256)
    return path


def check_digest(path: Path, sha256: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        path.unlink(missing_ok=True)
        raise BailiwickError(
            Code.INTERNAL_ERROR, f"{path.name} has digest {found}, not the pinned {sha256}; it was deleted"
        )


def _retrieve(artifact: Artifact, path: Path, java: Java) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    ivy = next(pyspark_jars().glob("ivy-*.jar"))
    with tempfile.TemporaryDirectory(dir=path.parent) as scratch:
        arguments = [
            "-cp",
            str(ivy),
            "org.apache.ivy.Main",
            "-warn",
            "-cache",
            f"{scratch}/cache",
            "-notransitive",
        ]
        arguments += ["-dependency", artifact.organisation, artifact.module, artifact.revision]
        arguments += [
            "-confs",
            "default",
            "-types",
            "jar",
            "-retrieve",
            f"{scratch}/[artifact]-[revision].[ext]",
        ]
        _run(java, arguments, _FETCH_TIMEOUT_S, f"fetching {artifact.file_name} failed")
        fetched = Path(scratch) / artifact.file_name
        if not fetched.exists():
            raise BailiwickError(Code.INTERNAL_ERROR, f"Ivy found no {artifact.file_name}")
        fetched.replace(path)


def _ensure_guard(ecj: Artifact, iceberg: Path, cache: Path, java: Java, report: Report) -> Path:
    sources, resources = guard_sources(), guard_resources()
    # What it is compiled from and against: a change of either is another jar; a running engine keeps its own.
    files = (*sources, *(resources / name for name in _files_in(resources)))
    inputs = [*(file.read_bytes() for file in files), iceberg.name.encode(), ecj.sha256.encode()]
    digest = hashlib.sha256(b"\0".join(hashlib.sha256(part).digest() for part in inputs)).hexdigest()
    guard = cache / "jars" / f"bailiwick-guard-{digest[:16]}.jar"
    if not guard.exists():
        compiler = fetch(ecj, cache / "jars", java, report)
        report(f"compiling {guard.name}")
        class_path = f"{pyspark_jars()}/*{os.pathsep}{iceberg}"
        compile_jar(java, compiler, sources, class_path, guard, resources=resources)
    return guard


def guard_resources() -> Path:
    """What stands in the jar as it is: the lists that are read when the guard starts."""
    return _guard_directory() / "resources"


def _guard_directory() -> Path:
    return Path(__file__).parents[3] / "guard"


def _files_in(directory: Path) -> list[Path]:
    """Relative to it, in a fixed order."""
    return sorted(file.relative_to(directory) for file in directory.rglob("*") if file.is_file())


def guard_sources() -> list[Path]:
    sources = sorted((_guard_directory() / "src").rglob("*.java"))
    if not sources:
        raise BailiwickError(
            Code.INTERNAL_ERROR, "the Java sources are not beside this installation (guard/src)"
        )
    return sources


def compile_jar(
    java: Java,
    compiler: Path,
    sources: list[Path],
    class_path: str,
    target: Path,
    *,
    resources: Path | None = None,
) -> None:
    """Compile `sources` into the jar `target`, which appears whole or not at all, with all in `resources`."""
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        classes = Path(scratch) / "classes"
        # Not `--release 17`: that needs files which only a JDK has.
        options = [
            "-17",
            "-nowarn",
            "-proc:none",
            "-encoding",
            "UTF-8",
            "-cp",
            _expanded(class_path),
            "-d",
            str(classes),
        ]
        _run(
            java,
            ["-jar", str(compiler), *options, *map(str, sources)],
            _COMPILE_TIMEOUT_S,
            "compiling the engine's Java failed",
        )
        packed = Path(scratch) / target.name
        _pack([classes] if resources is None else [classes, resources], packed)
        packed.replace(target)


def _expanded(class_path: str) -> str:
    """ECJ does not know the launcher's `directory/*`."""
    entries = (Path(entry) for entry in class_path.split(os.pathsep))
    files = (sorted(entry.parent.glob("*.jar")) if entry.name == "*" else [entry] for entry in entries)
    return os.pathsep.join(str(file) for group in files for file in group)


def _pack(directories: list[Path], target: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\r\n\r\n")
        for directory in directories:
            for name in _files_in(directory):
                jar.write(directory / name, name.as_posix())


def _run(java: Java, arguments: list[str], timeout_s: float, failure: str) -> None:
    try:
        done = subprocess.run(
            [java.executable, *arguments],
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired as error:
        raise BailiwickError(Code.INTERNAL_ERROR, f"{failure}: not done in {timeout_s:.0f} s") from error
    if done.returncode != 0:
        output = (done.stdout + done.stderr).strip()[-_OUTPUT_SHOWN_MAX:]
        raise BailiwickError(Code.INTERNAL_ERROR, f"{failure}:\n{output}")


@contextmanager
def only_process(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
