"""Clients that are not Python: the JDBC driver with Java compiled against it, and node with its packages."""

import hashlib
import os
import shutil
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bailiwick.engines import jars
from bailiwick.engines.java import find_java

JDBC = Path(__file__).with_name("jdbc")
NODE = Path(__file__).with_name("node")
JVM_OPTIONS = ("-Xmx512m", "--add-opens=java.base/java.nio=ALL-UNNAMED")
INSTALL_S = 240.0
RUN_S = 150.0


def run_java(source: Path, directory: Path, settings: Mapping[str, str]) -> str:
    """Compile the one class in `source` against the driver, run it, and give what it printed."""
    java, cache = find_java(), jars.cache_directory()
    driver = jars.Artifact(**tomllib.loads((JDBC / "driver.toml").read_text()))
    with jars.only_process(cache / "lock"):
        driver_jar = jars.fetch(driver, cache / "jars", java, print)
        compiler = jars.fetch(jars.pinned()["ecj"], cache / "jars", java, print)
    jar = directory / f"{source.stem}.jar"
    jars.compile_jar(java, compiler, [source], str(driver_jar), jar)
    class_path = f"{driver_jar}{os.pathsep}{jar}"
    return _printed([str(java.executable), *JVM_OPTIONS, "-cp", class_path, source.stem], settings)


def run_node(source: Path, settings: Mapping[str, str]) -> str:
    """Run a script with the client's packages, and give what it printed. Not run where they cannot be had."""
    return _printed(["node", str(source)], {**settings, "NODE_PATH": str(_packages() / "node_modules")})


def _packages() -> Path:
    """The directory with the client installed as the lock file says, digests checked by npm.

    Not by `npm ci`: the client names a package for FreeBSD that does not exist, which only that one minds.
    """
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not on this machine")
    lock = (NODE / "package-lock.json").read_bytes()
    directory = jars.cache_directory() / f"node-{hashlib.sha256(lock).hexdigest()[:16]}"
    directory.parent.mkdir(parents=True, exist_ok=True)
    with jars.only_process(directory.with_suffix(".lock")):
        if not (directory / "complete").exists():
            _install(directory)
    return directory


def _install(directory: Path) -> None:
    directory.mkdir(exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(NODE / name, directory)
    command = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund"]
    done = subprocess.run(command, cwd=directory, capture_output=True, timeout=INSTALL_S, check=False)
    if done.returncode != 0:
        pytest.skip("the node client's packages could not be fetched")
    (directory / "complete").touch()


def _printed(command: Sequence[str], settings: Mapping[str, str]) -> str:
    environment = {**os.environ, **settings}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=RUN_S, check=False
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout
