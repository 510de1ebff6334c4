"""What no policy could allow on a shared session is refused, and every refusal says why."""

import pytest

from bailiwick.engines.description import Description, Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.queries.descriptions import TEXT_CHARACTERS_MAX, Descriptions, Key
from bailiwick.queries.statement import Statement
from bailiwick.queries.verdict import decide, may_ask

ADMIN = Principal("root", frozenset({"admin"}))
WRITER = Principal("will", frozenset({"writer"}))
READER = Principal("rita", frozenset({"reader"}))
NOBODY = Principal("nora")

LAKE = frozenset({"lake"})
READ = Description(Kind.READ, "Project", reads=("lake.a.b",), catalogs=LAKE)
CHANGE = Description(Kind.CHANGE, "AppendData", writes=("lake.a.b",), catalogs=LAKE)
SHOWS = Description(Kind.SHOWS, "ShowTables", catalogs=LAKE)
SESSION = Description(Kind.SESSION, "SetCommand")
OWN = Description(Kind.OWN, "CreateViewCommand", catalogs=LAKE)
OWN_ELSEWHERE = Description(Kind.OWN, "SetCatalogCommand", catalogs=frozenset({"spark_catalog"}))
CALL = Description(Kind.CHANGE, "Call", catalogs=LAKE)
DYNAMIC = Description(Kind.READ, "Project", catalogs=LAKE, dynamic_names=True)
ELSEWHERE = Description(Kind.READ, "Project", catalogs=frozenset({"lake", "spark_catalog"}))


@pytest.mark.parametrize(
    ("description", "allowed"),
    [
        (READ, {"admin", "writer", "reader"}),
        (SHOWS, {"admin", "writer", "reader"}),
        (CHANGE, {"admin", "writer", "reader"}),
        (SESSION, set()),
        (OWN, {"admin", "writer", "reader"}),
        (OWN_ELSEWHERE, {"admin"}),
        (CALL, {"admin"}),
        (DYNAMIC, {"admin", "writer", "reader"}),
        (ELSEWHERE, {"admin"}),
    ],
)
def test_roles_and_kinds_decide(description: Description, allowed: set[str]) -> None:
    by_role = {"admin": ADMIN, "writer": WRITER, "reader": READER, "none": NOBODY}
    assert {role for role, who in by_role.items() if decide(who, description).allowed} == allowed


def test_a_refusal_names_all_of_its_reasons() -> None:
    call_elsewhere = Description(Kind.CHANGE, "Call", catalogs=frozenset({"hive"}), dynamic_names=True)
    verdict = decide(READER, call_elsewhere)
    assert [refusal.reason for refusal in verdict.because] == [
        "catalog",
        "procedure",
    ]
    with pytest.raises(BailiwickError) as refused:
        verdict.enforce()
    assert refused.value.code is Code.ACCESS_DENIED
    assert "hive" in refused.value.message


def test_what_would_stay_in_a_session_is_not_supported_even_for_admins() -> None:
    with pytest.raises(BailiwickError, match="SetCommand would leave something behind") as refused:
        decide(ADMIN, SESSION).enforce()
    assert refused.value.code is Code.NOT_SUPPORTED


def test_who_has_no_role_is_told_before_any_engine_is_asked() -> None:
    assert may_ask(READER).allowed
    with pytest.raises(BailiwickError, match="nora has no role"):
        may_ask(NOBODY).enforce()


def test_an_allowed_statement_raises_nothing() -> None:
    decide(READER, READ).enforce()


def key(
    sql: str,
    version: int = 1,
    namespace: tuple[str, ...] = (),
    *,
    principal: Principal = READER,
    policy_version: int = 1,
) -> Key:
    return Key.of(Statement(sql, principal, "flight", namespace=namespace), policy_version, version)


def test_a_description_is_found_again_only_under_the_same_circumstances() -> None:
    kept = Descriptions()
    kept.keep(key("SELECT 1"), READ)
    assert kept.find(key("SELECT 1")) is READ
    assert kept.find(key("SELECT 1", version=2)) is None
    assert kept.find(key("SELECT 1", namespace=("a",))) is None
    assert kept.find(key("SELECT 2")) is None
    assert kept.find(key("SELECT 1", policy_version=2)) is None
    assert kept.find(key("SELECT 1", principal=WRITER)) is None
    assert kept.find(key("SELECT 1", principal=Principal("rita", frozenset({"reader", "analyst"})))) is None


def test_descriptions_are_bounded_and_the_least_used_goes_first() -> None:
    kept = Descriptions(entries_max=2)
    kept.keep(key("a"), READ)
    kept.keep(key("b"), READ)
    assert kept.find(key("a")) is READ
    kept.keep(key("c"), READ)
    assert (len(kept), kept.find(key("b")), kept.find(key("a"))) == (2, None, READ)


def test_descriptions_are_bounded_in_size_too() -> None:
    wide = Description(Kind.READ, "Project", catalogs=LAKE, schema=b"x" * 100_000)
    kept = Descriptions(bytes_max=350_000)
    for index in range(10):
        kept.keep(key(f"SELECT {index}"), wide)
        kept.keep(key(f"SELECT {index}"), wide)
    assert len(kept) == 3
    assert kept.find(key("SELECT 9")) is wide


def test_what_depends_on_more_than_the_lake_is_not_kept() -> None:
    kept = Descriptions()
    kept.keep(key("a"), ELSEWHERE)
    kept.keep(key("b"), DYNAMIC)
    kept.keep(key("c" * (TEXT_CHARACTERS_MAX + 1)), READ)
    assert len(kept) == 0
