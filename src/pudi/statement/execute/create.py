"""CREATE TABLE, with LIKE and AS SELECT too, CREATE VIEW, and CREATE INDEX."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pudi.config import (
    KEY_PREFIXES,
    FormatOptions,
    Option,
    Scope,
    SyncOptions,
    TimebasedOptions,
    check_inline_compaction,
    find_option,
    names_in,
    resolve,
)
from pudi.config.sync_options import SyncStrategy
from pudi.config.table_options import COPY_ON_WRITE, MERGE_ON_READ, OtherTableOptions, TableOptions
from pudi.errors import InvalidArgumentError, NotSupportedError, TableExistsError
from pudi.format.metadata_partitions import EXPRESSION_INDEX_PREFIX, SECONDARY_INDEX_PREFIX
from pudi.schema import without_meta_fields
from pudi.schema.spark_types import arrow_to_spark_type, arrow_type_of, quote
from pudi.statement.attached_catalogs import PURGED
from pudi.statement.host import Entry, Home
from pudi.statement.session import Session, named
from pudi.statement.tree import (
    ColumnDef,
    CreateIndex,
    CreateTable,
    CreateView,
    TableName,
    Text,
)
from pudi.table import Table, create
from pudi.table.create import check_engine
from pudi.table.table import find_table

_HIVE_STYLE = TableOptions.hive_style.key
SHORT_NAMES = {
    "primarykey": "record_key",
    "precombinefield": "ordering",
    "orderingfields": "ordering",
    "type": "table_type",
}
"""Hudi's short names of table properties in SQL, in lower case (HoodieOptionConfig)."""
_SHOWN = {"primarykey": "primaryKey", "precombinefield": "preCombineField", "orderingfields": "orderingFields"}
_KINDS = {"copy_on_write": "cow", "merge_on_read": "mor"}
_LIKE = 0.75
"""Similarity from which another name is taken for a slip of one of these: the table would lack its key."""


def create_table(session: Session, statement: CreateTable) -> Any:
    """Run CREATE TABLE; a table that is at its place already is known by the name from then on."""
    with session.at(statement.table):
        if statement.table.path is not None:
            path = statement.location or statement.table.path
        else:
            path = statement.location or session.catalog.location(statement.table)
        home = session.attached.home(statement.table)
        if statement.table.path is None and session.named(statement.table) is not None:
            if statement.exists_ok:
                return session.done()
            raise TableExistsError(f"there is a table {statement.table} already: drop it, or write IF NOT EXISTS")
        if statement.table.path is None:
            session.check_free(statement.table, home)
        known = find_table(path)
    if statement.like is not None:
        statement = _like_table(session, statement)
    with session.at(statement.table):
        roles, options, others = _properties(statement.properties, is_named=statement.table.path is None)
    if FormatOptions.as_read_optimized.key in options:
        with session.at(statement.table):
            _check_view(known)
    if known is None:
        known = _created(session, statement, path, roles, options)
    elif statement.query is not None:
        raise TableExistsError(f"there is a table at {path} already: INSERT INTO it", table=path)
    elif statement.like is None:
        _check_same(session, statement, known, roles)
    if statement.table.path is None:
        kept = {key: value for key, value in options.items() if not is_kept_by_table(key)}
        defined = (*statement.columns, *statement.partitioned_by)
        comments = {column.name.lower(): column.comment for column in defined if column.comment}
        external = statement.location is not None
        purged = {} if external or home is None else {PURGED: "true"}
        entry = Entry(known.path, {**others, **kept, **purged}, statement.comment, comments, is_external=external)
        with session.at(statement.table):
            _name(session, statement.table, known, home, entry)
    return session.done()


def _name(session: Session, name: TableName, table: Table, home: Home | None, entry: Entry) -> None:
    """Know a table by name: in an attached catalog, else in the session alone."""
    if home is None:
        session.catalog.add(name, entry)
        return
    options = {key: value for key, value in entry.properties.items() if key.startswith(KEY_PREFIXES)}
    if options.pop(FormatOptions.as_read_optimized.key, "").lower() == "true":
        options[SyncOptions.strategy.key] = SyncStrategy.READ_OPTIMIZED.value
    session.attached.register(home, table, options, entry)


def _check_view(table: Table | None) -> None:
    """Refuse a name for the view of a table that is none, or has no other one, as Hudi does."""
    what = f"{FormatOptions.as_read_optimized} is for one more name of a merge-on-read table"
    if table is None:
        raise InvalidArgumentError(f"{what}, and there is no table: create it first, without this property")
    if table.config.table_type != MERGE_ON_READ:
        raise InvalidArgumentError(f"{what}, and this one is copy-on-write: leave it out", table=table.path)


