"""Log lines say which query they are about, and never a secret."""

import asyncio
import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import structlog

from bailiwick.secrets import Secret
from bailiwick.telemetry import breadcrumbs, logs
from bailiwick.telemetry.breadcrumbs import breadcrumb, trail
from bailiwick.telemetry.config import LoggingConfig


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    breadcrumbs.switch(False)
    root.handlers[:], root.level = handlers, level


def logging_to(**settings: Any) -> io.StringIO:
    stream = io.StringIO()
    logs.configure(LoggingConfig.model_validate({"format": "json", **settings}), stream=stream)
    return stream


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


def test_a_line_names_its_part_of_the_house_level_and_time() -> None:
    stream = logging_to()
    logs.logger("bailiwick.queries.service").info("started", rows=3)
    [line] = lines(stream)
    assert (line["component"], line["level"], line["event"], line["rows"]) == (
        "queries.service",
        "info",
        "started",
        3,
    )
    assert line["timestamp"].endswith("Z")


async def test_lines_of_tasks_name_the_query_they_were_started_for() -> None:
    stream = logging_to()

    async def work(query_id: str) -> None:
        with logs.about(query_id=query_id, principal="ann"):
            await asyncio.sleep(0)
            logs.logger("x").info("step")

    await asyncio.gather(work("q1"), work("q2"))
    logs.logger("x").info("outside")
    assert [line.get("query_id") for line in lines(stream)] == ["q1", "q2", None]
    assert lines(stream)[0]["principal"] == "ann"


@pytest.mark.parametrize("format_name", ["json", "console"])
def test_no_secret_is_written_under_whatever_name(format_name: str) -> None:
    stream = logging_to(format=format_name)
    logs.logger("x").info(
        "signed in",
        password="geheim",
        headers={"Authorization": "Bearer geheim.12345678", "x": ["token=geheim"]},
        sql="ALTER USER ann PASSWORD 'geheim'",
        wrapped=Secret("geheim"),
        raw=b"geheim",
    )
    assert "geheim" not in stream.getvalue()
    assert "signed in" in stream.getvalue()


@pytest.mark.parametrize("format_name", ["json", "console"])
def test_a_traceback_is_written_without_secrets_and_without_local_variables(format_name: str) -> None:
    stream = logging_to(format=format_name)
    local = "hidden local"
    try:
        raise ValueError(f"{len(local)} token=geheim123")
    except ValueError:
        logs.logger("x").exception("failed")
    assert "ValueError" in stream.getvalue()
    assert "test_logs.py" in stream.getvalue()
    assert "geheim123" not in stream.getvalue()
    assert "hidden local" not in stream.getvalue().replace('local = "hidden local"', "")


def test_harmless_names_that_sound_like_secrets_are_kept() -> None:
    stream = logging_to()
    logs.logger("x").info("made", token_id="t1", token_s=3600)
    [line] = lines(stream)
    assert (line["token_id"], line["token_s"]) == ("t1", 3600)


def test_lines_below_the_level_are_not_written() -> None:
    stream = logging_to(level="warning")
    logs.logger("x").info("quiet")
    logs.logger("x").warning("loud")
    assert [line["event"] for line in lines(stream)] == ["loud"]


def test_libraries_speak_only_from_warnings_upwards_and_in_our_format() -> None:
    stream = logging_to(level="debug")
    logging.getLogger("uvicorn.access").info("GET /healthz")
    logging.getLogger("grpc").warning("password=geheim lost %s", "peer")
    [line] = lines(stream)
    assert line["logger"] == "grpc"
    assert line["event"] == "password=<secret> lost peer"


def test_a_value_of_megabytes_is_cut() -> None:
    stream = logging_to()
    logs.logger("x").info("long", text="x" * 1_000_000)
    assert len(stream.getvalue()) < 100_000


def test_breadcrumbs_are_silent_until_switched_on() -> None:
    stream = logging_to()
    with trail("q1"):
        breadcrumb("leased")
    assert stream.getvalue() == ""


def test_breadcrumbs_tell_the_step_the_query_and_the_time_since_it_began() -> None:
    stream = logging_to(breadcrumbs=True)
    moments = iter([100.0, 100.25, 101.5])
    with trail("q1", clock=lambda: next(moments)):
        breadcrumb("leased", clock=lambda: next(moments), session=3)
        breadcrumb("described", clock=lambda: next(moments))
    breadcrumb("outside")
    first, second, outside = lines(stream)
    assert (first["step"], first["query_id"], first["elapsed_ms"], first["session"]) == (
        "leased",
        "q1",
        250.0,
        3,
    )
    assert (second["step"], second["elapsed_ms"]) == ("described", 1500.0)
    assert "query_id" not in outside


def test_logs_are_there_without_what_draws_pictures() -> None:
    """They are imported before Spark is begun: what they take along is waited for at every start."""
    script = """
import sys, io
from bailiwick.telemetry import logs
from bailiwick.telemetry.config import LoggingConfig
stream = io.StringIO()
logs.configure(LoggingConfig(format="console"), stream=stream)
try:
    raise ValueError("boom")
except ValueError:
    logs.logger("x").exception("broke")
assert "ValueError: boom" in stream.getvalue()
print([name for name in ("rich", "opentelemetry", "google", "pyarrow") if name in sys.modules])
import rich.console
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == "[]"
