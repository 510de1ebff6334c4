"""What is hidden of a table, as Iceberg's REST protocol tells it to engines that promise to hide it.

The standard knows row filters as expressions and masks as named actions. A rule that is neither cannot be
told, and then the table is refused: never is less told than holds.
"""

from bailiwick.catalog.filter_expressions import InexpressibleError, predicate
from bailiwick.catalog.refusals import ForbiddenError
from bailiwick.catalog.wire import Json
from bailiwick.errors import BailiwickError
from bailiwick.identity.principal import Principal
from bailiwick.policy import actions
from bailiwick.policy.decide import AppliedMask, Decision, Table

_NULL_ACTION = "replace-with-null"


def read_restrictions(table: Table, decision: Decision, principal: Principal) -> Json:
    """The `read-restrictions` of a load. Raises ForbiddenError if a rule cannot be told."""
    try:
        filters = [predicate(rule.using, table.columns, principal.name) for rule in decision.filters]
    except InexpressibleError as error:
        # Why is between us and the rule's author: the reader may not know what it says.
        raise _cannot_be_told(table) from error
    told: Json = {}
    if decision.masks:
        told["required-column-projections"] = [_projection(table, mask) for mask in decision.masks]
    if filters:
        whole = filters[-1]
        for part in reversed(filters[:-1]):
            whole = {"type": "and", "left": part, "right": whole}
        told["required-row-filter"] = whole
    return told


def _projection(table: Table, mask: AppliedMask) -> Json:
    if mask.action is None or mask.field_id is None:
        raise _cannot_be_told(table)
    types = {column.field_id: column.type for column in table.columns}
    return {"action": _fitting(mask.action, types.get(mask.field_id)), "field-id": mask.field_id}


def _fitting(action: str, type_: str | None) -> str:
    """The action, or nothing at all of a column that it does not fit, as it is for our own engines."""
    if type_ is None:
        return _NULL_ACTION
    try:
        actions.sql(action, type_)
    except BailiwickError:
        return _NULL_ACTION
    return actions.standard_name(action)


def _cannot_be_told(table: Table) -> ForbiddenError:
    return ForbiddenError(
        f"some of {table} is hidden from you by rules that only this gateway's own engines apply: read the "
        "table through this gateway"
    )
