"""What a plan turned out to hold, noted while it is walked."""

from dataclasses import dataclass, field
from typing import Final

from pyspark.sql.connect import proto

from bailiwick.telemetry.scrub import bounded

TEXT_LENGTH_MAX: Final = 2_000
_REFERENCES: Final = "with_relations"
_WORDS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class TableRead:
    """A table that is read by its name."""

    name: str
    """As it was written."""
    relation: proto.Relation
    """Where it stands in the plan; what is changed in it changes the plan."""
    has_options: bool = False

    def put(self, rows: proto.LocalRelation, parts: tuple[str, ...]) -> None:
        """Let `rows` stand for the table, under the same name: catalog, schemas, table."""
        alias = proto.SubqueryAlias(alias=parts[-1], qualifier=parts[:-1])
        alias.input.local_relation.CopyFrom(rows)
        self.relation.subquery_alias.CopyFrom(alias)


@dataclass(frozen=True, slots=True)
class ViewMade:
    name: str
    replaces: bool


@dataclass(frozen=True, slots=True)
class Contents:
    """What a plan holds, in the order in which it stands there."""

    reads: tuple[TableRead, ...] = ()
    targets: tuple[str, ...] = ()
    """Tables that are written or made, as written."""
    view: ViewMade | None = None
    sql_texts: tuple[str, ...] = ()
    """Statements. Any of them may be a command, and Spark carries it out while it analyses the plan."""
    expression_texts: tuple[str, ...] = ()
    """Expressions; they may hold subqueries."""
    has_references: bool = False
    """Whether it brings frames besides, to be mentioned in it."""
    function: str | None = None
    """The name of the one that it makes."""
    has_code: bool = False
    """Whether there is code of its author's in it."""
    digests: tuple[str, ...] = ()
    """Of rows that its author sent ahead of it."""
    catalog: proto.Catalog | None = None
    """The call of the catalog that the plan is."""
    tree: str = ""
    """The kinds of relations, as calls in one another."""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(read.name for read in self.reads)

    @property
    def may_make_views(self) -> bool:
        """Spark makes views of the frames that a text mentions, for as long as it analyses it."""
        return self.has_references and bool(self.sql_texts)


@dataclass(slots=True)
class Findings:
    """The notebook of one walk."""

    may_run_code: bool = False
    """Whether whoever sent it may have code of their own run."""
    has_code: bool = False
    reads: list[TableRead] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    view: ViewMade | None = None
    sql_texts: list[str] = field(default_factory=list)
    expression_texts: list[str] = field(default_factory=list)
    has_references: bool = False
    function: str | None = None
    digests: list[str] = field(default_factory=list)
    catalog: proto.Catalog | None = None
    relation: proto.Relation | None = None
    """The one that was come to last."""
    relation_count: int = 0
    _words: list[str] = field(default_factory=list)

    def begin(self, relation: proto.Relation, kind: str) -> None:
        self.relation = relation
        self.relation_count += 1
        self.has_references = self.has_references or kind == _REFERENCES
        self.say(f"{kind}(")

    def say(self, word: str) -> None:
        if len(self._words) < _WORDS_MAX:
            self._words.append(word)

    def end(self) -> None:
        self.say(")")

    def contents(self) -> Contents:
        return Contents(
            reads=tuple(self.reads),
            targets=tuple(self.targets),
            view=self.view,
            sql_texts=tuple(self.sql_texts),
            expression_texts=tuple(self.expression_texts),
            has_references=self.has_references,
            function=self.function,
            has_code=self.has_code,
            digests=tuple(self.digests),
            catalog=self.catalog,
            tree=self._tree(),
        )

    def _tree(self) -> str:
        """`limit(filter(read(lake.sales.orders)))`."""
        written: list[str] = []
        for word in self._words:
            if word == ")" and written[-1].endswith("("):
                written[-1] = written[-1][:-1]
            else:
                if word != ")" and written and not written[-1].endswith("("):
                    written.append(", ")
                written.append(word)
        return bounded("".join(written), TEXT_LENGTH_MAX)
