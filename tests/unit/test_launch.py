"""The command, the properties and the environment of an engine, without starting one."""

import stat
import sys
from pathlib import Path

import pytest

from bailiwick.engines import launch
from bailiwick.engines.config import EngineConfig
from bailiwick.engines.jars import Jars
from bailiwick.engines.java import Java

GB = 1 << 30
JARS = Jars(Path("/p/pyspark/jars"), Path("/c/iceberg.jar"), Path("/c/guard.jar"))
JAVA = Java(Path("/j/bin/java"), "17.0.15")


def places(config: EngineConfig | None = None) -> launch.Places:
    return launch.Places.under(Path("/data"), config or EngineConfig())


def properties(config: EngineConfig | None = None, *, runs_code: bool = False) -> dict[str, str]:
    config = config or EngineConfig()
    return launch.engine_properties(
        config,
        places(config),
        JARS,
        token="very-secret",
        catalog_uri="http://127.0.0.1:1/iceberg",
        cores=2,
        runs_code=runs_code,
    )


def test_no_secret_stands_in_the_command() -> None:
    command = launch.java_command(JAVA, JARS, places(), heap_bytes=GB)
    assert not any("secret" in argument or "token" in argument for argument in command)
    assert "--properties-file" in command


def test_java_compiles_thoroughly_unless_it_is_told_not_to() -> None:
    commands = [
        launch.java_command(JAVA, JARS, places(), heap_bytes=GB, quick_compile=quick)
        for quick in (False, True)
    ]
    assert ["-XX:TieredStopAtLevel=1" in command for command in commands] == [False, True]


def test_the_engine_gets_the_environment_it_needs_and_nothing_else() -> None:
    environment = launch.engine_environment(
        {"PATH": "/bin", "BAILIWICK_PASSWORD": "x", "SPARK_HOME": "/y"}, JARS
    )
    assert environment == {
        "PATH": "/bin",
        "SPARK_HOME": "/p/pyspark",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_USER": "bailiwick",
        "PYSPARK_PYTHON": launch.NO_PYTHON,
    }


def test_python_of_users_is_run_by_ours_or_by_the_one_that_is_said_and_only_where_it_may() -> None:
    made = launch.engine_environment({}, JARS, runs_code=True)
    assert made["PYSPARK_PYTHON"] == sys.executable
    said = {"PYSPARK_PYTHON": "/opt/python3.11"}
    assert launch.engine_environment(said, JARS, runs_code=True)["PYSPARK_PYTHON"] == "/opt/python3.11"
    assert launch.engine_environment(said, JARS)["PYSPARK_PYTHON"] == launch.NO_PYTHON


def test_only_an_engine_for_code_of_users_is_told_that_it_may_run_it() -> None:
    assert not {name for name in properties() if "python" in name or "user-code" in name}
    made = properties(runs_code=True)
    assert made["spark.bailiwick.user-code"] == "true"
    assert made["spark.python.worker.reuse"] == "false"
    assert made["spark.python.daemon.module"] == "bailiwick.engines.python_daemon"
    # Whether machines of a cluster have our package is not known.
    elsewhere = properties(EngineConfig(master="spark://host:7077"), runs_code=True)
    assert "spark.python.daemon.module" not in elsewhere


def test_an_engine_listens_on_loopback_only_and_asks_for_its_token() -> None:
    made = properties()
    assert made["spark.driver.host"] == made["spark.driver.bindAddress"] == "127.0.0.1"
    assert made["spark.connect.grpc.binding.address"] == "127.0.0.1"
    assert made["spark.ui.enabled"] == "false"
    assert made["spark.connect.authenticate.token"] == "very-secret"
    assert made["spark.authenticate"] == "true"


def test_what_would_weaken_others_is_off() -> None:
    made = properties()
    assert made["spark.sql.variable.substitute"] == "false"
    assert made["spark.sql.runSQLOnFiles"] == "false"
    assert made["spark.sql.udt.allowCreatingUDTFromString"] == "false"
    assert made["spark.connect.session.planCache.maxSize"] == "0"
    assert made["spark.sql.catalog.lake.cache-enabled"] == "false"


def test_executors_elsewhere_get_the_jars() -> None:
    made = properties(EngineConfig(master="spark://host:7077"))
    assert made["spark.jars"] == "file:///c/iceberg.jar,file:///c/guard.jar"
    assert "spark.jars" not in properties()


def test_a_task_survives_the_loss_of_more_executors_than_by_spark_s_default() -> None:
    made = properties(EngineConfig(master="spark://host:7077"))
    assert int(made["spark.task.maxFailures"]) > 4
    assert "spark.task.maxFailures" not in properties()


@pytest.mark.parametrize(
    ("memory", "machine_bytes", "expected"),
    [(None, 64 * GB, 8 * GB), (None, 6 * GB, 3 * GB), ("2g", 64 * GB, 2 * GB), ("512m", 64 * GB, GB // 2)],
)
def test_the_heap_is_what_was_asked_for_or_at_most_half_the_machine(
    memory: str | None, machine_bytes: int, expected: int
) -> None:
    assert launch.heap_bytes(EngineConfig(memory=memory), machine_bytes) == expected


def test_a_heap_that_spark_would_not_start_with_is_refused() -> None:
    assert EngineConfig(memory="450m").memory == "450m"
    with pytest.raises(ValueError, match="less than 450m"):
        EngineConfig(memory="449m")


@pytest.mark.parametrize(
    ("master", "cores"),
    [("local", 1), ("local[3]", 3), ("local[3, 2]", 3), ("local[*]", 8), ("spark://h:7077", 8)],
)
def test_the_cores_of_a_master(master: str, cores: int) -> None:
    assert launch.local_cores(master, available=8) == cores


@pytest.mark.parametrize(
    ("master", "is_local"),
    [("local", True), ("local[*]", True), ("local-cluster[1,1,1]", False), ("yarn", False)],
)
def test_which_masters_are_local(master: str, is_local: bool) -> None:
    assert launch.is_local(master) is is_local


def test_properties_survive_javas_own_rules() -> None:
    text = launch.properties_text({"a b": " x\\y\nz", "c:d": "#e=f"})
    assert text == "a\\ b=\\ x\\\\y\\nz\nc\\:d=#e=f\n"


def test_a_private_file_is_readable_by_us_alone_and_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    launch.write_private(path, "one")
    launch.write_private(path, "two")
    assert path.read_text() == "two"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["secret"]


def test_spill_can_be_put_on_another_disk() -> None:
    config = EngineConfig(spill_dir=Path("/fast"))
    assert properties(config)["spark.local.dir"] == "/fast"
    assert properties()["spark.local.dir"] == "/data/spill"


def test_what_was_shuffled_does_not_stay_on_disk() -> None:
    made = properties()
    assert made["spark.sql.connect.shuffleDependency.fileCleanup.enabled"] == "true"
    assert made["spark.sql.classic.shuffleDependency.fileCleanup.enabled"] == "true"
    assert "io.bailiwick.Leftovers" in made["spark.extraListeners"].split(",")
