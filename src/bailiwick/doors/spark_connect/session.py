"""One client's session: what it is made of, what runs in it, and what it was told.

Whose it is, and when it ends, is for `sessions.py` to say.
"""

import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

from bailiwick.doors.spark_connect.brought_rows import BroughtRows
from bailiwick.doors.spark_connect.config import SparkConnectConfig
from bailiwick.doors.spark_connect.engine_session import Dedicating, OwnEngineSession
from bailiwick.doors.spark_connect.errors import Told, details_of
from bailiwick.doors.spark_connect.operations import Operations
from bailiwick.doors.spark_connect.recipe import Recipe
from bailiwick.engines.description import Description
from bailiwick.queries.client_sessions import ClientSession

TIME_ZONE: Final = "spark.sql.session.timeZone"
ERRORS_KEPT_MAX: Final = 100


class Session:
    """One client's session. What it is made of is its recipe; what runs in it, its operations."""

    def __init__(
        self,
        session_id: str,
        shown: ClientSession,
        dedicating: Dedicating,
        config: SparkConnectConfig,
        brought_rows: BroughtRows,
        plain_settings: dict[str, str | None],
        now: float,
        on_change: "Callable[[Session], None]",
    ) -> None:
        self._on_change = on_change
        self.id = session_id
        self.server_side_id = str(uuid.uuid4())
        self.shown = shown
        self._recipe = Recipe()
        self.descriptions: OrderedDict[Any, Description] = OrderedDict()
        """What texts are that were sent in it, as long as nothing changes. See `texts.py`."""
        self.settings_seen = plain_settings
        """What an engine said its settings are; None for those that it does not have. Until something changes
        in it, a session shares what is seen with all others: engines say the same to each.
        """
        self.operations = Operations(config.operations_max)
        self.brought_rows = brought_rows
        self.engine = OwnEngineSession(
            session_id, dedicating, lambda: self.recipe, self.forget_view, brought_rows.put_into
        )
        self.last_used_at = now
        self.in_use = 0
        """Calls that are being answered."""
        self._errors: OrderedDict[str, Any] = OrderedDict()

    @property
    def is_busy(self) -> bool:
        return self.in_use > 0 or self.operations.is_busy

    @property
    def is_plain(self) -> bool:
        """Whether it is, so far, as any other that was just begun."""
        return not self.engine.is_open and self.recipe.is_empty and self.recipe.lost is None

    @property
    def recipe(self) -> Recipe:
        return self._recipe

    def change(self, recipe: Recipe) -> None:
        """From now on the session is made of this."""
        self._recipe = recipe
        self.descriptions.clear()
        self.settings_seen = {}
        self._on_change(self)

    def note_code(self) -> None:
        """Something with code of its client's is to run in it: from now on it lives where that may."""
        if not self.recipe.has_code:
            self.change(self.recipe.with_code())

    def forget_view(self, name: str) -> None:
        self.change(self.recipe.without_view(name))

    def keep_error(self, told: Told) -> str:
        """Remember it for the call by which the client asks for its details; gives the name to ask by."""
        error_id = str(uuid.uuid4())
        self._errors[error_id] = details_of(told)
        if len(self._errors) > ERRORS_KEPT_MAX:
            self._errors.popitem(last=False)
        return error_id

    def error_details(self, error_id: str) -> Any | None:
        """Once, as Spark has it."""
        return self._errors.pop(error_id, None)

    async def end(self) -> None:
        await self.operations.close()
        self.brought_rows.close()
        await self.engine.give_back()
