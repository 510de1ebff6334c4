"""The Config call: what a client reads and sets of Spark's settings, by the lists of `configs.py`.

What a client has set is part of its session's recipe; everything else it reads is the engine's.
"""

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from pyspark.sql.connect import proto

from bailiwick.doors.spark_connect import configs
from bailiwick.doors.spark_connect.engine_session import settings
from bailiwick.doors.spark_connect.session import Session
from bailiwick.doors.spark_connect.sessions import Sessions
from bailiwick.doors.spark_connect.shared_session import Place
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal

SETTINGS_SEEN_MAX = 1_000
T = TypeVar("T")
Pairs = list[tuple[str, str | None]]


class Settings:
    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def answer(self, session: Session, principal: Principal, operation: Any) -> Any:
        """The `ConfigResponse`, without the session's names."""
        pairs: Pairs = []
        warnings: list[str] = []
        kind = operation.WhichOneof("op_type")
        match kind:
            case "set":
                given = [(pair.key, pair.value) for pair in operation.set.pairs]
                warnings = await self.set(session, principal, given, is_silent=operation.set.silent)
            case "unset":
                await self._unset(session, principal, _few(operation.unset.keys))
            case "get":
                found = await self._read(session, principal, _few(operation.get.keys))
                pairs = [(key, _present(key, found)) for key in operation.get.keys]
            case "get_option":
                found = await self._read(session, principal, _few(operation.get_option.keys))
                pairs = [(key, found.get(key)) for key in operation.get_option.keys]
            case "get_with_default":
                asked = {
                    pair.key: pair.value if pair.HasField("value") else None
                    for pair in operation.get_with_default.pairs
                }
                found = await self._read(session, principal, _few(asked))
                pairs = [(key, found.get(key, default)) for key, default in asked.items()]
            case "get_all":
                pairs = await self._all(session, principal, operation.get_all.prefix)
            case "is_modifiable":
                keys = _few(operation.is_modifiable.keys)
                pairs = [(key, "true" if key in configs.SETTABLE else "false") for key in keys]
            case _:
                raise BailiwickError(Code.PARSE_ERROR, "The call says nothing to do with settings.")
        return proto.ConfigResponse(
            pairs=[proto.KeyValue(key=key, value=value) for key, value in pairs], warnings=warnings
        )

    async def get(self, session: Session, principal: Principal, key: str) -> str:
        """SQL_CONF_NOT_FOUND if there is none of that name, or none that may be known."""
        return _present(key, await self._read(session, principal, [key]))

    async def set(
        self,
        session: Session,
        principal: Principal,
        given: Sequence[tuple[str, str]],
        *,
        is_silent: bool = False,
    ) -> list[str]:
        """Set these, or none. With `is_silent` what cannot be set is passed over, and told."""
        wanted, warnings = dict[str, str](), list[str]()
        for key, value in _few(given):
            if key in configs.IGNORED:
                continue
            try:
                wanted[key] = configs.checked(key, value)
            except BailiwickError as error:
                if not is_silent:
                    raise
                warnings.append(error.message)
        news = {key: value for key, value in wanted.items() if session.recipe.confs.get(key) != value}
        if news:
            if session.engine.is_open:
                await self._on_engine(session, principal, settings(news.items()))
            recipe = session.recipe
            for key, value in news.items():
                recipe = recipe.with_conf(key, value)
            session.change(recipe)
        return warnings

    async def _unset(self, session: Session, principal: Principal, keys: Sequence[str]) -> None:
        for key in keys:
            if key not in configs.SETTABLE and key not in configs.IGNORED:
                raise configs.not_settable(key)
        held = [key for key in keys if key in session.recipe.confs]
        if not held:
            return
        operation = proto.ConfigRequest.Operation()
        operation.unset.keys.extend(held)
        if session.engine.is_open:
            await self._on_engine(session, principal, operation)
        recipe = session.recipe
        for key in held:
            recipe = recipe.without_conf(key)
        session.change(recipe)

    async def _read(self, session: Session, principal: Principal, keys: Sequence[str]) -> dict[str, str]:
        """Those of them that there are, and that may be known."""
        known = {**session.recipe.confs, **configs.FIXED}
        found = {key: known[key] for key in keys if key in known}
        others = [key for key in keys if key not in known and configs.is_readable(key)]
        unseen = [key for key in others if key not in session.settings_seen]
        if unseen:
            operation = proto.ConfigRequest.Operation()
            operation.get_option.keys.extend(unseen)
            answer = await self._told(session, principal, operation)
            told = {pair.key: pair.value for pair in answer.pairs if pair.HasField("value")}
            shown = {key: value for key, value in told.items() if configs.is_showable(key, value)}
            if len(session.settings_seen) < SETTINGS_SEEN_MAX:
                # Nobody but its client changes the settings of a session, and that is known here.
                session.settings_seen.update({key: shown.get(key) for key in unseen})
            found.update(shown)
        for key in others:
            if (seen := session.settings_seen.get(key)) is not None:
                found[key] = seen
        return found

    async def _all(self, session: Session, principal: Principal, prefix: str) -> Pairs:
        operation = proto.ConfigRequest.Operation()
        operation.get_all.SetInParent()
        answer = await self._told(session, principal, operation)
        shown = configs.readable((pair.key, pair.value) for pair in answer.pairs)
        shown.update(session.recipe.confs)
        # With a prefix Spark gives the rest of each name only.
        return [(key.removeprefix(prefix), shown[key]) for key in sorted(shown) if key.startswith(prefix)]

    async def _told(self, session: Session, principal: Principal, operation: Any) -> Any:
        """What changes nothing is not worth a session of one's own."""

        async def read(place: Place) -> Any:
            async with place.lease(principal, None, self._sessions.work_for(principal)) as lease:
                return await lease.session.config(operation)

        if session.is_plain:
            return await self._sessions.ask_anywhere(session, principal, read)
        return await self._on_engine(session, principal, operation)

    async def _on_engine(self, session: Session, principal: Principal, operation: Any) -> Any:
        return await self._sessions.ask(session, principal, lambda own: own.session.config(operation))


def _present(key: str, found: dict[str, str]) -> str:
    if key not in found:
        raise configs.not_found(key)
    return found[key]


def _few(given: Iterable[T]) -> list[T]:
    listed = list(given)
    if len(listed) > configs.KEYS_MAX:
        raise BailiwickError(Code.INVALID_ARGUMENTS, f"At most {configs.KEYS_MAX} settings at a time.")
    return listed
