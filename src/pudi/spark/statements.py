"""`pudi.spark.sql`: Hudi's Spark SQL on a stock session. Spark runs queries, the verbs of a table do all else."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pudi.config import FormatOptions
from pudi.engine.spark.hive_catalog import METASTORE_URIS, has_hive, metastore_of
from pudi.engine.spark.session import check_session, functions, is_connect, sql_errors, struct_type
from pudi.errors import NotSupportedError
from pudi.record import SPARK_ERROR_MARK
from pudi.scan import ChangeFeed, Scan
from pudi.schema import arrow_to_spark_json, spark_struct_to_arrow
from pudi.schema.spark_types import arrow_to_spark_type, arrow_type_of, quote
from pudi.statement.attached_catalogs import PURGED
from pudi.statement.execute.merge_computed import COMPUTED
from pudi.statement.host import OWN_CATALOG, CataloguedEntry, MergeQuery, Settings
from pudi.statement.run import run
from pudi.statement.store_assignment import check_count, check_storable, places
from pudi.statement.table_uses import TableUse, replaced
from pudi.statement.tree import TableName, Text
from pudi.table import Table
from pudi.table.catalogs import root_at

_log = logging.getLogger(__name__)
_MISFIT = SPARK_ERROR_MARK + "SchemaError: {} is none of type {}; give one that is, or NULL: "


class _Conf:
    """The settings of a session."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def get(self, key: str) -> str | None:
        found = self._spark.conf.get(key, None)
        return None if found is None else str(found)

    def set(self, key: str, value: str) -> None:
        self._spark.conf.set(key, value)

    def unset(self, key: str) -> None:
        self._spark.conf.unset(key)

    def items(self) -> Mapping[str, str]:
        return {row[0]: row[1] for row in self._spark.sql("SET").collect()}


