"""Which public calls the installed PySpark has, found by looking at it. Runs inside the client's environment.

Calls of classes are named `Class.call`, functions `functions.name`, types `types.Name`. What a class has from
outside PySpark, such as a tuple's methods, is none of its calls.
"""

import importlib
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

CLASSES: Mapping[str, str] = {
    "SparkSession": "pyspark.sql.session:SparkSession",
    "SparkSession.builder": "pyspark.sql.session:SparkSession.Builder",
    "DataFrame": "pyspark.sql.dataframe:DataFrame",
    "DataFrameNaFunctions": "pyspark.sql.dataframe:DataFrameNaFunctions",
    "DataFrameStatFunctions": "pyspark.sql.dataframe:DataFrameStatFunctions",
    "Column": "pyspark.sql.column:Column",
    "GroupedData": "pyspark.sql.group:GroupedData",
    "PandasCogroupedOps": "pyspark.sql.pandas.group_ops:PandasCogroupedOps",
    "DataFrameReader": "pyspark.sql.readwriter:DataFrameReader",
    "DataFrameWriter": "pyspark.sql.readwriter:DataFrameWriter",
    "DataFrameWriterV2": "pyspark.sql.readwriter:DataFrameWriterV2",
    "MergeIntoWriter": "pyspark.sql.merge:MergeIntoWriter",
    "MergeIntoWriter.WhenMatched": "pyspark.sql.merge:MergeIntoWriter.WhenMatched",
    "MergeIntoWriter.WhenNotMatched": "pyspark.sql.merge:MergeIntoWriter.WhenNotMatched",
    "MergeIntoWriter.WhenNotMatchedBySource": "pyspark.sql.merge:MergeIntoWriter.WhenNotMatchedBySource",
    "Catalog": "pyspark.sql.catalog:Catalog",
    "RuntimeConfig": "pyspark.sql.conf:RuntimeConfig",
    "Window": "pyspark.sql.window:Window",
    "WindowSpec": "pyspark.sql.window:WindowSpec",
    "Observation": "pyspark.sql.observation:Observation",
    "TableValuedFunction": "pyspark.sql.tvf:TableValuedFunction",
    "TableArg": "pyspark.sql.table_arg:TableArg",
    "Row": "pyspark.sql.types:Row",
    "VariantVal": "pyspark.sql.types:VariantVal",
    "Geography": "pyspark.sql.types:Geography",
    "Geometry": "pyspark.sql.types:Geometry",
    "UDFRegistration": "pyspark.sql.udf:UDFRegistration",
    "UDTFRegistration": "pyspark.sql.udtf:UDTFRegistration",
    "DataSourceRegistration": "pyspark.sql.datasource:DataSourceRegistration",
    "DataStreamReader": "pyspark.sql.streaming.readwriter:DataStreamReader",
    "DataStreamWriter": "pyspark.sql.streaming.readwriter:DataStreamWriter",
    "StreamingQuery": "pyspark.sql.streaming.query:StreamingQuery",
    "StreamingQueryManager": "pyspark.sql.streaming.query:StreamingQueryManager",
}
ALONE: Mapping[str, tuple[str, ...]] = {
    "pyspark.sql": ("SQLContext", "HiveContext", "is_remote"),
    "pyspark.sql.streaming": ("StreamingQueryListener", "StatefulProcessor", "StatefulProcessorHandle"),
}
"""What stands in the list as a whole."""
MODULES: Mapping[str, str] = {
    "functions": "pyspark.sql.functions",
    "types": "pyspark.sql.types",
    "avro.functions": "pyspark.sql.avro.functions",
    "protobuf.functions": "pyspark.sql.protobuf.functions",
}
_PACKAGE = "pyspark.sql"


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    documentation: str
    names: Mapping[str, Any]
    """What its examples take for granted: the names of its module."""


def calls() -> Iterator[Call]:
    """Every public call of the SQL and DataFrame surface."""
    for group, place in CLASSES.items():
        owners = [_found(place), _found(place.replace(_PACKAGE, f"{_PACKAGE}.connect", 1))]
        module = importlib.import_module(place.partition(":")[0])
        for attribute in sorted({name for owner in owners for name in _own(owner)}):
            what = next(getattr(owner, attribute) for owner in owners if hasattr(owner, attribute))
            yield _call(f"{group}.{attribute}", what, module)
    for module_name, names in ALONE.items():
        for name in names:
            module = importlib.import_module(module_name)
            yield _call(name, getattr(module, name), module)
    for group, module_name in MODULES.items():
        module = importlib.import_module(module_name)
        for name in sorted(_public(module)):
            yield _call(f"{group}.{name}", getattr(module, name), module)


def public_names() -> set[str]:
    """What the package says is public, in the modules that have a say."""
    listed = {*importlib.import_module(_PACKAGE).__all__}
    return listed | {
        name
        for module in ("query", "readwriter", "listener", "stateful_processor")
        for name in importlib.import_module(f"{_PACKAGE}.streaming.{module}").__all__
    }


def _found(place: str) -> Any:
    """The class at that place, or None: the client of Spark Connect has its own of most, not of all."""
    module_name, _, class_name = place.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError:
        return None
    for part in class_name.split("."):
        found = getattr(found, part, None)
    return found


def _own(owner: type | None) -> set[str]:
    kinds = [kind for kind in getattr(owner, "__mro__", ()) if kind.__module__.startswith(_PACKAGE)]
    return {
        name
        for kind in kinds
        for name, value in vars(kind).items()
        if not name.startswith("_") and not inspect.isclass(value)
    }


def _public(module: Any) -> set[str]:
    listed = getattr(module, "__all__", None)
    if listed is not None:
        return set(listed)
    return {
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    }


def _call(name: str, what: Any, module: Any) -> Call:
    # Functions are written in modules of their own, and their examples know the names of those.
    home = importlib.import_module(getattr(what, "__module__", None) or module.__name__)
    names = vars(home) if name.startswith("functions.") else vars(module)
    return Call(name, inspect.getdoc(what) or "", names)
