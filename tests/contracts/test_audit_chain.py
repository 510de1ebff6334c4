"""The audit log on either kind of database, and written by two gateways at once."""

import asyncio
from pathlib import Path

from sqlalchemy import text

from bailiwick.audit.anchor_file import AnchorFile
from bailiwick.audit.chain import kept
from bailiwick.audit.entry import AuditEntry, Kind, Outcome
from bailiwick.audit.log import AuditLog
from bailiwick.audit.store import AuditStore, Search
from bailiwick.database.database import Database


def entry(what: str, who: str = "ann") -> AuditEntry:
    return AuditEntry(1000.5, Kind.QUERY, who, what, Outcome.FINISHED, query_id=f"q-{what}")


async def test_what_was_appended_is_found_and_whole(database: Database) -> None:
    store = AuditStore(database)
    for batch in (["a", "b"], ["c"], [str(number) for number in range(50)]):
        store.append([kept(entry(what)) for what in batch])
    assert store.verify().is_sound
    assert store.end().sequence == 53
    assert [link.entry.what for link in store.after(1, 2)] == ["b", "c"]
    assert [link.entry.what for link in store.newest(1, Search(query_id="q-b"))] == ["b"]


async def test_a_name_with_any_character_is_kept_and_the_chain_is_whole(database: Database) -> None:
    store = AuditStore(database)
    store.append([kept(entry("a", who="an\0n")), kept(entry("b", who="𝒳\u2028"))])
    assert store.verify().is_sound
    (first, _) = store.after(0, 10)
    assert first.entry.principal == "an\0n"
    assert len(store.newest(10, Search(who="an\0n"))) == 1


async def test_two_gateways_write_one_chain(shared: tuple[Database, Database]) -> None:
    stores = [AuditStore(database) for database in shared]

    def write(side: int) -> None:
        for number in range(40):
            stores[side].append([kept(entry(f"{side}-{number}-{part}")) for part in range(2)])

    async def write_with_others(side: int) -> None:
        for number in range(20):
            async with shared[side].asynchronous.begin() as connection:
                said = [kept(entry(f"{side}-with-{number}"))]
                await connection.run_sync(stores[side].append_in, said)

    await asyncio.gather(
        asyncio.to_thread(write, 0), asyncio.to_thread(write, 1), write_with_others(0), write_with_others(1)
    )
    verification = stores[0].verify()
    assert verification.is_sound
    assert verification.count == 2 * 40 * 2 + 2 * 20
    told = [link.entry.what for link in stores[1].after(0, 1000)]
    mine = [what for what in told if what.startswith("0-") and "with" not in what]
    assert mine == [f"0-{number}-{part}" for number in range(40) for part in range(2)]


async def test_a_gateway_that_joins_others_finds_no_fault_with_their_log(
    shared: tuple[Database, Database], tmp_path: Path
) -> None:
    one = AuditLog(AuditStore(shared[0]), AnchorFile(tmp_path / "one"))
    await one.start()
    await one.write(entry("first"))
    other = AuditLog(AuditStore(shared[1]), AnchorFile(tmp_path / "other"))
    await other.start()
    await other.write(entry("second"))
    for log in (one, other):
        verification = await log.verify()
        assert (verification.is_sound, verification.count, verification.gaps) == (True, 2, 0)
        await log.close()


async def test_a_log_whose_end_was_cut_off_is_told_by_whoever_saw_it(
    shared: tuple[Database, Database], tmp_path: Path
) -> None:
    log = AuditLog(AuditStore(shared[0]), AnchorFile(tmp_path / "anchor"))
    await log.start()
    await log.write(entry("first"))
    await log.write(entry("second"))
    await log.close()
    with shared[1].synchronous.begin() as connection:
        connection.execute(text("ALTER TABLE audit DISABLE TRIGGER USER"))
        connection.execute(text("DELETE FROM audit WHERE sequence = 2"))
        connection.execute(text("ALTER TABLE audit ENABLE TRIGGER USER"))
    again = AuditLog(AuditStore(shared[0]), AnchorFile(tmp_path / "anchor"))
    await again.start()
    links = [link.entry async for link in again.read()]
    await again.close()
    assert (links[-1].kind, "cut off" in links[-1].what) == (Kind.GAP, True)