class SparkHost:
    """Runs queries by a Spark session, classic or Connect.

    Args:
        spark: the session.
    """

    def __init__(self, spark: Any) -> None:
        self.spark = spark
        self.settings: Settings = _Conf(spark)

    def query(self, text: Text, uses: Sequence[TableUse], tables: Sequence[Any]) -> Any:
        """Run a query in Spark, tables being read natively; see `Host`."""
        if not uses:
            return self.spark.sql(text.text)
        sql = replaced(text, uses, lambda number: f"{{_pudi_{number}}}", _escaped)
        return self.spark.sql(sql, **{f"_pudi_{number}": self._frame(found) for number, found in enumerate(tables)})

    def _frame(self, found: Any) -> Any:
        if isinstance(found, Scan | ChangeFeed):
            return found.to_spark(self.spark)
        return self.result(found) if isinstance(found, pa.Table) else found

    def result(self, rows: pa.Table) -> Any:
        """Few rows as a DataFrame; see `Host`."""
        if not rows.num_columns:
            return self.spark.range(0).select()
        schema = struct_type(json.loads(arrow_to_spark_json(rows.schema)))
        return self.spark.createDataFrame(
            [tuple(row.values()) for row in rows.to_pylist(maps_as_pydicts="strict")], schema
        )

    @staticmethod
    def columns(frame: Any) -> list[str]:
        """The names of a query's columns."""
        return list(frame.columns)

    def computed(
        self, rows: Any, sides: Mapping[str, str], values: Mapping[str, tuple[str, pa.Field]], query: MergeQuery
    ) -> Any:
        """Rows of a merge with further columns; see `Host`."""
        names, sql = rows.columns, functions(rows)
        own = [name if name.startswith(COMPUTED) else f"_pudi_own_{n}" for n, name in enumerate(names)]
        laterals = ""
        for side, alias in sides.items():
            struct = f"__joined.{own[names.index(side)]}"
            columns = ", ".join(f"{struct}.{quote(f)} AS {quote(f)}" for f in rows.schema[side].dataType.names)
            laterals += f", LATERAL (SELECT {columns}) AS {quote(alias)}"
        chosen = ", ".join(f"{text} AS _{n}" for n, (text, _) in enumerate(values.values(), len(names)))
        with sql_errors():
            joined = rows.toDF(*own)
            found = query(f"SELECT __joined.*, {chosen} FROM __joined{laterals}", {"__joined": joined})
            kinds = [field.dataType.simpleString() for field in found.schema.fields[len(names) :]]
            made = [
                sql.expr(_cast(f"_{n}", kind, field)).alias(name)
                for n, (kind, (name, (_, field))) in enumerate(zip(kinds, values.items(), strict=True), len(names))
            ]
            kept = [sql.col(name).alias(given) for name, given in zip(own, names, strict=True)]
            return found.select(*kept, *made)

    @staticmethod
    def schema(frame: Any) -> pa.Schema:
        """The types of a query's columns."""
        return spark_struct_to_arrow(frame.schema.json())

    @staticmethod
    def chosen(frame: Any, names: Sequence[str]) -> Any:
        """Some columns of a query."""
        return frame.select(*map(quote, names))

    @staticmethod
    def fitted(
        frame: Any,
        columns: Sequence[pa.Field],
        constants: Sequence[tuple[pa.Field, object]] = (),
        *,
        casts: bool = False,
        by_name: bool = False,
    ) -> Any:
        """The columns of a query as columns of a table, cast where a value keeps its meaning; see `Host`."""
        check_count(columns, len(frame.columns))
        sql = functions(frame)
        numbered = frame.toDF(*(f"_{n}" for n in range(len(columns))))
        kinds = [field.dataType.simpleString() for field in numbered.schema.fields]
        for given, kind, field in zip(numbered.schema.fields, kinds, columns, strict=True):
            if not casts and "void" not in kind:
                check_storable(arrow_type_of(given.dataType, field.name), field, by_name=by_name)
        chosen = [
            sql.expr(_cast(_arranged(f"_{n}", given.dataType, f) if by_name else f"_{n}", kind, f)).alias(f.name)
            for n, (given, kind, f) in enumerate(zip(numbered.schema.fields, kinds, columns, strict=True))
        ]
        chosen += [sql.lit(value).cast(arrow_to_spark_type(field)).alias(field.name) for field, value in constants]
        return numbered.select(*chosen)

    @staticmethod
    def known(name: TableName) -> Table | None:
        """There is none but those of the session's settings."""
        del name
        return None

    def has(self, name: TableName) -> bool:
        """Whether Spark knows a table or view of that name, and it's none of Hudi's."""
        return self._exists(name) and self.registered(name) is None

    def keeps(self, name: TableName) -> bool:
        """Whether it's a table or view of Spark's own."""
        return self.has(name)

    def registered(self, name: TableName) -> CataloguedEntry | None:
        """A Hudi table in the Hive catalog of the session, which Spark alone can't read."""
        is_elsewhere = len(name.parts) > 2 and (len(name.parts) > 3 or name.parts[0].lower() != OWN_CATALOG)
        if is_elsewhere or name.path is not None or not self._has_hive:
            return None
        if not self._exists(name):
            return None
        facts = self._facts(name)
        if facts.get("Provider") != "hudi" and not facts.get("InputFormat", "").startswith("org.apache.hudi."):
            return None
        key = FormatOptions.as_read_optimized.key
        optimized = f"{key}=true" in facts.get("Storage Properties", "")
        managed = facts.get("Type") == "MANAGED" or f"{PURGED}=true" in facts.get("Table Properties", "")
        return CataloguedEntry(
            root_at(facts["Location"]),
            {key: "true"} if optimized else {},
            is_view=optimized,
            is_managed=managed,
        )

    def _exists(self, name: TableName) -> bool:
        try:
            return bool(self.spark.catalog.tableExists(_quoted(name)))
        except Exception as error:
            if _lacks_provider(error):
                return True
            raise

    def _facts(self, name: TableName) -> dict[str, str]:
        """Return what Spark's catalog says of a table; Spark 4 describes none whose provider it lacks."""
        try:
            rows = self.spark.sql(f"DESCRIBE TABLE EXTENDED {_quoted(name)}").collect()
            return {row[0]: row[1] for row in rows}
        except Exception as error:
            if not _lacks_provider(error):
                raise
        database = quote(name.parts[-2] if len(name.parts) > 1 else self.database())
        rows = self.spark.sql(f"SHOW TABLE EXTENDED IN {database} LIKE '{name.parts[-1]}'").collect()
        lines = (line.partition(": ") for row in rows for line in row[3].splitlines())
        return {key: value for key, _, value in lines}

    @property
    def _has_hive(self) -> bool:
        return has_hive(self.spark)

    def metastore(self) -> str | None:
        """Address of the Hive Metastore of the session, by its settings or its hive-site.xml; see `Host`."""
        servers = [uri.strip().removeprefix("thrift://") for uri in metastore_of(self.spark).split(",") if uri.strip()]
        return f"hive://{','.join(servers)}" if servers else None

    def check_registrable(self, name: TableName) -> None:
        """Refuse a new table on Connect, whose Hive catalog isn't found; a classic session knows it alone."""
        if not self._has_hive:
            return
        what = f"no setting says where the Hive Metastore of the session is ({METASTORE_URIS[0]})"
        if is_connect(self.spark):
            raise NotSupportedError(
                f"{what}, so {name} can't be registered there: ATTACH 'hive://host:9083' AS hive first"
            )
        _log.warning(
            "%s: %s is known in this session alone; ATTACH 'hive://host:9083' AS hive registers it", what, name
        )

    def tables(self, database: tuple[str, ...]) -> list[tuple[str, str, bool]]:
        """Tables and views that Spark shows; see `Host`."""
        inner = database[1:] if len(database) > 1 and database[0].lower() == OWN_CATALOG else database
        if len(inner) > 1 or (inner and not self.spark.catalog.databaseExists(quote(inner[0]))):
            return []
        rows = self.spark.sql(f"SHOW TABLES{f' IN {quote(inner[0])}' if inner else ''}").collect()
        return [(row[0], row[1], row[2]) for row in rows]

    def folder(self, database: str) -> str | None:
        """Folder of a database in the session's Hive catalog, which may be anywhere; see `Host`."""
        if not self._has_hive or not self.spark.catalog.databaseExists(quote(database)):
            return None
        return root_at(self.spark.catalog.getDatabase(quote(database)).locationUri)

    def database(self) -> str:
        """The session's current database."""
        return str(self.spark.catalog.currentDatabase())

    def warehouse(self) -> str | None:
        """Spark's folder of tables."""
        found = self.settings.get("spark.sql.warehouse.dir")
        return None if found is None else found.removeprefix("file:") if not found.startswith("file://") else found[7:]


