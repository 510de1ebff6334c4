"""The statements by which the audit log is read, recognised before Spark sees them.

    statement := SHOW AUDIT [FOR USER name] [SINCE string] [AFTER number] [LIMIT number]
               | VERIFY AUDIT [ANCHOR string]

SINCE takes a time, '2026-11-16', '2026-11-16T02:00:00Z' (without a zone in UTC), or how long ago: '45s',
'30m', '8h', '7d'. AFTER gives the first entries that follow that one; without it one gets the newest. The
oldest come first. Words, names, strings and comments are those of the policy statements. Neither opening
means anything to Spark.
"""

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from bailiwick.audit.chain import Anchor
from bailiwick.identity.lexer import Kind
from bailiwick.policy.reading import PolicyLexer, Reader, opening

STATEMENT_CHARS_MAX: Final = 4_096
LIMIT_DEFAULT: Final = 100
LIMIT_MAX: Final = 1_000
_DIGITS_MAX: Final = 18
_AGO: Final = re.compile(r"([1-9][0-9]{0,8})([smhd])", re.ASCII)
_UNIT_S: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_SHOW: Final = ("SHOW", "AUDIT")
_VERIFY: Final = ("VERIFY", "AUDIT")


@dataclass(frozen=True, slots=True)
class ShowAudit:
    who: str | None = None
    since: float | None = None
    """Seconds since the epoch."""
    since_ago_s: float | None = None
    after: int | None = None
    limit: int = LIMIT_DEFAULT


@dataclass(frozen=True, slots=True)
class VerifyAudit:
    anchor: Anchor | None = None


AuditCommand = ShowAudit | VerifyAudit


def parse(sql: str) -> AuditCommand | None:
    """The command that `sql` is, or None if it is not for us. Costs microseconds for ordinary SQL."""
    found = opening(sql[:STATEMENT_CHARS_MAX], 2).words
    if found not in (_SHOW, _VERIFY):
        return None
    # Whatever is longer than that goes wrong at its end.
    lexer = PolicyLexer(sql[: STATEMENT_CHARS_MAX + 1])
    if len(sql) > STATEMENT_CHARS_MAX:
        raise lexer.error(f"{' '.join(found)} has at most {STATEMENT_CHARS_MAX} characters.", 0)
    reader = _AuditReader(lexer)
    reader.word(found[0])
    reader.word(found[1])
    command = _show(reader) if found == _SHOW else _verify(reader)
    reader.end()
    return command


class _AuditReader(Reader):
    def number(self, number_max: int) -> int:
        token = self._next
        if token.kind is not Kind.OTHER or not token.text.isdecimal():
            raise self.expected("a whole number")
        if len(token.text) > _DIGITS_MAX or int(token.text) > number_max:
            raise self._lexer.error(f"The number is at most {number_max}.", token.start)
        self._next = self._lexer.next()
        return int(token.text)

    def moment(self) -> tuple[float | None, float | None]:
        """A time, or how many seconds ago."""
        at = self.at
        text = self.string()
        if ago := _AGO.fullmatch(text):
            return None, int(ago[1]) * _UNIT_S[ago[2]]
        try:
            moment = datetime.fromisoformat(text)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp(), None
        except (ValueError, OverflowError):
            message = "A time is written '2026-11-16' or '2026-11-16T02:00:00Z'; how long ago, '45s', '8h'."
            raise self._lexer.error(message, at) from None

    def anchor(self) -> Anchor:
        at = self.at
        try:
            return Anchor.parse(self.string())
        except ValueError as error:
            raise self._lexer.error(f"{error}.".capitalize(), at) from None


def _show(reader: _AuditReader) -> AuditCommand:
    who = reader.name() if reader.accept("FOR", "USER") else None
    since, ago_s = reader.moment() if reader.accept("SINCE") else (None, None)
    after = reader.number(10**_DIGITS_MAX) if reader.accept("AFTER") else None
    limit = reader.number(LIMIT_MAX) if reader.accept("LIMIT") else LIMIT_DEFAULT
    return ShowAudit(who, since, ago_s, after, limit)


def _verify(reader: _AuditReader) -> AuditCommand:
    return VerifyAudit(reader.anchor() if reader.accept("ANCHOR") else None)