def is_kept_by_table(key: str) -> bool:
    """Whether the table itself keeps an option."""
    found = find_option(key)
    return found is not None and found.scope is Scope.TABLE


def _properties(given: Mapping[str, str], *, is_named: bool) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
    """Split table properties: roles of columns, options, and what is neither.

    As in Hudi, an option may say the type, and the names of table and database are those of the statement.
    """
    roles: dict[str, Any] = {}
    options: dict[str, str] = {}
    others: dict[str, str] = {}
    for key, value in given.items():
        role = SHORT_NAMES.get(key.lower())
        if role == "table_type":
            kind = value.strip().lower()
            roles[role] = _KINDS.get(kind, kind)
        elif role is not None:
            names = [name.strip() for name in value.split(",") if name.strip()]
            if roles.setdefault(role, names) != names:
                raise InvalidArgumentError(
                    f"table property {key}={value} contradicts {','.join(roles[role])}: drop one"
                )
        elif key.startswith(KEY_PREFIXES):
            options[key] = value
        else:
            near = difflib.get_close_matches(key.lower().replace("_", ""), SHORT_NAMES, n=1, cutoff=_LIKE)
            if near:
                raise InvalidArgumentError(f"table property {key!r}: did you mean {_SHOWN.get(near[0], near[0])}?")
            others[key] = value
    for key in list(options):
        declared = find_option(key)
        if declared is TableOptions.table_type:
            kind = str(TableOptions.table_type.parse(options.pop(key), key=key))
            if roles.setdefault("table_type", _KINDS[kind.lower()]) != _KINDS[kind.lower()]:
                raise InvalidArgumentError(f"table properties type and {key}={kind} contradict each other: drop one")
        elif is_named and declared in (TableOptions.table_name, TableOptions.database):
            del options[key]
    return roles, options, others


def _created(
    session: Session, statement: CreateTable, path: str, roles: dict[str, Any], options: dict[str, str]
) -> Table:
    frame = None
    if statement.query is not None:
        frame = session.data(statement.query)
        schema = without_meta_fields(session.host.schema(frame))
    else:
        schema = _schema(session, statement)
    typed = [column for column in statement.partitioned_by if column.type]
    twice = next((column for column in typed if named(schema.names, column.name) is not None), None)
    if twice is not None:
        raise session.wrong(twice.at, f"there is a column {twice.name} already: name it without its type")
    schema = pa.schema([*schema, *(arrow_field(session, column) for column in typed)])
    partitions = [known_column(session, schema, column) for column in statement.partitioned_by]
    if not len(schema):
        raise session.wrong(statement.table.at, f"there is no table at {path}: name columns to create one")
    ordered = [field for field in schema if field.name not in partitions]
    schema = pa.schema([*ordered, *(schema.field(name) for name in partitions)])
    hive = {} if _HIVE_STYLE in options else {_HIVE_STYLE: "true"}
    with session.at(statement.table):
        if frame is not None:  # before there is a table
            check_engine(frame, path)
            if roles.get("table_type", "cow") == "cow":
                check_inline_compaction(COPY_ON_WRITE, resolve(options, session.catalog.options()), path)
        table = create(
            path,
            schema,
            partition_by=_with_kinds(partitions, options),
            name=statement.table.parts[-1] if statement.table.path is None else None,
            options={**session.catalog.options(), **hive, **options},
            **roles,
        )
    if frame is not None:
        columns = session.host.columns(frame)
        given = [schema.field(str(named(schema.names, name))) for name in columns if named(schema.names, name)]
        with session.at(statement.query or 0):
            table.bulk_insert(session.host.fitted(session.host.chosen(frame, [f.name for f in given]), given))
    return table


def _with_kinds(partitions: list[str], options: dict[str, str]) -> list[str]:
    """Take the partition columns out of options that name the same with kinds, `day:timestamp`, as Hudi has it."""
    for key in [key for key in options if find_option(key) is TableOptions.partition_by]:
        named_there = names_in(options[key])
        if [name.partition(":")[0].lower() for name in named_there] == [name.lower() for name in partitions]:
            kinds = (name.partition(":")[1:] for name in named_there)
            del options[key]
            return [name + "".join(kind) for name, kind in zip(partitions, kinds, strict=True)]
    return partitions


def _schema(session: Session, statement: CreateTable) -> pa.Schema:
    return pa.schema([arrow_field(session, column) for column in statement.columns])


