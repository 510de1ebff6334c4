"""What becomes of the plans that a client sends: which of them Spark runs, and as what.

`spark.sql` sends its text to learn what it is, and asks for the rows in a second call. A query needs no
engine for the first: what it is was asked of Spark by `texts.py`. What the gateway answers by itself
(administration, statements on its own tables) is answered with the rows; the rest is for Spark.
"""

import re
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.connect import proto

from bailiwick.doors.spark_connect import configs
from bailiwick.doors.spark_connect.answers import Answers, local_relation
from bailiwick.doors.spark_connect.execution import Errand, Execution
from bailiwick.doors.spark_connect.operations import Operation
from bailiwick.doors.spark_connect.own_tables import put_own_rows
from bailiwick.doors.spark_connect.recipe import MakeFunction, MakeView, Recipe
from bailiwick.doors.spark_connect.screen import (
    CATALOG_CALLS_FOR_THE_LAKE,
    CATALOG_CALLS_FOR_THE_SESSION,
    PlanKind,
    ScreenedPlan,
)
from bailiwick.doors.spark_connect.session import TIME_ZONE, Session
from bailiwick.doors.spark_connect.sessions import DOOR, Sessions
from bailiwick.doors.spark_connect.settings import Settings
from bailiwick.doors.spark_connect.texts import Texts
from bailiwick.engines.description import Description, Kind
from bailiwick.errors import BailiwickError, Code
from bailiwick.identity.principal import Principal
from bailiwick.ids import QueryId
from bailiwick.queries import session_statements
from bailiwick.queries.client_sessions import DEFAULT_TIME_ZONE
from bailiwick.queries.service import QueryService
from bailiwick.queries.session_statements import SetTimeZone
from bailiwick.queries.statement import DEFAULT_CATALOG, Statement
from bailiwick.results.batches import read_schema

_NAME: Final = r"(`(?:[^`]|``)+`|\w+)"
_CREATES: Final = re.compile(rf"\bVIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}", re.IGNORECASE)
_DROPS: Final = re.compile(rf"\bVIEW\s+(?:IF\s+EXISTS\s+)?{_NAME}", re.IGNORECASE)
_SETS: Final = re.compile(r"\s*SET\s+(spark\.[\w.\-]+)(?:\s*=\s*(.*?))?\s*;?\s*", re.IGNORECASE | re.DOTALL)
_EXPLAIN: Final = "ExplainCommand"
_SET: Final = "SetCommand"
_USES: Final = frozenset({"SetCatalogAndNamespace", "SetNamespaceCommand", "SetCatalogCommand"})


class Statements:
    def __init__(self, queries: QueryService, sessions: Sessions, texts: Texts, settings: Settings) -> None:
        self._queries = queries
        self._sessions = sessions
        self._texts = texts
        self._settings = settings

    async def carry_out(
        self, session: Session, operation: Operation, screened: ScreenedPlan, principal: Principal
    ) -> None:
        """Answer the plan into the operation's log, to the last response but one. Raises what went wrong."""
        answers = Answers(session, operation)
        session.brought_rows.check(screened.contents.digests)
        if screened.kind is PlanKind.SQL_COMMAND:
            await self._sql(session, operation, screened, principal, answers)
            return
        await put_own_rows(screened.contents.reads, self._queries.answering.tables, principal)
        errand = await self._errand(session, screened, principal)
        await self._run(
            session, operation, self._statement(session, screened.text, principal), errand, answers
        )

    def _statement(self, session: Session, text: str, principal: Principal) -> Statement:
        zone = session.recipe.confs.get(TIME_ZONE, "UTC")
        return Statement(text, principal, DOOR, time_zone=zone)

    async def _run(
        self, session: Session, operation: Operation, statement: Statement, errand: Errand, answers: Answers
    ) -> None:
        execution = Execution(self._sessions, session, errand, answers.add)
        async with self._queries.run(statement, query_id=operation.query_id, work=execution.live) as result:
            async for _ in result.frames():
                pass

    async def _errand(self, session: Session, screened: ScreenedPlan, principal: Principal) -> Errand:
        contents, plan = screened.contents, screened.plan
        described = [
            await self._texts.described(session, principal, text, is_whole=False)
            for text in contents.sql_texts
        ]
        if screened.kind is not PlanKind.SQL or not plan.root.HasField("sql"):
            # Spark would carry out a command while it analyses what stands around it.
            await self._texts.check_reads(session, principal, contents.sql_texts)
        reads = dict.fromkeys(name for each in described for name in each.reads)
        errand = partial(
            Errand,
            plan,
            reads_compressed=screened.reads_compressed,
            reads=tuple(reads),
            named=tuple(map(_in_lake, contents.names)),
            may_make_views=contents.may_make_views,
        )
        match screened.kind:
            case PlanKind.VIEW:
                return errand(kind=Kind.SESSION, makes_view=True, effect=_view_of_frame(screened))
            case PlanKind.FUNCTION:
                function = MakeFunction(contents.function or "", plan.SerializeToString())
                return errand(kind=Kind.SESSION, effect=lambda recipe: recipe.with_function(function))
            case PlanKind.WRITE:
                return errand(kind=Kind.CHANGE, writes=tuple(map(_in_lake, contents.targets)))
            case PlanKind.CATALOG:
                call = screened.catalog_call
                if call in CATALOG_CALLS_FOR_THE_SESSION:
                    return errand(kind=Kind.SESSION, effect=_effect_of_call(plan))
                changes = call in CATALOG_CALLS_FOR_THE_LAKE
                targets = tuple(map(_in_lake, contents.targets)) if changes else ()
                return errand(kind=Kind.CHANGE if changes else Kind.SHOWS, writes=targets)
            case PlanKind.READ | PlanKind.SQL:
                kind = next((each.kind for each in described if each.kind is not Kind.READ), Kind.READ)
                writes = tuple(name for each in described for name in each.writes)
                return errand(kind=kind, writes=writes)
        raise AssertionError(screened.kind)

    async def _sql(
        self,
        session: Session,
        operation: Operation,
        screened: ScreenedPlan,
        principal: Principal,
        answers: Answers,
    ) -> None:
        relation = _relation(screened.plan)
        text = screened.contents.sql_texts[0]
        is_whole = relation.HasField("sql") and not _has_arguments(relation.sql)
        statement = self._statement(session, text, principal)
        try:
            if is_whole and await self._queries.answering.is_own(statement):
                rows = await self._own_rows(statement, operation.query_id)
                await answers.relation(local_relation(rows))
                return
            if is_whole and await self._sets(session, text, principal, answers):
                return
            description = await self._texts.described(session, principal, text, is_whole=is_whole)
            await self._texts.check_reads(session, principal, screened.contents.sql_texts[1:])
        except BailiwickError as error:
            error.query_id = error.query_id or operation.query_id
            self._queries.accounts.turn_away(statement, error)
            raise
        if description.kind is Kind.READ:
            await answers.relation(relation)
            return
        await put_own_rows(screened.contents.reads, self._queries.answering.tables, principal)
        errand = Errand(
            screened.plan,
            description.kind,
            reads=description.reads,
            writes=description.writes,
            explains=description.command == _EXPLAIN,
            effect=_effect(description, screened.plan, text),
        )
        await self._run(session, operation, statement, errand, answers)

    async def _own_rows(self, statement: Statement, query_id: QueryId) -> pa.Table:
        async with self._queries.run(statement, query_id=query_id) as result:
            schema = read_schema(result.schema)
            pieces = [frame.encapsulated() async for frame in result.frames()]
        stream = b"".join([result.schema, *pieces])
        return pa.ipc.open_stream(stream).read_all().cast(schema)

    async def _sets(self, session: Session, text: str, principal: Principal, answers: Answers) -> bool:
        """`SET key = value`, `SET key`, `SET TIME ZONE`, as `spark.conf` would. False if it is none."""
        statement, found = session_statements.parse(text), _SETS.fullmatch(text)
        value: str | None
        if isinstance(statement, SetTimeZone):
            key, value = TIME_ZONE, statement.time_zone or DEFAULT_TIME_ZONE
        elif found is not None:
            key, value = found[1], found[2]
        else:
            return False
        if value is None:
            value = await self._settings.get(session, principal, key)
        elif key in configs.IGNORED:
            raise configs.not_settable(key)
        else:
            await self._settings.set(session, principal, [(key, value := value.strip("'\""))])
        await answers.relation(local_relation(pa.table({"key": [key], "value": [value]})))
        return True


