"""The environments of stock clients: PySpark as people install it, one for each line that is supported.

The newest is the one that the gateway itself is built with, used in a process of its own. Older ones are made
by pinned requirements when they are first needed, and kept beside the jars.
"""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from bailiwick.engines import jars

ROOT = Path(__file__).parents[3]
VERSIONS = ("4.1", "4.0")
INSTALL_S = 400.0
RUN_S = 900.0


def python_of(version: str) -> Path:
    """The Python that has this PySpark. Not run where it cannot be had."""
    requirements = ROOT / "requirements" / f"pyspark-{version}.txt"
    if not requirements.exists():
        return Path(sys.executable)
    digest = hashlib.sha256(requirements.read_bytes()).hexdigest()[:16]
    directory = jars.cache_directory() / f"pyspark-{version}-{digest}"
    directory.parent.mkdir(parents=True, exist_ok=True)
    with jars.only_process(directory.with_suffix(f".{digest}.lock")):
        if not (directory / "complete").exists():
            _install(directory, requirements)
    return directory / "bin" / "python"


def _install(directory: Path, requirements: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", str(directory)], check=True, timeout=INSTALL_S)
    pip = [
        str(directory / "bin" / "python"),
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    done = subprocess.run(
        [*pip, "-r", str(requirements)], capture_output=True, timeout=INSTALL_S, check=False
    )
    if done.returncode != 0:
        pytest.skip(f"the packages of {requirements.stem} could not be fetched")
    (directory / "complete").touch()


def environment(settings: Mapping[str, str]) -> dict[str, str]:
    """What a client's process sees: its own packages, these files, and `settings`."""
    kept = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "JAVA_HOME")
    inherited = {name: os.environ[name] for name in kept if name in os.environ}
    return {**inherited, "TZ": "UTC", "PYTHONPATH": str(Path(__file__).parents[1]), **settings}


def lines(
    version: str, module: str, arguments: Sequence[str], settings: Mapping[str, str], errors: Path
) -> Iterator[str]:
    """What a module here prints in that client, line by line; its warnings go to the file `errors`."""
    command = [str(python_of(version)), "-m", f"spark_connect.{module}", *arguments]
    with errors.open("w") as said:
        process = subprocess.Popen(
            command, env=environment(settings), stdout=subprocess.PIPE, stderr=said, text=True
        )
    assert process.stdout is not None
    with process.stdout:
        yield from process.stdout
    assert process.wait(RUN_S) == 0, errors.read_text()[-3000:]
