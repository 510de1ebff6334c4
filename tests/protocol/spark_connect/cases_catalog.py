"""`spark.catalog`: what there is, and where one stands."""

from typing import Any

from spark_connect.case import case


@case
def current_catalog_and_database(spark: Any) -> Any:
    return [spark.catalog.currentCatalog(), spark.catalog.currentDatabase()]


@case
def setting_the_catalog(spark: Any) -> Any:
    spark.catalog.setCurrentCatalog("lake")
    spark.catalog.setCurrentDatabase("clients")
    return [spark.catalog.currentCatalog(), spark.catalog.currentDatabase(), spark.table("people").count()]


@case
def setting_the_database(spark: Any) -> Any:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.clients_too")
    spark.catalog.setCurrentDatabase("clients_too")
    seen = spark.catalog.currentDatabase()
    spark.catalog.setCurrentDatabase("clients")
    return [seen, spark.catalog.currentDatabase()]


@case
def databases(spark: Any) -> Any:
    spark.sql("CREATE NAMESPACE IF NOT EXISTS lake.clients_too")
    return sorted(each.name for each in spark.catalog.listDatabases("clients*"))


@case
def a_database(spark: Any) -> Any:
    told = spark.catalog.getDatabase("clients")
    return [told.name, told.catalog]


@case
def databases_that_exist(spark: Any) -> Any:
    return [spark.catalog.databaseExists("clients"), spark.catalog.databaseExists("nothing_there")]


@case
def tables(spark: Any) -> Any:
    found = spark.catalog.listTables(pattern="people|orders|nested")
    return sorted(
        [each.name, each.catalog, each.namespace, each.tableType, each.isTemporary] for each in found
    )


@case
def tables_of_a_database(spark: Any) -> Any:
    return sorted(each.name for each in spark.catalog.listTables("lake.clients", "pe*"))


@case
def temporary_views_among_tables(spark: Any) -> Any:
    spark.range(1).createOrReplaceTempView("catalog_view")
    found = [[each.name, each.isTemporary] for each in spark.catalog.listTables(pattern="catalog_view")]
    spark.catalog.dropTempView("catalog_view")
    return found


@case
def a_table(spark: Any) -> Any:
    told = spark.catalog.getTable("people")
    return [told.name, told.catalog, told.namespace, told.isTemporary, told.database]


@case
def a_table_by_its_full_name(spark: Any) -> Any:
    return spark.catalog.getTable("lake.clients.orders").name


@case
def tables_that_exist(spark: Any) -> Any:
    names = ("people", "lake.clients.people", "nothing", "lake.nothing.people")
    return [spark.catalog.tableExists(name) for name in names]


@case
def columns(spark: Any) -> Any:
    return [
        [each.name, each.dataType, each.nullable, each.isPartition, each.isBucket]
        for each in spark.catalog.listColumns("people")
    ]


@case
def columns_of_a_view(spark: Any) -> Any:
    spark.range(1).selectExpr("id", "'x' AS t").createOrReplaceTempView("catalog_columns")
    found = [[each.name, each.dataType] for each in spark.catalog.listColumns("catalog_columns")]
    spark.catalog.dropTempView("catalog_columns")
    return found


@case
def functions(spark: Any) -> Any:
    found = spark.catalog.listFunctions(pattern="array_a*")
    return sorted([each.name, each.isTemporary] for each in found)


@case
def a_function(spark: Any) -> Any:
    told = spark.catalog.getFunction("abs")
    return [told.name, told.isTemporary]


@case
def functions_that_exist(spark: Any) -> Any:
    return [spark.catalog.functionExists("abs"), spark.catalog.functionExists("no_such_function")]


@case
def catalogs(spark: Any) -> Any:
    return "lake" in [each.name for each in spark.catalog.listCatalogs()]


@case
def catalogs_by_pattern(spark: Any) -> Any:
    return [each.name for each in spark.catalog.listCatalogs("lak*")]


@case
def dropping_a_view_that_is_not_there(spark: Any) -> Any:
    return spark.catalog.dropTempView("no_such_view")


@case
def refreshing_a_table(spark: Any) -> Any:
    spark.catalog.refreshTable("people")
    return spark.table("people").count()


@case
def a_table_made_by_the_catalog(spark: Any) -> Any:
    from pyspark.sql.types import IntegerType, StructField, StructType

    spark.sql("DROP TABLE IF EXISTS catalog_made")
    schema = StructType([StructField("n", IntegerType())])
    spark.catalog.createTable("catalog_made", source="iceberg", schema=schema, description="a table")
    return [spark.table("catalog_made").columns, spark.catalog.tableExists("catalog_made")]