def _in_lake(name: str) -> str:
    """With the catalog that it means where it names a schema only."""
    is_short = name.count(".") == 1 and "`" not in name
    return f"{DEFAULT_CATALOG}.{name}" if is_short else name


def _relation(plan: proto.Plan) -> Any:
    """What the statement is as a relation: clients of before 4.0 send it in other fields."""
    command = plan.command.sql_command
    if command.HasField("input"):
        return command.input
    relation = proto.Relation()
    relation.sql.query = command.sql
    for name, value in command.args.items():
        relation.sql.args[name].CopyFrom(value)
    for value in command.pos_args:
        relation.sql.pos_args.add().CopyFrom(value)
    for name, value in command.named_arguments.items():
        relation.sql.named_arguments[name].CopyFrom(value)
    for value in command.pos_arguments:
        relation.sql.pos_arguments.add().CopyFrom(value)
    return relation


def _has_arguments(sql: Any) -> bool:
    return bool(sql.args or sql.pos_args or sql.named_arguments or sql.pos_arguments)


def _view_of_frame(screened: ScreenedPlan) -> Any:
    view = screened.contents.view
    if view is None:
        raise BailiwickError(Code.PARSE_ERROR, "The view has no name.")
    mentions = " ".join((*screened.contents.names, *screened.contents.sql_texts))
    step = MakeView(view.name, screened.plan.SerializeToString(), is_of_frame=True, mentions=mentions)
    return lambda recipe: recipe.with_view(step)


def _effect_of_call(plan: proto.Plan) -> Any:
    call = plan.root.catalog
    if call.HasField("drop_temp_view"):
        name = call.drop_temp_view.view_name
        return lambda recipe: recipe.without_view(name)
    data = plan.SerializeToString()
    return lambda recipe: recipe.with_use(data)


def _effect(description: Description, plan: proto.Plan, text: str) -> Any:
    """What a statement makes of its session, by what Spark says it is."""
    if description.command in _USES:
        data = plan.SerializeToString()
        return lambda recipe: recipe.with_use(data)
    if description.command == "CreateViewCommand":
        return partial(_with_view, name=_name(_CREATES, text), plan=plan.SerializeToString(), text=text)
    if description.command.startswith("Drop") and "View" in description.command:
        name = _name(_DROPS, text)
        return lambda recipe: recipe.without_view(name)
    return None


def _with_view(recipe: Recipe, name: str, plan: bytes, text: str) -> Recipe:
    return recipe.with_view(MakeView(name, plan, is_of_frame=False, mentions=text))


def _name(form: "re.Pattern[str]", text: str) -> str:
    found = form.search(text)
    return "" if found is None else found[1].strip("`").replace("``", "`")
