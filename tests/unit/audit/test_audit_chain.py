"""A chain shows every change, hole and reordering; its end is shown by an anchor."""

import json
import shutil
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bailiwick.audit.chain import GENESIS, Anchor, Link, canonical, chain, kept, verify
from bailiwick.audit.entry import NAMES_MAX, WHAT_CHARS_MAX, AuditEntry, Kind, Outcome

FULL = AuditEntry(
    1_234.567891,
    Kind.QUERY,
    "ann",
    "SELECT 'ä\x7f\u2028' FROM lake.sales.orders",
    Outcome.FINISHED,
    actor="svc",
    tenant="acme",
    door="flight_sql",
    query_id="q1",
    tables_read=("lake.sales.orders",),
    tables_written=("lake.sales.copy",),
    rules=("row_filter eu_only on lake.sales.orders",),
    policy_version=7,
    code="ACCESS_DENIED",
    rows=1 << 40,
)

TEXTS = st.text(max_size=40)
ENTRIES = st.builds(
    AuditEntry,
    at=st.floats(0, 4e9),
    kind=st.sampled_from(Kind),
    principal=TEXTS,
    what=TEXTS,
    outcome=st.sampled_from(Outcome),
    actor=st.none() | TEXTS,
    tables_read=st.lists(TEXTS, max_size=3).map(tuple),
    rules=st.lists(TEXTS, max_size=3).map(tuple),
    policy_version=st.none() | st.integers(0, 1 << 62),
    rows=st.none() | st.integers(0, 1 << 62),
)
LOGS = st.lists(ENTRIES, min_size=2, max_size=8).map(lambda entries: list(chain(map(kept, entries))))


def log(count: int = 5) -> list[Link]:
    return list(chain(kept(replace(FULL, what=f"statement {number}")) for number in range(count)))


def test_an_entry_comes_back_as_it_was() -> None:
    (link,) = chain([kept(FULL)])
    assert link.entry == FULL
    assert (link.sequence, link.previous) == (1, GENESIS)


def test_what_is_not_known_is_not_written() -> None:
    bare = AuditEntry(1.0, Kind.SIGN_IN, "ann", "password", Outcome.REFUSED)
    assert kept(bare) == (
        '{"at_us":1000000,"kind":"sign_in","outcome":"refused","principal":"ann","what":"password"}'
    )


@given(LOGS)
def test_an_untouched_log_is_sound(links: list[Link]) -> None:
    found = verify(links)
    assert found.is_sound
    assert (found.first, found.count, found.end) == (1, len(links), links[-1].anchor)


@given(LOGS, st.data())
def test_any_changed_entry_is_found_where_it_is(links: list[Link], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(links) - 1))
    told = json.loads(links[at].text)
    told["principal"] += "!"
    found = verify([*links[:at], replace(links[at], text=canonical(told)), *links[at + 1 :]])
    assert found.broken is not None
    assert found.broken.sequence == at + 1


@given(LOGS, st.data())
def test_an_entry_with_a_hash_made_anew_is_found_by_the_next(links: list[Link], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(links) - 2))
    (forged,) = chain(
        [kept(replace(FULL, what="forged"))], Anchor(links[at].sequence - 1, links[at].previous)
    )
    found = verify([*links[:at], forged, *links[at + 1 :]])
    assert found.broken is not None
    assert found.broken.sequence == at + 2


@given(LOGS, st.data())
def test_an_entry_taken_out_of_the_middle_is_missed(links: list[Link], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(links) - 2))
    found = verify([*links[:at], *links[at + 1 :]])
    assert found.broken is not None
    assert found.broken.sequence == at + 1


@given(LOGS, st.data())
def test_two_entries_in_each_others_place_are_found(links: list[Link], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(links) - 2))
    links[at], links[at + 1] = links[at + 1], links[at]
    found = verify(links)
    assert found.broken is not None
    assert found.broken.sequence == at + 1


def test_numbers_made_anew_do_not_hide_a_missing_entry() -> None:
    links = log()
    renumbered = [*links[:2], *(replace(link, sequence=link.sequence - 1) for link in links[3:])]
    found = verify(renumbered)
    assert found.broken is not None
    assert found.broken.sequence == 3


