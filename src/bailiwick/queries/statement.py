"""What a door asks for, and what it gets. None of it knows any wire."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from dataclasses import dataclass

from bailiwick.engines.description import Kind, Parameter
from bailiwick.engines.parameters import ParameterValue
from bailiwick.fleet.placement import Placement
from bailiwick.identity.principal import Principal
from bailiwick.ids import NodeId, QueryId
from bailiwick.results.batches import Frame

DEFAULT_CATALOG = "lake"
UNKNOWN_ROWS = -1


@dataclass(frozen=True, slots=True)
class SubmissionKey:
    """A client's own name for what it asks. Under one key of one principal there is one execution."""

    text: str
    part: int = 0
    """Which run of several: a statement that is run for many rows of parameters has one key."""
    whole: str = ""
    """A digest of all the runs together, where there are several."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of one principal, as it arrived at a door."""

    sql: str
    principal: Principal
    door: str
    parameters: tuple[ParameterValue, ...] = ()
    """One for each `?` of it; none where they are not known yet."""
    timeout_s: float | None = None
    """How long it may take; None for the configured default."""
    catalog: str = DEFAULT_CATALOG
    namespace: tuple[str, ...] = ()
    """What unqualified names mean; empty for the catalog's default."""
    time_zone: str = "UTC"
    """What times without a zone mean, and how times are written as text."""
    double_quoted_identifiers: bool = False
    """Whether `"…"` is a name, as in standard SQL, rather than a text, as in Spark's."""
    compressed: bool = False
    """Whether its batches may have zstd bodies. What they hold is the same."""
    placement: Placement | None = None
    """Where it may run; None for what its principal's roles or the server say."""
    submission: SubmissionKey | None = None
    """Sent again under the same key, it does not run again."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a statement is, found out without running it."""

    kind: Kind
    schema: bytes | None
    """An encapsulated Arrow IPC schema message, or None where it cannot be told before it runs."""
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True)
class RanOn:
    """Where an answer came from."""

    node_id: NodeId
    is_fallback: bool = False
    """Whether that was the embedded engine, although there are others that it was meant for."""


class Result(ABC):
    """A running or ended query, as the door that asked for it sees it."""

    query_id: QueryId
    schema: bytes
    """An encapsulated Arrow IPC schema message: what the frames really have."""
    kind: Kind

    @property
    @abstractmethod
    def affected_rows(self) -> int:
        """How many rows a change touched; -1 where nobody knows exactly."""

    @property
    def ran_on(self) -> RanOn | None:
        """Where it ran; None where that is not known yet, or not any more."""
        return None

    @abstractmethod
    def frames(self) -> AsyncIterator[Frame]:
        """The record batches, each as soon as it is there. Once only. Raises what the query failed with."""
