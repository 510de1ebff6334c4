"""Admins and auditors read the log, by its statements and as a table; nobody else sees anything of it."""

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from audited import Audited, audited, entry

from bailiwick.audit.chain import Link, verify
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.queries.audit_answers import AuditAnswers, result_schema
from bailiwick.queries.audit_statements import ShowAudit, VerifyAudit
from bailiwick.queries.sandbox import Sandbox
from bailiwick.queries.system_tables import SystemTables

ADMIN = Principal("root", frozenset({"admin"}))
AUDITOR = Principal("olga", frozenset({"auditor"}), tenant="elsewhere")
OTHERS = [
    Principal("ann", frozenset(roles)) for roles in ((), ("reader",), ("writer",), ("operator", "analyst"))
]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[Audited]:
    async with audited(tmp_path) as opened:
        opened.log.note(
            replace(entry("SELECT 1", at=10.0), tables_read=("lake.a.t",), rules=("mask m on lake.a.t",))
        )
        opened.log.note(entry("SELECT 2", who="bob", at=20.0))
        opened.log.note(replace(entry("SELECT 3", at=30.25), actor="bob"))
        yield opened


async def asked(world: Audited, sql: str, principal: Principal = ADMIN) -> list[dict[str, Any]]:
    sandbox = Sandbox()
    try:
        tables = SystemTables(sandbox, [AuditAnswers(world.log).table()])
        query = await tables.route(sql)
        assert query is not None
        rows: list[dict[str, Any]] = (await tables.answer(query, principal)).to_pylist()
        return rows
    finally:
        sandbox.close()


@pytest.mark.parametrize("principal", [ADMIN, AUDITOR], ids=lambda each: each.name)
async def test_admins_and_auditors_see_all(world: Audited, principal: Principal) -> None:
    answers = AuditAnswers(world.log)
    shown = await answers.perform(ShowAudit(), principal)
    assert shown.column("what").to_pylist() == ["SELECT 1", "SELECT 2", "SELECT 3"]
    assert len(await asked(world, "SELECT * FROM system.runtime.audit", principal)) == 3


@pytest.mark.parametrize("principal", OTHERS, ids=lambda each: "+".join(each.roles) or "none")
async def test_others_are_refused_and_told_what_is_missing(world: Audited, principal: Principal) -> None:
    answers = AuditAnswers(world.log)
    for command in (ShowAudit(), ShowAudit(who=principal.name), VerifyAudit()):
        with pytest.raises(BailiwickError, match="auditor") as refused:
            await answers.perform(command, principal)
        assert refused.value.code is Code.ACCESS_DENIED
    with pytest.raises(BailiwickError, match="auditor"):
        await asked(world, "SELECT count(*) FROM system.runtime.audit", principal)


async def test_answers_have_the_columns_that_were_announced(world: Audited) -> None:
    for command in (ShowAudit(), VerifyAudit()):
        answer = await AuditAnswers(world.log).perform(command, ADMIN)
        assert answer.schema.equals(result_schema(command))


async def test_what_is_shown_can_be_verified_by_whoever_got_it(world: Audited) -> None:
    shown = await AuditAnswers(world.log).perform(ShowAudit(), ADMIN)
    links = [Link(row["sequence"], row["previous"], row["hash"], row["entry"]) for row in shown.to_pylist()]
    assert verify(links).count == 3


async def test_entries_are_found_by_user_on_either_side_and_by_time(world: Audited) -> None:
    answers = AuditAnswers(world.log, now=lambda: 40.0)

    async def found(command: ShowAudit) -> list[int]:
        sequences: list[int] = (await answers.perform(command, ADMIN)).column("sequence").to_pylist()
        return sequences

    assert await found(ShowAudit(who="bob")) == [2, 3]
    assert await found(ShowAudit(since=20.0)) == [2, 3]
    assert await found(ShowAudit(since_ago_s=15.0)) == [3]
    assert await found(ShowAudit(after=1, limit=1)) == [2]
    assert await found(ShowAudit(limit=1)) == [3]


async def test_the_table_is_asked_like_any_other(world: Audited) -> None:
    sql = (
        "SELECT sequence, tables_read[1] AS read, rules, extract(second FROM happened_at) AS s "
        "FROM system.runtime.audit WHERE query_id = 'q-SELECT 1'"
    )
    assert await asked(world, sql) == [
        {"sequence": 1, "read": "lake.a.t", "rules": ["mask m on lake.a.t"], "s": 10}
    ]
    assert await asked(world, "SELECT sequence FROM system.runtime.audit WHERE principal = 'bob'") == [
        {"sequence": 2}
    ]


async def test_verifying_tells_the_anchor_and_what_is_wrong(world: Audited) -> None:
    (sound,) = (await AuditAnswers(world.log).perform(VerifyAudit(), AUDITOR)).to_pylist()
    assert (sound["is_sound"], sound["entries"], sound["anchor"]) == (True, 3, str(world.store.end()))
    wrong = replace(world.store.end(), hash="f" * 64)
    (broken,) = (await AuditAnswers(world.log).perform(VerifyAudit(wrong), AUDITOR)).to_pylist()
    assert (broken["is_sound"], broken["broken_at"]) == (False, 3)
    assert "rewritten" in broken["why"]


async def test_the_log_is_shown_as_far_as_it_goes_while_the_disk_fails(world: Audited) -> None:
    await world.log.flush()
    world.store.is_full = True
    world.log.note(entry("not yet"))
    shown = await AuditAnswers(world.log).perform(ShowAudit(), ADMIN)
    world.store.is_full = False
    assert shown.num_rows == 3
