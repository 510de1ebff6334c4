"""A house whose engine has one session, which three people use in turns, with a book of whose it was."""

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from bailiwick.testing.asking import rows, value, wait_until
from bailiwick.testing.faults import House, Part
from bailiwick.testing.gateway import running_gateway
from bailiwick.testing.inside import GATED_NAMESPACE
from bailiwick.testing.lease_book import BookedInside, Happened
from bailiwick.testing.line import Line, laid
from faults.switches.crossings import Kept, Said, crossings
from faults.switches.people import LETTERS, LETTERS_EACH, NAMES, PASSWORD, SHARED, statements

SETTINGS = {
    "BAILIWICK__ENGINE__MEMORY": "1g",
    # One session for all.
    "BAILIWICK__POOL__SESSIONS": "1",
    "BAILIWICK__POOL__LONG_RUNNING_MAX": "0",
    # A hanging engine is noticed soon.
    "BAILIWICK__LIMITS__STREAM_IDLE_S": "3",
    "BAILIWICK__LIMITS__TIMEOUT_S": "90",
    "BAILIWICK__SERVER__DRAIN_S": "1",
}
WELL_WITHIN_S = 120.0


class SharedHouse(House):
    """The way to the engine is a line, and the engine comes back by itself."""

    def __init__(self, directory: Path, stack: ExitStack) -> None:
        self.inside = BookedInside(directory / "inside", lambda: self._line.address)
        self._line = stack.enter_context(laid(self.inside.engine))
        settings = {**SETTINGS, **self.inside.settings}
        self.gateway = stack.enter_context(running_gateway(directory / "data", settings=settings))
        self._marks: dict[str, str] = {}
        rows(self.gateway, f"CREATE NAMESPACE lake.{GATED_NAMESPACE}")
        for statement in statements():
            rows(self.gateway, statement)

    def pids(self, part: Part, node_id: str | None) -> Sequence[int]:
        del node_id  # There is one engine.
        if part is not Part.ENGINE:
            raise LookupError(f"this house has no {part}")
        return [self.gateway.engine_pid]

    def lines(self, node_id: str | None) -> Sequence[Line]:
        del node_id
        return [self._line]

    def mend(self) -> None:
        """All of it comes back by itself."""

    def wait_well(self) -> None:
        count = f"SELECT count(*) FROM {LETTERS}"
        letters = LETTERS_EACH * len(NAMES)
        wait_until("well again", lambda: value(self.gateway, count) == letters, WELL_WITHIN_S)

    def states(self) -> dict[str, str]:
        """The state of everyone's newest query, by the word in its remark."""
        sql = "SELECT sql, state FROM system.runtime.queries ORDER BY created_at"
        return {_remark(text): state for text, state in rows(self.gateway, sql)}

    def crossings(self, said: Sequence[Said]) -> list[str]:
        """What has crossed, in what these were given, and in all that anybody ever wrote."""
        self._marks |= {one.ask.mark: one.ask.who for one in said}
        written = rows(self.gateway, f"SELECT mark, n, owner, word FROM {SHARED}")
        kept = [Kept(mark, tuple(row)) for mark, *row in written]
        return [*crossings(said, self.inside.entries(), kept, self._marks), *self._remembered()]

    def forget(self) -> None:
        """What sabotage left behind is nobody's business afterwards."""
        rows(self.gateway, f"DELETE FROM {SHARED}")
        self.inside.begin_anew()

    def wait_changed(self, who: str) -> None:
        """Return when the last change of the catalog that was let through is this person's."""
        wait_until("changed", lambda: self._last_change() == who)

    def _remembered(self) -> list[str]:
        """Others' words in what each of them is shown of the past."""
        sql = "SELECT sql, error_message, failed_attempts FROM system.runtime.queries"
        told = {who: str(rows(self.gateway, sql, who, PASSWORD)) for who in NAMES}
        return [
            f"{who} finds {other} in the history"
            for who in NAMES
            for other in NAMES
            if other != who and other in told[who]
        ]

    def _last_change(self) -> str | None:
        changed = [entry.who for entry in self.inside.entries() if entry.what is Happened.CHANGED]
        return changed[-1] if changed else None


def _remark(sql: str) -> str:
    return sql.rpartition("/* ")[2].removesuffix(" */")
