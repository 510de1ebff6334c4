"""The debug switch: one log line for each step of each query, with the time since the query began.

Off, a breadcrumb costs one comparison. On, it tells where a slow query spent its time. It is not a metric and
not a trace: nothing is kept.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import structlog

from bailiwick.clock import Clock, monotonic

_enabled = False
_began_at: ContextVar[float | None] = ContextVar("breadcrumbs_began_at", default=None)


def switch(on: bool) -> None:
    """Turn breadcrumbs on or off for the whole process."""
    global _enabled  # noqa: PLW0603 - one switch for the process, read on every step of every query
    _enabled = on


def is_on() -> bool:
    return _enabled


@contextmanager
def trail(query_id: str, *, clock: Clock = monotonic) -> Iterator[None]:
    """Steps inside this block, and in tasks started in it, belong to `query_id` and count from now."""
    token = _began_at.set(clock())
    try:
        with structlog.contextvars.bound_contextvars(query_id=query_id):
            yield
    finally:
        _began_at.reset(token)


def breadcrumb(step: str, *, clock: Clock = monotonic, **facts: object) -> None:
    """Say that the query of this context has come to `step`."""
    if not _enabled:
        return
    began_at = _began_at.get()
    if began_at is not None:
        facts["elapsed_ms"] = round((clock() - began_at) * 1000, 1)
    structlog.get_logger("breadcrumbs").info("breadcrumb", step=step, **facts)
