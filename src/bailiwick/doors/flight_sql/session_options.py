"""A client's session options: SetSessionOptions, GetSessionOptions, CloseSession, and USE and SET TIME ZONE.

An option that cannot be set is told so by its own name, and the others are set all the same: that is how the
protocol wants it. Nothing here reaches an engine; what was set holds from the session's next statement on.
"""

import math
from collections.abc import Awaitable, Callable
from dataclasses import fields, replace
from typing import assert_never

from bailiwick._generated import Flight_pb2 as flight
from bailiwick.doors.flight_sql.caller import Caller
from bailiwick.doors.flight_sql.wire import parse
from bailiwick.doors.flight_sql.wishes import checked_placement
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.names import InvalidNameError, Namespace, checked_namespace, spelled
from bailiwick.queries import session_statements
from bailiwick.queries.client_sessions import ClientSessions, SessionSettings
from bailiwick.queries.session_statements import SessionStatement, SetTimeZone, Use, UseCatalog
from bailiwick.queries.time_zones import checked_time_zone
from bailiwick.queries.verdict import CATALOGS

OPTIONS_MAX = 100
NAME_CHARS_MAX = 200
VALUE_CHARS_MAX = 4_096
TIMEOUT_S_MAX = 86_400.0 * 7

CATALOG = "catalog"
SCHEMA = "schema"
TIME_ZONE = "time_zone"
DOUBLE_QUOTED_IDENTIFIERS = "double_quoted_identifiers"
TIMEOUT_S = "timeout_s"
PLACEMENT = "placement"
NAMES = (CATALOG, SCHEMA, TIME_ZONE, DOUBLE_QUOTED_IDENTIFIERS, TIMEOUT_S, PLACEMENT)
"""In the order in which they are set: a schema belongs to its catalog."""

SchemaExists = Callable[[Principal, str, Namespace], Awaitable[bool]]
"""Whether this catalog has this namespace, as far as this principal may know."""

_Value = flight.SessionOptionValue
_Error = flight.SetSessionOptionsResult
_TRUTHS = {"true": True, "false": False}


class SessionOptions:
    def __init__(self, sessions: ClientSessions, schema_exists: SchemaExists) -> None:
        self._sessions = sessions
        self._schema_exists = schema_exists

    async def set(self, caller: Caller, body: bytes) -> bytes:
        """SetSessionOptions: each option that can be set is; a result with an error for each that cannot."""
        options = parse(flight.SetSessionOptionsRequest, body).session_options
        if len(options) > OPTIONS_MAX:
            raise BailiwickError(Code.INVALID_ARGUMENTS, f"At most {OPTIONS_MAX} options can be set at once.")
        wanted = dict(options)
        result = flight.SetSessionOptionsResult()
        settings = before = caller.settings
        for name in (*NAMES, *(name for name in wanted if name not in NAMES)):
            if name not in wanted:
                continue
            try:
                settings = await self._with(caller.principal, settings, name, wanted[name])
            except _UnknownOption:
                result.errors[name[:NAME_CHARS_MAX]].value = _Error.INVALID_NAME
            except BailiwickError:
                result.errors[name].value = _Error.INVALID_VALUE
        if settings != before:
            self._sessions.change(caller.session, _merged(caller.settings, before, settings))
        return result.SerializeToString()

    def get(self, caller: Caller, body: bytes) -> bytes:
        """GetSessionOptions: all that have a value."""
        parse(flight.GetSessionOptionsRequest, body)
        settings = caller.settings
        options = {
            CATALOG: _Value(string_value=settings.catalog),
            # As browsing tools are told it: they compare.
            SCHEMA: _Value(string_value=".".join(settings.namespace)),
            TIME_ZONE: _Value(string_value=settings.time_zone),
            DOUBLE_QUOTED_IDENTIFIERS: _Value(bool_value=settings.double_quoted_identifiers),
        }
        if settings.timeout_s is not None:
            options[TIMEOUT_S] = _Value(double_value=settings.timeout_s)
        if settings.placement is not None:
            options[PLACEMENT] = _Value(string_value=settings.placement)
        return flight.GetSessionOptionsResult(session_options=options).SerializeToString()

    def close(self, caller: Caller, body: bytes) -> bytes:
        """CloseSession: from here on the session's token is refused."""
        parse(flight.CloseSessionRequest, body)
        self._sessions.close(caller.session)
        return flight.CloseSessionResult(status=flight.CloseSessionResult.CLOSED).SerializeToString()

    async def perform(self, caller: Caller, statement: SessionStatement) -> None:
        """USE, SET CATALOG, SET TIME ZONE, as `session_statements.parse` reads them."""
        settings = before = caller.settings
        match statement:
            case Use(parts, is_inside_catalog):
                who = caller.principal
                settings = await self._used(who, settings, parts, is_inside_catalog=is_inside_catalog)
            case UseCatalog(catalog):
                settings = _with_catalog(settings, catalog)
            case SetTimeZone(time_zone):
                settings = replace(settings, time_zone=time_zone or SessionSettings().time_zone)
            case _:
                assert_never(statement)
        self._sessions.change(caller.session, _merged(caller.settings, before, settings))

    async def _used(
        self, who: Principal, settings: SessionSettings, parts: tuple[str, ...], *, is_inside_catalog: bool
    ) -> SessionSettings:
        """By Spark's own rule: a catalog of that name comes before a schema of that name."""
        if not is_inside_catalog and parts[0] in CATALOGS:
            settings, parts = _with_catalog(settings, parts[0]), parts[1:]
            if not parts:
                return replace(settings, namespace=())
        return await self._with_namespace(who, settings, parts)

    async def _with(
        self, who: Principal, settings: SessionSettings, name: str, value: _Value
    ) -> SessionSettings:
        """The settings with this option set, or as by default if the value is absent."""
        default = SessionSettings()
        is_erased = value.WhichOneof("option_value") is None
        match name:
            case "catalog":
                return _with_catalog(settings, default.catalog if is_erased else _text(value))
            case "schema":
                if is_erased or not _text(value):
                    return replace(settings, namespace=default.namespace)
                return await self._with_schema(who, settings, _text(value))
            case "time_zone":
                return replace(
                    settings,
                    time_zone=default.time_zone if is_erased else checked_time_zone(_text(value)),
                )
            case "double_quoted_identifiers":
                return replace(settings, double_quoted_identifiers=not is_erased and _truth(value))
            case "timeout_s":
                return replace(settings, timeout_s=None if is_erased else _seconds(value))
            case "placement":
                return replace(settings, placement=None if is_erased else checked_placement(_text(value)))
        raise _UnknownOption

    async def _with_schema(self, who: Principal, settings: SessionSettings, text: str) -> SessionSettings:
        """`a.b` is b in a; a name that holds a dot itself is in backticks, or is the only one there is."""
        parsed = session_statements.parse(f"USE SCHEMA {text}")
        if isinstance(parsed, Use) and await self._exists(who, settings, parsed.parts):
            return replace(settings, namespace=parsed.parts)
        return await self._with_namespace(who, settings, (text,))

    async def _with_namespace(
        self, who: Principal, settings: SessionSettings, parts: tuple[str, ...]
    ) -> SessionSettings:
        if not await self._exists(who, settings, parts):
            raise BailiwickError(Code.SCHEMA_NOT_FOUND, f"There is no schema {spelled(parts)}.")
        return replace(settings, namespace=parts)

    async def _exists(self, who: Principal, settings: SessionSettings, parts: tuple[str, ...]) -> bool:
        try:
            namespace = checked_namespace(parts)
        except InvalidNameError:
            return False
        return await self._schema_exists(who, settings.catalog, namespace)


