"""Guides do what they say: every snippet of a page runs, and prints what the page shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from guide_pages import GUIDES, blocks

from bailiwick.testing.gateway import RunningGateway
from flight_sql.foreign_clients import run_java, run_node

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ADDRESS = "localhost:50051"
RUN_S = 120.0


def code_of(page: str, language: str) -> str:
    return "\n".join(blocks(page, language))


def snippet(page: str, language: str, gateway: RunningGateway) -> str:
    """The page's code, with the address of this gateway instead of the usual one."""
    host, port = gateway.grpc_address.rsplit(":", 1)
    code = code_of(page, language).replace(ADDRESS, gateway.grpc_address)
    for usual, ours in (('"localhost"', f'"{host}"'), ("50051", port)):
        code = code.replace(usual, ours)
    return code


def environment() -> dict[str, str]:
    """As a person has it: drivers behave otherwise when they see that a test is running."""
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


@pytest.mark.parametrize("page", ["adbc", "pandas", "polars", "pyarrow", "sending-again", "sqlalchemy"])
def test_the_python_of_a_guide_prints_what_the_guide_shows(
    gateway: RunningGateway, tmp_path: Path, page: str
) -> None:
    script = tmp_path / f"guide_{page}.py"
    script.write_text(snippet(page, "python", gateway))
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        env={**environment(), "BAILIWICK_PASSWORD": gateway.admin_password},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == code_of(page, "text").replace("\n\n", "\n")


def test_the_java_of_the_guide_prints_what_the_guide_shows(gateway: RunningGateway, tmp_path: Path) -> None:
    source = tmp_path / "Orders.java"
    source.write_text(snippet("jdbc", "java", gateway))
    printed = run_java(source, tmp_path, {"BAILIWICK_PASSWORD": gateway.admin_password})
    assert printed == code_of("jdbc", "text")


def test_the_javascript_of_the_guide_prints_what_the_guide_shows(
    gateway: RunningGateway, tmp_path: Path
) -> None:
    source = tmp_path / "orders.js"
    source.write_text(snippet("node", "js", gateway))
    assert run_node(source, {"BAILIWICK_PASSWORD": gateway.admin_password}) == code_of("node", "text")


def test_every_guide_of_a_client_is_run() -> None:
    run = {"adbc", "pandas", "polars", "pyarrow", "sending-again", "sqlalchemy", "jdbc", "node"}
    with_code = {
        page.stem for page in GUIDES.glob("*.md") if re.search(r"```(python|java|js)\n", page.read_text())
    }
    # What is about certificates needs a gateway with some; what is about traces, a collector. PySpark's is
    # run with the other tests of its door.
    assert with_code - {"tls", "tracing", "pyspark"} == run
