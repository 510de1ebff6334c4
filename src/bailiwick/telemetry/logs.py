"""One line an event, for people or for machines.

Every line carries the query id, trace id and principal of the context it was written in, and none a secret:
values under telling names are dropped and texts are searched. Libraries speak only from warnings upwards.
This module is called once, at start; everyone else asks `logger(__name__)`.
"""

import logging
import sys
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Final, TextIO, cast

import structlog
from structlog.typing import EventDict, FilteringBoundLogger, Processor, WrappedLogger

from bailiwick.secrets import Secret
from bailiwick.telemetry import breadcrumbs
from bailiwick.telemetry.config import LoggingConfig
from bailiwick.telemetry.scrub import bounded, scrub_secrets

VALUE_LENGTH_MAX: Final = 64_000
_DEPTH_MAX: Final = 4
_PLACEHOLDER: Final = "<secret>"
_TELLING_NAMES: Final = (
    "password",
    "passwd",
    "secret",
    "token",
    "authorization",
    "credential",
    "api_key",
    "cookie",
)
# Ends of names that tell a telling name apart from a harmless one: `token_id`, `token_s`, `token_count`.
_HARMLESS_ENDS: Final = ("_id", "_s", "_count", "_file", "_max")
_LEVELS: Final = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def configure(config: LoggingConfig, *, stream: TextIO | None = None) -> None:
    """Say where log lines go and how they look. May be called again, for instance by a test."""
    target = stream if stream is not None else sys.stderr
    level = _LEVELS[config.level]
    structlog.configure(
        processors=[*_ours(), _renderer(config, target)],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(file=target),
        cache_logger_on_first_use=False,
    )
    _configure_libraries(config, target)
    breadcrumbs.switch(config.breadcrumbs)


def logger(name: str) -> FilteringBoundLogger:
    """A logger that says which part of the house speaks: `logger(__name__)`."""
    return cast(FilteringBoundLogger, structlog.get_logger(component=name.removeprefix("bailiwick.")))


def about(*, query_id: str | None = None, principal: str | None = None) -> AbstractContextManager[object]:
    """Lines written inside this block, also by tasks started in it, name these."""
    known = {"query_id": query_id, "principal": principal}
    return structlog.contextvars.bound_contextvars(**{name: value for name, value in known.items() if value})


def without_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """The last word before a line is rendered."""
    return {name: _cleaned(name, value, 0) for name, value in event.items()}


def _ours() -> list[Processor]:
    return [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        # Rendered here rather than by the console's pretty printer, which would show local variables.
        structlog.processors.format_exc_info,
        without_secrets,
    ]


def _renderer(config: LoggingConfig, target: TextIO) -> Processor:
    if config.format == "json":
        return structlog.processors.JSONRenderer(default=str, ensure_ascii=False)
    return structlog.dev.ConsoleRenderer(
        colors=target.isatty(), exception_formatter=structlog.dev.plain_traceback, pad_event_to=24
    )


def _configure_libraries(config: LoggingConfig, target: TextIO) -> None:
    """Third parties log through the standard library: from warnings upwards, in our format."""
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *_ours(),
                _renderer(config, target),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(_LEVELS[config.level], logging.WARNING))
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access", "asyncio", "grpc", "aiosqlite", "sqlalchemy"):
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = True
        library.setLevel(logging.NOTSET)


def _cleaned(name: str, value: Any, depth: int) -> Any:
    if isinstance(value, Secret) or (_is_telling(name) and value not in (None, "", True, False)):
        return _PLACEHOLDER
    if isinstance(value, str):
        return scrub_secrets(bounded(value, VALUE_LENGTH_MAX))
    if isinstance(value, bytes):
        return f"<{len(value)} bytes>"
    if isinstance(value, Mapping) and depth < _DEPTH_MAX:
        return {key: _cleaned(str(key), item, depth + 1) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset) and depth < _DEPTH_MAX:
        return [_cleaned(name, item, depth + 1) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return scrub_secrets(bounded(str(value), VALUE_LENGTH_MAX))


def _is_telling(name: str) -> bool:
    lowered = name.lower()
    return not lowered.endswith(_HARMLESS_ENDS) and any(telling in lowered for telling in _TELLING_NAMES)
