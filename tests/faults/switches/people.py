"""Three people who share one engine session, and see other rows of the same table, each with another mask.

Whatever one of them sees or says holds their name, so that it is found out wherever else it comes up.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache

from bailiwick.testing.inside import GATED_NAMESPACE

PASSWORD = "one session for three people"
NAMES = ("anemone", "bergamot", "chicory")
LETTERS = f"lake.{GATED_NAMESPACE}.letters"
"""What they read: as many rows of each, mixed in every file."""
SHARED = f"lake.{GATED_NAMESPACE}.shared"
"""Where they all write."""
LETTERS_EACH = 1_600
FILES = 24
FEW = 50

Row = tuple[object, ...]


class Kind(StrEnum):
    READ = "long read"
    FEW = "short read"
    INSERT = "slow insert"
    BAD_CAST = "value that is no number"
    BAD_COLUMN = "column that is not there"
    BAD_TABLE = "table that is not there"

    @property
    def fails(self) -> bool:
        """By the fault of whoever asks."""
        return self in (Kind.BAD_CAST, Kind.BAD_COLUMN, Kind.BAD_TABLE)


@dataclass(frozen=True, slots=True)
class Ask:
    """One statement of one person. Its `mark` stands in the statement, and nowhere else."""

    who: str
    kind: Kind
    mark: str

    @property
    def word(self) -> str:
        return f"{self.who}_{self.mark}"

    @property
    def is_read(self) -> bool:
        return self.kind in (Kind.READ, Kind.FEW)

    @property
    def read_table(self) -> str:
        """What it reads, without its namespace."""
        return f"letters_of_{self.word}" if self.kind is Kind.BAD_TABLE else "letters"

    @property
    def sql(self) -> str:
        match self.kind:
            case Kind.READ:
                text = f"SELECT n, owner, word, sha2(repeat(word, 9000), 512) AS digest FROM {LETTERS}"
            case Kind.FEW:
                text = f"SELECT n, owner, word FROM {LETTERS} ORDER BY n LIMIT {FEW}"
            case Kind.INSERT:
                text = (
                    f"INSERT INTO {SHARED} SELECT '{self.mark}' AS mark, n, owner, word, "
                    f"sha2(repeat(word, 5000), 512) AS digest FROM {LETTERS}"
                )
            case Kind.BAD_CAST:
                text = f"SELECT CAST(concat(word, '{self.word}') AS INT) FROM {LETTERS}"
            case Kind.BAD_COLUMN:
                text = f"SELECT no_{self.word} FROM {LETTERS}"
            case Kind.BAD_TABLE:
                text = f"SELECT n FROM lake.{GATED_NAMESPACE}.{self.read_table}"
        return f"{text} /* {self.word} */"


def statements() -> Iterator[str]:
    """What an administrator does to make it so."""
    rows = LETTERS_EACH * len(NAMES)
    names = ", ".join(f"'{name}'" for name in NAMES)
    yield (
        f"CREATE TABLE {LETTERS} USING iceberg AS SELECT n, owner, concat(owner, '-', n) AS word FROM "
        f"(SELECT id AS n, element_at(array({names}), cast(id % {len(NAMES)} AS INT) + 1) AS owner "
        f"FROM range(0, {rows}, 1, {FILES}))"
    )
    columns = "mark STRING, n BIGINT, owner STRING, word STRING, digest STRING"
    yield f"CREATE TABLE {SHARED} ({columns}) USING iceberg"
    for number, name in enumerate(NAMES):
        role = f"{name}_role"
        yield f"CREATE USER {name} PASSWORD '{PASSWORD}' ROLES (reader)"
        yield f"CREATE ROLE {role}"
        yield f"GRANT ROLE {role} TO USER {name}"
        yield f"GRANT SELECT ON TABLE {LETTERS} TO ROLE {role}"
        yield f"GRANT INSERT ON TABLE {SHARED} TO ROLE {role}"
        for table in (LETTERS, SHARED):
            filter_name = f"{name}_{table.rpartition('.')[2]}"
            yield f"CREATE ROW FILTER {filter_name} ON TABLE {table} FOR ROLE {role} USING (owner = '{name}')"
        yield (
            f"CREATE MASK {name}_words ON TABLE {LETTERS} COLUMN word FOR ROLE {role} "
            f"USING (concat('{name}:', word)) PRIORITY {number + 1}"
        )


@cache
def right(who: str) -> frozenset[Row]:
    """Number, owner and word of every letter, as this person may see it."""
    first = NAMES.index(who)
    numbers = range(first, LETTERS_EACH * len(NAMES), len(NAMES))
    return frozenset((number, who, f"{who}:{who}-{number}") for number in numbers)
