"""What a keeper may be told, and the sentences for what it may not."""

import stat
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import pkcs12

from bailiwick.engines import launch
from bailiwick.engines.config import EngineConfig
from bailiwick.engines.jars import Jars
from bailiwick.engines.java import Java
from bailiwick.errors import CannotStartError
from bailiwick.ids import NodeId
from bailiwick.keeper.config import GatewayUrl, KeeperConfig, KeeperFiles, default_name, read_properties
from bailiwick.keeper.trust import write_trust_store
from bailiwick.testing.certificates import Authority

CONFIG = KeeperConfig(
    gateway=GatewayUrl("127.0.0.1", 8080, False),
    engine=EngineConfig(master="local[2]"),
    data_directory=Path("/data"),
    token_file=Path("/data/tokens"),
    name=NodeId("engine-1"),
)
FILES = KeeperFiles(Path("c.pem"), Path("k.pem"), Path("a.pem"))
JARS = Jars(Path("/p/pyspark/jars"), Path("/c/iceberg.jar"), Path("/c/guard.jar"))
SECRET = {"spark.authenticate.secret": "a-secret-of-the-cluster"}


def properties(config: KeeperConfig) -> dict[str, str]:
    return launch.engine_properties(
        config.engine,
        launch.Places.under(Path("/data"), config.engine),
        JARS,
        token="t",
        catalog_uri="https://gateway.example:8081/iceberg",
        cores=2,
        surroundings=config.surroundings(None),
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://localhost:8080/", "http://localhost:8080"),
        ("http://[::1]:8080", "http://[::1]:8080"),
        ("https://gateway.example", "https://gateway.example:443"),
        ("https://gateway.example:8443", "https://gateway.example:8443"),
    ],
)
def test_a_gateway_is_named_by_its_url(text: str, shown: str) -> None:
    assert str(GatewayUrl.parse(text)) == shown


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gateway.example",
        "grpc://gateway.example",
        "https://",
        "https://gateway.example/path",
        "https://user:word@gateway.example",
        "https://gateway.example?x=1",
        "https://gateway.example:99999",
        "http://[::1",
    ],
)
def test_what_is_no_url_of_a_gateway_is_refused_without_repeating_it(text: str) -> None:
    with pytest.raises(CannotStartError, match="https://HOST:PORT") as refused:
        GatewayUrl.parse(text)
    assert "word" not in str(refused.value)


@pytest.mark.parametrize("host", ["gateway.example", "10.0.0.1"])
def test_secrets_are_never_sent_in_the_clear_to_another_machine(host: str) -> None:
    with pytest.raises(CannotStartError, match="use https://"):
        GatewayUrl.parse(f"http://{host}:8080")


def test_a_keeper_on_this_machine_needs_no_certificates() -> None:
    CONFIG.check()


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (replace(CONFIG, bind="10.0.0.1"), "give --certificate"),
        (replace(CONFIG, bind="engine-1.example"), "give --certificate"),
        (replace(CONFIG, bind="::ffff:0:0", files=FILES), "unspecified"),
        (replace(CONFIG, bind="::", files=FILES), "unspecified"),
        (replace(CONFIG, bind="224.0.0.1", files=FILES), "multicast"),
        (replace(CONFIG, bind="not a host", files=FILES), "--bind"),
        (replace(CONFIG, name=NodeId("embedded")), "--name"),
        (replace(CONFIG, name=NodeId("a b")), "--name"),
        (replace(CONFIG, engine_class=""), "--class"),
        (replace(CONFIG, more={"spark.sql.extensions": "x"}), "spark.sql.extensions"),
        (replace(CONFIG, more={"spark.plugins": "x"}), "spark.plugins"),
        (replace(CONFIG, more={"spark.bailiwick.catalogs": "x"}), "spark.bailiwick.catalogs"),
    ],
)
def test_what_cannot_be_right_is_refused_before_anything_is_started(config: KeeperConfig, said: str) -> None:
    with pytest.raises(CannotStartError, match=said):
        config.check()


def test_a_standalone_cluster_on_other_machines_needs_a_secret_and_gets_encryption() -> None:
    cluster = replace(
        CONFIG, bind="10.0.0.1", files=FILES, engine=EngineConfig(master="spark://10.0.0.9:7077")
    )
    with pytest.raises(CannotStartError, match=r"spark\.authenticate\.secret"):
        cluster.check()
    for weakened in ("spark.authenticate", "spark.network.crypto.enabled"):
        with pytest.raises(CannotStartError, match=weakened):
            replace(cluster, more=SECRET | {weakened: "false"}).check()
    safe = replace(cluster, more=SECRET)
    safe.check()
    made = properties(safe)
    assert made["spark.authenticate"] == made["spark.network.crypto.enabled"] == "true"
    assert made["spark.authenticate.secret"] == SECRET["spark.authenticate.secret"]
    assert made["spark.driver.host"] == made["spark.driver.bindAddress"] == "10.0.0.1"
    assert made["spark.connect.grpc.binding.address"] == "127.0.0.1"


def test_an_engine_of_this_machine_keeps_to_loopback() -> None:
    made = properties(CONFIG)
    assert made["spark.driver.host"] == made["spark.connect.grpc.binding.address"] == "127.0.0.1"


def test_a_local_engine_behind_a_routable_keeper_keeps_to_loopback_too() -> None:
    made = properties(replace(CONFIG, bind="10.0.0.1", files=FILES))
    assert made["spark.driver.host"] == "127.0.0.1"
    assert made["spark.authenticate"] == "true"


def test_properties_are_read_from_a_private_file(tmp_path: Path) -> None:
    file = tmp_path / "cluster.properties"
    file.write_text("# ours\nspark.executor.memory 4g\nspark.cores.max=8\n\nspark.authenticate.secret  a b\n")
    file.chmod(0o644)
    with pytest.raises(CannotStartError, match="0600"):
        read_properties(file)
    file.chmod(0o600)
    assert read_properties(file) == {
        "spark.executor.memory": "4g",
        "spark.cores.max": "8",
        "spark.authenticate.secret": "a b",
    }
    file.write_text("spark.cores.max 8\nspark.cores.max 9\n")
    with pytest.raises(CannotStartError, match="line 2"):
        read_properties(file)
    with pytest.raises(CannotStartError, match="No such file"):
        read_properties(tmp_path / "none")


@pytest.mark.filterwarnings("ignore:Parsed a serial number")
def test_the_trust_store_holds_the_authority_besides_the_usual_ones(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    store = write_trust_store(authority.file, tmp_path / "engine.truststore")
    assert stat.S_IMODE(store.stat().st_mode) == 0o600
    held = pkcs12.load_pkcs12(store.read_bytes(), None).additional_certs
    subjects = {each.certificate.subject.rfc4514_string() for each in held}
    assert "CN=Test CA" in subjects
    command = launch.java_command(
        Java(Path("/j/bin/java"), "17.0.15"),
        JARS,
        launch.Places.under(tmp_path, EngineConfig()),
        heap_bytes=1 << 30,
        trust_store=store,
    )
    assert f"-Djavax.net.ssl.trustStore={store}" in command
    with pytest.raises(CannotStartError, match="--authority"):
        write_trust_store(tmp_path / "none.pem", tmp_path / "engine.truststore")


def test_the_default_name_is_one_that_is_accepted() -> None:
    replace(CONFIG, name=default_name()).check()