def arrow_field(session: Session, column: ColumnDef) -> pa.Field:
    """Return a column as a field; an error names its place."""
    if not column.type:
        raise session.wrong(column.at, f"column {column.name} has no type")
    with session.at(column.at):
        return pa.field(column.name, arrow_type_of(column.type, column.name), column.nullable)


def known_column(session: Session, schema: pa.Schema, column: ColumnDef) -> str:
    """Return a column as the table spells it; an error names its place."""
    known = named(schema.names, column.name)
    if known is None:
        raise session.wrong(column.at, f"there is no column {column.name}; there are {', '.join(schema.names)}")
    return known


def _check_same(session: Session, statement: CreateTable, table: Table, roles: Mapping[str, Any]) -> None:
    """Refuse what the table at a place contradicts: columns, keys, type, and partition columns of no columns."""
    if statement.partitioned_by and not statement.columns:
        at = statement.partitioned_by[0].at
        raise session.wrong(at, f"PARTITIONED BY takes columns of a new table; there is one at {table.path}")
    config = table.config
    there = {
        "record_key": list(config.record_key_fields),
        "ordering": list(config.ordering_fields),
        "table_type": _KINDS[config.table_type.lower()],
    }
    for role, value in roles.items():
        if value != there[role]:
            with session.at(statement.table):
                found = there[role] or "none"
                raise InvalidArgumentError(f"{role} {value} contradicts the table, which has {found}", table=table.path)
    for column in statement.columns:
        known = named(table.schema.names, column.name)
        kind = None if known is None else table.schema.field(known).type
        if kind != arrow_field(session, column).type:
            has = f"has {known} of type {kind}" if known else "does not have it"
            raise session.wrong(column.at, f"column {column.name}: the table at {table.path} {has}")


_SHORT_OPTIONS = {
    "primarykey": TableOptions.record_key,
    "precombinefield": TableOptions.ordering,
    "orderingfields": TableOptions.ordering,
    "type": TableOptions.table_type,
}
_SHARED: tuple[Option[Any], ...] = (
    TableOptions.hive_style,
    TableOptions.url_encode,
    TableOptions.slash_separated_dates,
    TableOptions.base_file_format,
    TableOptions.populate_meta_fields,
    TableOptions.partial_update_mode,
    TableOptions.cdc_enabled,
    TableOptions.cdc_logging_mode,
    TableOptions.logical_timestamps,
    OtherTableOptions.merge_property,
    *TimebasedOptions.declared,
)
"""The options of a table that one like it shares, whatever its keys are."""
_SHARED_WITH = {
    TableOptions.record_key: (TableOptions.key_generator,),
    TableOptions.ordering: (
        TableOptions.record_merge_mode,
        TableOptions.merge_strategy_id,
        TableOptions.compaction_payload_class,
    ),
}
"""Options that fit the columns of the other table only: they are left out where the statement names its own."""


def _like_table(session: Session, statement: CreateTable) -> CreateTable:
    """Return the statement with what it takes over (CreateHoodieTableLikeCommand).

    Columns come with their comments. Properties that the statement names win; properties that are no options, and the
    table's comment, aren't taken over.

    Raises:
        SchemaError, NotSupportedError: the other table isn't one of Hudi, and has a type that no table can hold.
    """
    assert statement.like is not None
    source = session.find(statement.like)
    if source is None:
        with session.at(statement.like):
            return _like_foreign(session, statement, statement.like)
    entry = session.entry(statement.like)
    comments = {} if entry is None else entry.comments
    columns = _defined_columns(session.data_columns(source), statement.like, comments)
    partitions = tuple(column for column in columns if column.name in source.config.partition_fields)
    named = {key: value for key, value in ({} if entry is None else entry.properties).items() if _is_option(key)}
    properties = {**named, **_shared_properties(source, statement.properties), **statement.properties}
    return replace(statement, columns=columns, partitioned_by=_untyped(partitions), properties=properties)


def _is_option(key: str) -> bool:
    return key.startswith(KEY_PREFIXES) and key != FormatOptions.as_read_optimized.key


