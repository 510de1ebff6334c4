"""SQLAlchemy through our dialect, because the public ones quote for other databases: Core, DDL, ORM."""

import datetime
import decimal
from collections.abc import Iterator
from urllib.parse import quote_plus

import pandas
import pytest
import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.engine import Engine

from bailiwick.testing.gateway import RunningGateway

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]


def url(gateway: RunningGateway, schema: str = "") -> str:
    return f"bailiwick://admin:{quote_plus(gateway.admin_password)}@{gateway.grpc_address}/{schema}"


@pytest.fixture(scope="module")
def engine(gateway: RunningGateway, schema: str) -> Iterator[Engine]:
    opened = sa.create_engine(url(gateway, schema))
    yield opened
    opened.dispose()


@pytest.fixture(scope="module")
def orders(engine: Engine) -> sa.Table:
    table = sa.Table(
        "orders",
        sa.MetaData(),
        sa.Column("id", sa.BigInteger, primary_key=True),
        sa.Column("name", sa.String(20)),
        sa.Column("price", sa.Numeric(9, 2)),
        sa.Column("day", sa.Date),
        sa.Column("at", sa.DateTime),
        sa.Column("paid", sa.Boolean),
        sa.Column("select", sa.Double),
    )
    table.create(engine)
    at = datetime.datetime(2024, 2, 29, 12, 30)
    values = [
        {"id": 1, "name": "one", "price": decimal.Decimal("1.50"), "day": at.date(), "at": at, "paid": True},
        {
            "id": 2,
            "name": "zw\\ei'",
            "price": decimal.Decimal("2.50"),
            "day": at.date(),
            "at": at,
            "paid": False,
        },
    ]
    with engine.begin() as connection:
        connection.execute(sa.insert(table), values)
        connection.execute(sa.insert(table).values(id=3, select=0.5))
    return table


def test_a_text_runs_with_named_parameters(engine: Engine) -> None:
    with engine.connect() as connection:
        assert connection.execute(sa.text("SELECT CAST(:x AS INT) + 1 AS y"), {"x": 41}).scalar_one() == 42


def test_rows_come_back_as_they_were_inserted(engine: Engine, orders: sa.Table) -> None:
    with engine.connect() as connection:
        first, second, third = connection.execute(sa.select(orders).order_by(orders.c.id)).all()
    at = datetime.datetime(2024, 2, 29, 12, 30)
    assert first == (1, "one", decimal.Decimal("1.50"), at.date(), at, True, None)
    assert second.name == "zw\\ei'"
    assert third == (3, None, None, None, None, None, 0.5)


@pytest.mark.parametrize("name", ["zw\\ei'", "one"])
def test_conditions_are_parameters_or_literals(engine: Engine, orders: sa.Table, name: str) -> None:
    query = sa.select(orders.c.id).where(orders.c.name == name, orders.c.id.in_([1, 2, 3]))
    literal = query.compile(engine, compile_kwargs={"literal_binds": True})
    with engine.connect() as connection:
        bound = connection.execute(query).scalars().all()
        assert bound == connection.exec_driver_sql(str(literal)).scalars().all()
    assert len(bound) == 1


def test_limits_offsets_and_empty_lists_work(engine: Engine, orders: sa.Table) -> None:
    ids = sa.select(orders.c.id).order_by(orders.c.id)
    with engine.connect() as connection:
        assert connection.execute(ids.limit(1).offset(1)).scalars().all() == [2]
        assert connection.execute(ids.offset(1)).scalars().all() == [2, 3]
        assert connection.execute(ids.where(orders.c.id.in_([]))).scalars().all() == []


def test_aggregates_joins_and_case_work(engine: Engine, orders: sa.Table) -> None:
    other = orders.alias("other")
    query = (
        sa.select(sa.func.count(), sa.func.sum(sa.case((orders.c.paid, 1), else_=0)))
        .select_from(orders)
        .join(other, orders.c.id == other.c.id)
    )
    with engine.connect() as connection:
        assert connection.execute(query).one() == (3, 1)


def test_changes_tell_how_many_rows_they_touched(engine: Engine, orders: sa.Table) -> None:
    with engine.begin() as connection:
        connection.execute(sa.insert(orders), [{"id": 100}, {"id": 101}])
        touched = connection.execute(sa.update(orders).where(orders.c.id >= 100).values(name="new")).rowcount
        gone = connection.execute(sa.delete(orders).where(orders.c.id >= 100)).rowcount
    # An update rewrites files, so its count is not known; better no number than a wrong one.
    assert (touched, gone) == (-1, 2)


