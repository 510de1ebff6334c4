"""EXPLAIN POLICY: each table that a statement reads or changes, whether that is allowed, by what, and why.

It tells what was decided and decides nothing. What a rule says is told only to who may read policy; a table
of which the principal may not know is told of in the words for one that is not there.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa

from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.policy.commands import ExplainPolicy
from bailiwick.policy.decision import AppliedMask, Decision, Table
from bailiwick.policy.model import Privilege

EXPLANATION = pa.schema(
    [
        ("object", pa.string()),
        ("action", pa.string()),
        ("allowed", pa.bool_()),
        ("kind", pa.string()),
        ("rule", pa.string()),
        ("column", pa.string()),
        ("because", pa.string()),
        ("using", pa.string()),
    ]
)


class Line(StrEnum):
    """What a line of the explanation is about."""

    GRANT = "grant"
    ROW_FILTER = "row_filter"
    MASK = "mask"
    REFUSAL = "refusal"


@dataclass(frozen=True, slots=True)
class Scan:
    """A table, view or namespace that a statement touches, and what was decided about it."""

    name: str
    """In full, as one writes it."""
    action: Privilege
    decision: Decision
    table: Table | None = None
    """None for a namespace, and for what is not there."""


def check_may_explain(command: ExplainPolicy, principal: Principal) -> None:
    """Everyone may ask for themselves; who may read policy, for others, too."""
    if command.as_user in (None, principal.name) or principal.may_read_policy:
        return
    raise BailiwickError(
        Code.ACCESS_DENIED,
        "EXPLAIN POLICY … AS USER needs role 'admin' or 'auditor'. Without it one may ask for oneself.",
        details={"missing_role": "auditor"},
    )


def missing(name: str, action: Privilege) -> Scan:
    """A scan of what is not there, or of what the principal may not know to be there."""
    return Scan(name, action, Decision(False, (_not_found(name),)))


def explain_table(scans: Sequence[Scan], asker: Principal) -> pa.Table:
    """One line for each grant, filter and mask that counts, or for the refusal, of each scan in turn."""
    rows = [row for scan in scans for row in _lines(scan, asker)]
    return pa.Table.from_pylist(rows, schema=EXPLANATION)


def _lines(scan: Scan, asker: Principal) -> Iterator[dict[str, object]]:
    decision = scan.decision
    shows_rules = asker.may_read_policy
    if not decision.allowed:
        is_told = decision.is_visible or shows_rules
        yield _line(scan, Line.REFUSAL, decision.because[0] if is_told else _not_found(scan.name))
        return
    yield _line(scan, Line.GRANT, " ".join(_grants(decision)))
    for row_filter in decision.filters:
        because = _sentence(decision, f"Row filter {row_filter.name} applies")
        yield _line(
            scan, Line.ROW_FILTER, because, row_filter.name, row_filter.using if shows_rules else None
        )
    for mask in decision.masks:
        column = _column(scan.table, mask)
        because = _sentence(decision, f"Mask {mask.name} applies to column {column}") or _sentence(
            decision, f"Mask {mask.name} applies"
        )
        using = mask.using if shows_rules else None
        yield _line(scan, Line.MASK, because, mask.name, using, column)


def _line(
    scan: Scan,
    kind: Line,
    because: str,
    rule: str | None = None,
    using: str | None = None,
    column: str | None = None,
) -> dict[str, object]:
    return {
        "object": scan.name,
        "action": scan.action.value,
        "allowed": scan.decision.allowed,
        "kind": kind.value,
        "rule": rule,
        "column": column,
        "because": because,
        "using": using,
    }


def _grants(decision: Decision) -> list[str]:
    """The sentences that are about grants begin with who holds them."""
    return [each for each in decision.because if each.startswith(("user:", "role:"))]


def _sentence(decision: Decision, beginning: str) -> str:
    return next((each for each in decision.because if each.startswith(beginning)), "")


def _column(table: Table | None, mask: AppliedMask) -> str:
    """By the name it has now, where it is there now."""
    columns = () if table is None else table.columns
    current = next((column.name for column in columns if column.field_id == mask.field_id), None)
    return current or min(mask.names)


def _not_found(name: str) -> str:
    return f"There is no {name}, or none that you may know of."