class _UnknownOption(Exception):  # noqa: N818 - told to the client as a value, not raised to it
    """There is no option of this name."""


def _merged(current: SessionSettings, before: SessionSettings, after: SessionSettings) -> SessionSettings:
    """What changed from `before` to `after`, on top of what another call may have set meanwhile."""
    names = [each.name for each in fields(SessionSettings)]
    changes = {name: getattr(after, name) for name in names if getattr(after, name) != getattr(before, name)}
    return replace(current, **changes)


def _with_catalog(settings: SessionSettings, catalog: str) -> SessionSettings:
    if catalog not in CATALOGS:
        raise BailiwickError(Code.CATALOG_NOT_FOUND, f"There is no catalog {spelled((catalog,))}.")
    namespace = settings.namespace if catalog == settings.catalog else ()
    return replace(settings, catalog=catalog, namespace=namespace)


def _text(value: _Value) -> str:
    if value.WhichOneof("option_value") != "string_value" or len(value.string_value) > VALUE_CHARS_MAX:
        raise _bad_value("a text")
    return value.string_value


def _truth(value: _Value) -> bool:
    """Drivers that know only texts say `true` and `false`."""
    if value.WhichOneof("option_value") == "bool_value":
        return value.bool_value
    truth = _TRUTHS.get(_text(value).lower())
    if truth is None:
        raise _bad_value("true or false")
    return truth


def _seconds(value: _Value) -> float:
    match value.WhichOneof("option_value"):
        case "double_value":
            seconds = value.double_value
        case "int64_value":
            seconds = float(value.int64_value)
        case _:
            try:
                seconds = float(_text(value))
            except ValueError:
                raise _bad_value("a number of seconds") from None
    if not math.isfinite(seconds) or not 0 < seconds <= TIMEOUT_S_MAX:
        raise _bad_value(f"a number of seconds between 0 and {TIMEOUT_S_MAX:g}")
    return seconds


def _bad_value(wanted: str) -> BailiwickError:
    return BailiwickError(Code.INVALID_ARGUMENTS, f"The option's value must be {wanted}.")