@pytest.mark.proves("identifiers")
def test_names_of_any_kind_work_through_sqlalchemys_own_quoting(engine: Engine) -> None:
    names = ["select", "a.b", "Größe", "MixedCase", "white space", "tick`tick"]
    table = sa.Table("Odd Näme", sa.MetaData(), *[sa.Column(name, sa.Integer) for name in names])
    table.create(engine)
    with engine.begin() as connection:
        connection.execute(sa.insert(table).values(dict.fromkeys(names, 7)))
        row = connection.execute(sa.select(table)).one()
    assert dict(row._mapping) == dict.fromkeys(names, 7)
    table.drop(engine)
    assert not sa.inspect(engine).has_table("Odd Näme")


@pytest.mark.proves("information_schema")
def test_schemas_tables_and_columns_are_reflected(engine: Engine, schema: str, orders: sa.Table) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE VIEW paid AS SELECT id FROM orders WHERE paid")
    inspector = sa.inspect(engine)
    assert schema in inspector.get_schema_names()
    assert "orders" in inspector.get_table_names()
    assert inspector.get_view_names(schema=schema) == ["paid"]
    assert "SELECT id" in inspector.get_view_definition("paid")
    reflected = sa.Table("orders", sa.MetaData(), autoload_with=engine)
    assert [str(column.type) for column in reflected.columns] == [
        "BIGINT",
        "TEXT",
        "DECIMAL(9, 2)",
        "DATE",
        "TIMESTAMP",
        "BOOLEAN",
        "DOUBLE",
    ]
    assert inspector.get_pk_constraint("orders")["constrained_columns"] == []


def test_a_table_that_is_not_there_is_told_so(engine: Engine) -> None:
    with pytest.raises(sa.exc.NoSuchTableError):
        sa.Table("nowhere", sa.MetaData(), autoload_with=engine)


def test_the_orm_stores_and_finds_objects(engine: Engine) -> None:
    class Base(orm.DeclarativeBase):
        pass

    class Person(Base):
        __tablename__ = "people"
        id: orm.Mapped[int] = orm.mapped_column(primary_key=True, autoincrement=False)
        name: orm.Mapped[str | None]

    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        session.add_all([Person(id=1, name="Ada"), Person(id=2, name=None)])
        session.commit()
        ada = session.scalars(sa.select(Person).where(Person.name == "Ada")).one()
        ada.name = "Ada L."
        session.commit()
        session.delete(session.get_one(Person, 2))
        session.commit()
        assert [person.name for person in session.scalars(sa.select(Person))] == ["Ada L."]


@pytest.mark.proves("errors")
def test_errors_are_sqlalchemys_and_carry_our_code(engine: Engine) -> None:
    with engine.connect() as connection, pytest.raises(sa.exc.DBAPIError, match="TABLE_NOT_FOUND"):
        connection.execute(sa.text("SELECT * FROM nowhere"))


def test_a_wrong_password_is_refused(gateway: RunningGateway) -> None:
    engine = sa.create_engine(f"bailiwick://admin:wrong@{gateway.grpc_address}")
    with pytest.raises(sa.exc.DBAPIError, match="UNAUTHENTICATED"):
        engine.connect()


def test_a_token_signs_in(gateway: RunningGateway, engine: Engine) -> None:
    with engine.connect() as connection:
        token = connection.exec_driver_sql("CREATE TOKEN FOR admin TTL '1h'").one()[1]
    by_token = sa.create_engine(f"bailiwick://{gateway.grpc_address}/?token={quote_plus(token)}")
    with by_token.connect() as connection:
        assert connection.execute(sa.text("SELECT 1")).scalar_one() == 1
    by_token.dispose()


def test_pandas_reads_and_writes_through_it(engine: Engine) -> None:
    frame = pandas.DataFrame({"id": [1, 2], "name": ["a", None]})
    frame.to_sql("frames", engine, index=False)
    back = pandas.read_sql("SELECT * FROM frames ORDER BY id", engine)
    assert back["id"].tolist() == [1, 2]
    frame.to_sql("frames", engine, index=False, if_exists="append")
    assert pandas.read_sql_table("frames", engine)["id"].tolist().count(1) == 2
