"""How a stock client connects. Runs inside its environment; `TOKEN` says as whom."""

import os
from typing import Any

_KEPT: list[Any] = []


def connect(address: str, token: str | None = None) -> Any:
    """A session of its own. Without a token that of the environment is taken, if there is one."""
    os.environ["ADDRESS"] = address
    return _session(address, token or os.environ.get("TOKEN"))


def another(token: str | None = None, session_id: str | None = None) -> Any:
    """One more session at the same address."""
    return _session(os.environ["ADDRESS"], token or os.environ.get("TOKEN"), session_id)


def url() -> str:
    """Where and as whom the process is connected, as a builder takes it."""
    return _url(os.environ["ADDRESS"], os.environ.get("TOKEN"))


def _session(address: str, token: str | None, session_id: str | None = None) -> Any:
    from pyspark.sql import SparkSession

    url = _url(address, token) + (f";session_id={session_id}" if session_id else "")
    return kept(SparkSession.builder.remote(url).create())


def kept(session: Any) -> Any:
    """The same, for as long as the process lives.

    A session that is collected waits for a pool of threads that all sessions share, and if one of these
    threads happens to collect it, they wait for each other for good.
    """
    _KEPT.append(session)
    return session


def _url(address: str, token: str | None) -> str:
    # The client sends a token over plaintext only to a host that is spelled `localhost`.
    return f"sc://localhost:{address.rpartition(':')[2]}/" + (f";token={token}" if token else "")