def _shared_properties(source: Table, given: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that make a table like another one, without those that the statement replaces."""
    replaced = {_SHORT_OPTIONS.get(key.lower()) or find_option(key) for key in given}
    config = source.config
    left_out = {each for option, with_it in _SHARED_WITH.items() if option in replaced for each in with_it}
    taken = {*_SHARED, *(each for with_it in _SHARED_WITH.values() for each in with_it)} - left_out - replaced
    found = {key: value for key, value in config.raw.items() if find_option(key) in taken}
    if ":" in config.raw.get(TableOptions.partition_by.key, "") and TableOptions.partition_by not in replaced:
        found[TableOptions.partition_by.key] = config.raw[TableOptions.partition_by.key]
    names = {TableOptions.record_key: config.record_key_fields, TableOptions.ordering: config.ordering_fields}
    texts = {option.key: ",".join(names[option]) for option in names if names[option] and option not in replaced}
    if TableOptions.table_type not in replaced:
        texts[TableOptions.table_type.key] = config.table_type
    return {**found, **texts}


def _like_foreign(session: Session, statement: CreateTable, name: TableName) -> CreateTable:
    """Return the statement with the columns of a table that the engine knows, as Spark's catalog describes it."""
    quoted = ".".join(map(quote, name.parts))
    frame = session.query(Text(f"SELECT * FROM {quoted} LIMIT 0", name.at))
    columns = _defined_columns(list(without_meta_fields(session.host.schema(frame))), name, {})
    spark = session.host.spark
    if spark is None:
        return replace(statement, columns=columns)
    known = {each.name: each for each in spark.catalog.listColumns(quoted)}
    described = [
        replace(each, comment=known[each.name].description) if each.name in known else each for each in columns
    ]
    partitions = tuple(each for each in described if each.name in known and known[each.name].isPartition)
    return replace(statement, columns=tuple(described), partitioned_by=_untyped(partitions))


def _defined_columns(fields: list[pa.Field], name: TableName, comments: Mapping[str, str]) -> tuple[ColumnDef, ...]:
    return tuple(
        ColumnDef(f.name, arrow_to_spark_type(f), name.at, f.nullable, comment=comments.get(f.name.lower()))
        for f in fields
    )


def _untyped(columns: tuple[ColumnDef, ...]) -> tuple[ColumnDef, ...]:
    return tuple(replace(column, type="") for column in columns)


def create_view(session: Session, statement: CreateView) -> Any:
    """Run CREATE VIEW, which only Spark keeps, and CACHE TABLE … AS."""
    spark = session.host.spark
    if spark is None:
        raise NotSupportedError(
            f"SQL: {statement.name}: views aren't kept on this machine; give the query's result by name: "
            f"pudi.sql(text, {statement.name}=pudi.sql('SELECT …'))"
        )
    frame = session.query(statement.query)
    if statement.columns:
        names = session.host.columns(frame)
        if len(names) != len(statement.columns):
            raise session.wrong(
                statement.query.at, f"the view has {len(statement.columns)} columns, the query {len(names)}"
            )
        frame = frame.toDF(*statement.columns)
    scope = "GlobalTempView" if statement.is_global else "TempView"
    getattr(frame, f"{'createOrReplace' if statement.replaces else 'create'}{scope}")(statement.name)
    if statement.cached:
        spark.catalog.cacheTable(statement.name)
    return session.done()


def create_index(session: Session, statement: CreateIndex) -> Any:
    """Run CREATE INDEX; without a kind it's a secondary index, or, of the record key's columns, a record index.

    Raises:
        InvalidArgumentError: an index of the record key has another name than Hudi's.
    """
    table = session.table(statement.table)
    options = dict(statement.options)
    expr = options.pop("expr", options.pop("func", None))
    keys = table.config.record_key_fields
    of_keys = sorted(c.lower() for c in statement.columns) == sorted(k.lower() for k in keys)
    kind = statement.kind or ("record_index" if of_keys else "secondary_index")
    if kind == "record_index" and statement.name.lower() != kind:
        raise session.wrong(statement.table.at, f"an index of the record key is named {kind}, in Hudi too")
    if kind == "record_index" and statement.columns and not of_keys:
        of = f"name {', '.join(keys)} or no column" if keys else "name no column"
        raise session.wrong(statement.table.at, f"{kind} is of the record key: {of}")
    with session.at(statement.table):
        if statement.exists_ok and full_index_name(table, statement.name) is not None:
            return session.done()
        if kind == "record_index":
            table.create_index(kind, spark=session.host.spark, options=options)
        else:
            named_index = statement.name if kind == "secondary_index" or expr else None
            columns = list(statement.columns)
            table.create_index(kind, columns, named_index, expr, spark=session.host.spark, options=options)
    return session.done()


def full_index_name(table: Table, name: str) -> str | None:
    """The full name of an index by its name in SQL."""
    known = [info.name for info in table.indexes()]
    full = (name, SECONDARY_INDEX_PREFIX + name, EXPRESSION_INDEX_PREFIX + name)
    return next((each for each in full if each in known), None)
