"""Jars are what they are pinned to be, or they are not used. No network, and a fake Java does the work."""

import hashlib
import multiprocessing
import stat
import zipfile
from pathlib import Path

import pytest

from bailiwick.engines import jars
from bailiwick.engines.jars import Artifact, cache_directory, check_digest, compile_jar, fetch, pinned
from bailiwick.engines.java import Java
from bailiwick.errors import BailiwickError

CONTENT = b"not really a jar"
DIGEST = hashlib.sha256(CONTENT).hexdigest()
ARTIFACT = Artifact("org.example", "thing", "1.0", DIGEST)


def quiet(_line: str) -> None: ...


def fake_java(directory: Path, script: str) -> Java:
    """A `java` that does what `script` says, whatever it is asked."""
    executable = directory / "java"
    executable.write_text(f"#!/bin/sh\n{script}\n")
    executable.chmod(executable.stat().st_mode | stat.S_IXUSR)
    return Java(executable, "17.0.15")


def ivy_giving(directory: Path, content: str) -> Java:
    """An Ivy that puts `content` where its last argument, the pattern, says; and counts its calls."""
    script = f"""
for last; do :; done
printf '%s' '{content}' > "$(dirname "$last")/thing-1.0.jar"
echo called >> '{directory}/calls'
"""
    return fake_java(directory, script)


def test_a_jar_is_fetched_once_and_then_found(tmp_path: Path) -> None:
    java = ivy_giving(tmp_path, CONTENT.decode())
    told: list[str] = []
    first = fetch(ARTIFACT, tmp_path / "jars", java, told.append)
    second = fetch(ARTIFACT, tmp_path / "jars", java, told.append)
    assert first == second
    assert first.read_bytes() == CONTENT
    assert (tmp_path / "calls").read_text() == "called\n"
    assert told == ["fetching thing-1.0.jar"]


def test_a_jar_with_another_digest_is_deleted_and_is_an_error(tmp_path: Path) -> None:
    java = ivy_giving(tmp_path, "something else")
    with pytest.raises(BailiwickError, match="it was deleted"):
        fetch(ARTIFACT, tmp_path / "jars", java, quiet)
    assert list((tmp_path / "jars").iterdir()) == []


def test_a_jar_that_was_changed_after_it_was_fetched_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "thing.jar"
    path.write_bytes(CONTENT + b"!")
    with pytest.raises(BailiwickError, match="digest"):
        check_digest(path, DIGEST)
    assert not path.exists()


def test_a_fetch_that_fails_leaves_nothing_and_tells_what_ivy_said(tmp_path: Path) -> None:
    java = fake_java(tmp_path, "echo unresolved dependency; exit 1")
    with pytest.raises(BailiwickError, match="unresolved dependency"):
        fetch(ARTIFACT, tmp_path / "jars", java, quiet)
    assert list((tmp_path / "jars").iterdir()) == []


def test_a_compile_that_fails_leaves_no_jar(tmp_path: Path) -> None:
    java = fake_java(tmp_path, "echo 'ERROR in A.java' >&2; exit 255")
    with pytest.raises(BailiwickError, match=r"ERROR in A\.java"):
        compile_jar(java, tmp_path / "ecj.jar", [tmp_path / "A.java"], "", tmp_path / "guard.jar")
    assert [path.name for path in tmp_path.iterdir()] == ["java"]


def test_a_compiled_jar_holds_the_classes_in_their_packages(tmp_path: Path) -> None:
    script = """
while [ "$1" != "-d" ]; do shift; done
mkdir -p "$2/io/bailiwick" && echo bytes > "$2/io/bailiwick/A.class"
"""
    java = fake_java(tmp_path, script)
    compile_jar(java, tmp_path / "ecj.jar", [tmp_path / "A.java"], "", tmp_path / "guard.jar")
    with zipfile.ZipFile(tmp_path / "guard.jar") as jar:
        assert jar.namelist() == ["META-INF/MANIFEST.MF", "io/bailiwick/A.class"]


def _hold(lock: Path, log: Path) -> None:
    with jars.only_process(lock), log.open("a") as file:
        file.write("in ")
        file.flush()
        file.write("out ")


def test_processes_take_turns(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_hold, args=(tmp_path / "lock", tmp_path / "log")) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert (tmp_path / "log").read_text() == "in out " * 4


def test_what_is_pinned_is_pinned_whole() -> None:
    assert set(pinned()) == {"iceberg", "ecj"}
    for artifact in pinned().values():
        assert len(bytes.fromhex(artifact.sha256)) == 32


def test_the_cache_can_be_put_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BAILIWICK_CACHE", str(tmp_path))
    assert cache_directory() == tmp_path