def _lacks_provider(error: Exception) -> bool:
    """Whether Spark says that it can't load a table for lack of Hudi's bundle; Spark 3.5 loads none to look at it."""
    text = str(error)
    return "DATA_SOURCE_NOT_FOUND" in text and "source: hudi" in text


def _quoted(name: TableName) -> str:
    return ".".join(map(quote, name.parts))


def _escaped(piece: str) -> str:
    return piece.replace("{", "{{").replace("}", "}}")


def _arranged(column: str, given: Any, field: pa.Field) -> str:
    """SQL of a column whose structs have their fields in the order of a table's column."""
    return column if "struct<" not in given.simpleString() else _nested(column, arrow_type_of(given, field.name), field)


def _nested(value: str, given: pa.DataType, field: pa.Field) -> str:
    wanted = field.type
    inner = value.replace(".", "_").replace("`", "") + "_"
    if pa.types.is_struct(given) and pa.types.is_struct(wanted) and given.num_fields == wanted.num_fields:
        parts: list[str] = []
        for number, place in enumerate(places(given, wanted, by_name=True)):
            part = _nested(f"{value}.{quote(given.field(place).name)}", given.field(place).type, wanted.field(number))
            parts.append(f"{part} AS {quote(wanted.field(number).name)}")
        return f"CASE WHEN {value} IS NOT NULL THEN struct({', '.join(parts)}) END"
    if pa.types.is_list(given) and pa.types.is_list(wanted):
        return f"transform({value}, {inner} -> {_nested(inner, given.value_type, wanted.value_field)})"
    if pa.types.is_map(given) and pa.types.is_map(wanted):
        return f"transform_values({value}, (k{inner}, {inner}) -> {_nested(inner, given.item_type, wanted.item_field)})"
    return value


def _cast(column: str, kind: str, field: pa.Field) -> str:
    """SQL of a column as one of a table; a value that it can't be is an error."""
    target = arrow_to_spark_type(field)
    if kind.upper() == target.upper():
        return column
    if pa.types.is_nested(field.type):
        return f"CAST({column} AS {target})"
    made = f"try_cast({column} AS {target})"
    value = "a value of the statement" if field.name.startswith(COMPUTED) else f"a value of column {field.name}"
    message = _MISFIT.format(value, target).replace("'", "")
    failure = f"CAST(raise_error(concat('{message}', left(CAST({column} AS STRING), 100))) AS {target})"
    return f"CASE WHEN {column} IS NOT NULL AND {made} IS NULL THEN {failure} ELSE {made} END"


def sql(spark: Any, text: str) -> Any:
    """Run a statement of Hudi's Spark SQL on a stock session: without a JAR, on Spark 3.5, Spark 4 and Connect.

    `pudi.spark.sql(spark, "MERGE INTO trips USING …")`. Tables are known by path (``hudi.`/data/trips` ``), by the
    names that CREATE TABLE gave them in the session, or by their folder in Spark's warehouse. Any other statement and
    table is Spark's own: views, Parquet tables, functions. Tables of pudi are read by Spark's own Parquet reader.

    Args:
        spark: the session.
        text: one statement.

    Returns:
        A DataFrame: of a query lazy, of a change one row that says what was done, or none.

    Raises:
        InvalidArgumentError: the statement is wrong; the message names line and column.
        NotSupportedError: it's beyond what pudi runs; the message names it.
        TableNotFoundError: a statement that changes a table names none.
    """
    check_session(spark)
    return run(SparkHost(spark), text)