def test_a_missing_end_is_found_by_an_anchor_and_only_by_one() -> None:
    links = log()
    assert verify(links[:3]).is_sound
    found = verify(links[:3], [links[4].anchor])
    assert found.broken is not None
    assert "its end was cut off" in found.broken.why
    assert found.broken.sequence == 4


def test_a_log_rewritten_from_the_first_entry_is_found_by_an_anchor() -> None:
    forged = list(chain(kept(replace(FULL, what=f"nothing {number}")) for number in range(5)))
    assert verify(forged).is_sound
    found = verify(forged, [log()[2].anchor])
    assert found.broken is not None
    assert (found.broken.sequence, "rewritten" in found.broken.why) == (3, True)


def test_a_part_of_a_log_is_sound_as_a_part() -> None:
    links = log()
    assert not verify(links[2:]).is_sound
    found = verify(links[2:], is_part=True)
    assert (found.is_sound, found.first, found.count) == (True, 3, 3)


def test_an_empty_log_is_sound_unless_something_was_seen_before() -> None:
    assert verify([]).is_sound
    assert not verify([], [Anchor(1, "0" * 64)]).is_sound


def test_gaps_that_the_log_tells_of_are_counted() -> None:
    gap = AuditEntry(1.0, Kind.GAP, "bailiwick", "3 entries could not be kept", Outcome.FAILED)
    found = verify(chain([kept(FULL), kept(gap)]))
    assert (found.is_sound, found.gaps) == (True, 1)


def test_an_exported_line_comes_back_as_it_was() -> None:
    for link in log():
        assert Link.from_line(link.line()) == link


@pytest.mark.parametrize("line", ["", "{}", "[1]", "null", '{"sequence":1}', "[" * 100_000, '{"entry":1.5}'])
def test_a_line_that_is_none_is_refused(line: str) -> None:
    with pytest.raises(ValueError):
        Link.from_line(line)


@pytest.mark.skipif(shutil.which("jq") is None, reason="jq is not installed")
def test_jq_and_sha256_are_all_that_a_third_party_needs() -> None:
    (link,) = chain([kept(FULL)])
    entry = subprocess.run(
        ["jq", "-caS", ".entry"], input=link.line().encode(), capture_output=True, check=True
    ).stdout.rstrip(b"\n")
    hashed = b"%s\n%d\n%s" % (link.previous.encode(), link.sequence, entry)
    digest = subprocess.run(["sha256sum"], input=hashed, capture_output=True, check=True).stdout
    assert digest.decode().split()[0] == link.hash


def test_texts_and_lists_are_cut_and_say_so() -> None:
    long = replace(
        FULL,
        what="x" * 1_000_000,
        principal="p" * 5_000,
        tables_read=tuple(f"t{number}" for number in range(NAMES_MAX + 7)),
    )
    (link,) = chain([kept(long)])
    assert link.entry.what.endswith("… (1000000 characters)")
    assert len(link.entry.what) < WHAT_CHARS_MAX + 50
    assert link.entry.principal.endswith("… (5000 characters)")
    assert link.entry.tables_read[-1] == "… and 7 more"
    assert len(link.entry.tables_read) == NAMES_MAX + 1


def test_no_secret_is_kept() -> None:
    secret = "hunter2hunter2"
    for what in (
        f"CREATE TABLE t OPTIONS (password '{secret}')",
        f"INSERT INTO t VALUES ('https://ann:{secret}@host/x')",
        "x" * (WHAT_CHARS_MAX - 15) + f" PASSWORD '{secret}'",
    ):
        assert secret not in kept(replace(FULL, what=what))


def test_broken_text_is_kept_as_far_as_it_is_text() -> None:
    (link,) = chain([kept(replace(FULL, what="a\ud800b", principal="p\udfff"))])
    assert (link.entry.what, link.entry.principal) == ("a?b", "p?")


def test_numbers_are_whole() -> None:
    with pytest.raises(ValueError, match="whole"):
        canonical({"a": [{"b": 1.5}]})


@pytest.mark.parametrize("text", ["", "1", "1:", ":ab", "1:" + "g" * 64, "01:" + "a" * 64, "1:" + "A" * 64])
def test_an_anchor_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="an anchor is"):
        Anchor.parse(text)


def test_an_anchor_is_written_and_read() -> None:
    anchor = log()[-1].anchor
    assert Anchor.parse(str(anchor)) == anchor
