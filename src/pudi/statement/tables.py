"""CREATE, DROP, ALTER and TRUNCATE TABLE, and CREATE and DROP INDEX, by the verbs of a table."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from pudi.config import KEY_PREFIXES, find_option, resolve
from pudi.config.option import Scope
from pudi.config.table_options import TableOptions
from pudi.errors import InvalidArgumentError, NotSupportedError, TableExistsError, TableNotFoundError
from pudi.schema import without_meta_fields
from pudi.schema.spark_types import arrow_type_of
from pudi.statement.changes import changed, constants_of
from pudi.statement.host import Entry, Rows
from pudi.statement.reader import wrong
from pudi.statement.session import Session, named
from pudi.statement.tree import Alter, Change, ColumnDef, CreateIndex, CreateTable, DropIndex, DropTable, Truncate
from pudi.storage import delete_folder, open_storage
from pudi.table import Table, create

_HIVE_STYLE = TableOptions.hive_style.key
_SHORT = {"primarykey": "record_key", "precombinefield": "ordering", "orderingfields": "ordering", "type": "table_type"}
"""Hudi's short names of table properties in SQL, in lower case (HoodieOptionConfig)."""
_SHOWN = {"primarykey": "primaryKey", "precombinefield": "preCombineField", "orderingfields": "orderingFields"}
_LIKE = 0.75
"""How like one of these names another one is that is taken for a slip: a table without its key would come of it."""


def done(session: Session) -> Any:
    """The result of a statement that returns nothing."""
    return session.host.result(Rows.table((), ()))


def create_table(session: Session, statement: CreateTable) -> Any:
    """Run CREATE TABLE; a table that is at its place already is known by the name from then on."""
    with session.at(statement.table):
        if statement.table.path is not None:
            path = statement.location or statement.table.path
        else:
            path = statement.location or session.catalog.location(statement.table)
        if session.catalog.find(statement.table) is not None and statement.table.path is None:
            if statement.exists_ok:
                return done(session)
            raise TableExistsError(f"there is a table {statement.table} already: drop it, or write IF NOT EXISTS")
        known = _opened(path)
    with session.at(statement.table):
        roles, options, others = _properties(statement.properties)
    if known is None:
        known = _created(session, statement, path, roles, options)
    elif statement.query is not None:
        raise TableExistsError(f"there is a table at {path} already: INSERT INTO it", table=path)
    elif statement.columns:
        _check_same(session, statement, known)
    if statement.table.path is None:
        kept = {key: value for key, value in options.items() if not _is_kept(key)}
        session.catalog.add(statement.table, Entry(known.path, {**others, **kept}))
    return done(session)


def _opened(path: str) -> Table | None:
    try:
        return Table(path)
    except TableNotFoundError:
        return None


def _is_kept(key: str) -> bool:
    """Whether the table itself keeps an option."""
    found = find_option(key)
    return found is not None and found.scope is Scope.TABLE


def _properties(given: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str], dict[str, str]]:
    """Split table properties: roles of columns, options, and what is neither."""
    roles: dict[str, Any] = {}
    options: dict[str, str] = {}
    others: dict[str, str] = {}
    for key, value in given.items():
        role = _SHORT.get(key.lower())
        if role == "table_type":
            roles[role] = {"copy_on_write": "cow", "merge_on_read": "mor"}.get(value.lower(), value.lower())
        elif role is not None:
            roles[role] = [name.strip() for name in value.split(",") if name.strip()]
        elif key.startswith(("hoodie.", "pudi.")):
            options[key] = value
        else:
            near = difflib.get_close_matches(key.lower().replace("_", ""), _SHORT, n=1, cutoff=_LIKE)
            if near:
                raise InvalidArgumentError(f"table property {key!r}: did you mean {_SHOWN.get(near[0], near[0])}?")
            others[key] = value
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
    schema = pa.schema([*schema, *(_field(session, column) for column in typed)])
    partitions = [_spelt(session, schema, column) for column in statement.partitioned_by]
    if not len(schema):
        raise wrong(session.text, statement.table.at, f"there is no table at {path}: name columns to create one")
    ordered = [field for field in schema if field.name not in partitions]
    schema = pa.schema([*ordered, *(schema.field(name) for name in partitions)])
    hive = {} if _HIVE_STYLE in options else {_HIVE_STYLE: "true"}
    with session.at(statement.table):
        table = create(
            path,
            schema,
            partition_by=partitions,
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


def _schema(session: Session, statement: CreateTable) -> pa.Schema:
    return pa.schema([_field(session, column) for column in statement.columns])


def _field(session: Session, column: ColumnDef) -> pa.Field:
    if not column.type:
        raise wrong(session.text, column.at, f"column {column.name} has no type")
    with session.at(column.at):
        return pa.field(column.name, arrow_type_of(column.type, column.name), column.nullable)


def _spelt(session: Session, schema: pa.Schema, column: ColumnDef) -> str:
    known = named(schema.names, column.name)
    if known is None:
        raise wrong(session.text, column.at, f"there is no column {column.name}; there are {', '.join(schema.names)}")
    return known


def _check_same(session: Session, statement: CreateTable, table: Table) -> None:
    for column in statement.columns:
        known = named(table.schema.names, column.name)
        kind = None if known is None else table.schema.field(known).type
        if kind != _field(session, column).type:
            there = f"has {known} of type {kind}" if known else "does not have it"
            raise wrong(session.text, column.at, f"column {column.name}: the table at {table.path} {there}")


def drop_table(session: Session, statement: DropTable) -> Any:
    """Run DROP TABLE: forget the name; with PURGE, or where the table is in the warehouse, its files go too."""
    with session.at(statement.table):
        entry = session.entry(statement.table)
        if entry is None:
            if statement.exists_ok:
                return done(session)
            raise TableNotFoundError(f"there is no table {statement.table}")
        warehouse = session.catalog.warehouse()
        managed = warehouse is not None and _opened_root(entry.path).startswith(_opened_root(warehouse) + "/")
        if statement.table.path is not None and not statement.purge:
            raise InvalidArgumentError("a path is no name that could be dropped: DROP TABLE … PURGE deletes the table")
        session.catalog.remove(statement.table)
        if (statement.purge or managed) and _opened(entry.path) is not None:
            delete_folder(open_storage(entry.path), "")
    return done(session)


def _opened_root(path: str) -> str:
    return open_storage(path).root.rstrip("/")


def truncate(session: Session, statement: Truncate) -> Any:
    """Run TRUNCATE TABLE."""
    table = session.table(statement.table)
    if statement.partition:
        values = constants_of(session, table, statement.partition)
        return changed(session, table.delete_partitions([table.partition_path(values)]))
    return changed(session, table.insert_overwrite_table(table.schema.empty_table()))


def alter(session: Session, statement: Alter) -> Any:
    """Run ALTER TABLE."""
    table = session.table(statement.table)
    with session.at(statement.table):
        _CHANGES[statement.change](session, statement, table)
    return done(session)


def _add_columns(session: Session, statement: Alter, table: Table) -> None:
    for column in statement.columns:
        field = _field(session, column)
        if not column.nullable:
            raise wrong(session.text, column.at, f"column {column.name} is null in the records that are there")
        with session.at(column.at):
            table.add_column(column.name, field.type, after=column.after)


def _rename_column(session: Session, statement: Alter, table: Table) -> None:
    old, new = statement.names
    table.rename_column(old, new.rpartition(".")[2])


def _move_column(session: Session, statement: Alter, table: Table) -> None:
    table.move_column(*statement.names)


def _drop_columns(session: Session, statement: Alter, table: Table) -> None:
    for name in statement.names:
        if statement.exists_ok and named(table.schema.names, name) is None:
            continue
        table.drop_column(name)


def _change_type(session: Session, statement: Alter, table: Table) -> None:
    for column in statement.columns:
        with session.at(column.at):
            table.change_type(column.name, _field(session, column).type)


def _entry(session: Session, statement: Alter) -> Entry:
    found = session.catalog.find(statement.table)
    if found is None or statement.table.path is not None:
        raise NotSupportedError("properties are kept with the name of a table: CREATE TABLE name USING hudi LOCATION …")
    return found


def _set_properties(session: Session, statement: Alter, table: Table) -> None:
    entry = _entry(session, statement)
    fixed = [key for key in statement.properties if _is_kept(key) or key.lower() in _SHORT]
    if fixed:
        raise NotSupportedError(f"{fixed[0]} says what the table is: it can't be set later", table=table.path)
    resolve(
        {key: value for key, value in statement.properties.items() if key.startswith(KEY_PREFIXES)}, table=table.path
    )
    session.catalog.add(statement.table, Entry(entry.path, {**entry.properties, **statement.properties}))


def _unset_properties(session: Session, statement: Alter, table: Table) -> None:
    entry = _entry(session, statement)
    missing = [key for key in statement.names if key not in entry.properties]
    if missing and not statement.exists_ok:
        raise InvalidArgumentError(f"there is no property {missing[0]}", table=table.path)
    kept = {key: value for key, value in entry.properties.items() if key not in statement.names}
    session.catalog.add(statement.table, Entry(entry.path, kept))


def _rename(session: Session, statement: Alter, table: Table) -> None:
    entry = _entry(session, statement)
    new = type(statement.table)(statement.names, statement.table.at)
    if session.entry(new) is not None:
        raise TableExistsError(f"there is a table {new} already")
    session.catalog.remove(statement.table)
    session.catalog.add(new, entry)


def _drop_partition(session: Session, statement: Alter, table: Table) -> None:
    values = constants_of(session, table, statement.partition)
    path = table.partition_path(values)
    if path not in table.partitions() and not statement.exists_ok:
        raise InvalidArgumentError(f"there is no partition {path}", table=table.path)
    table.delete_partitions([path])


_CHANGES: Mapping[Change, Callable[[Session, Alter, Table], None]] = {
    Change.ADD_COLUMNS: _add_columns,
    Change.RENAME_COLUMN: _rename_column,
    Change.DROP_COLUMNS: _drop_columns,
    Change.MOVE_COLUMN: _move_column,
    Change.CHANGE_TYPE: _change_type,
    Change.SET_PROPERTIES: _set_properties,
    Change.UNSET_PROPERTIES: _unset_properties,
    Change.RENAME: _rename,
    Change.DROP_PARTITION: _drop_partition,
}


def create_index(session: Session, statement: CreateIndex) -> Any:
    """Run CREATE INDEX; without a kind it's a secondary index, or, of the record key's columns, a record index."""
    table = session.table(statement.table)
    options = dict(statement.options)
    expr = options.pop("expr", options.pop("func", None))
    keys = table.config.record_key_fields
    of_keys = sorted(c.lower() for c in statement.columns) == sorted(k.lower() for k in keys)
    kind = statement.kind or ("record_index" if of_keys else "secondary_index")
    with session.at(statement.table):
        if statement.exists_ok and _index(table, statement.name) is not None:
            return done(session)
        if kind == "record_index":
            table.create_index(kind, spark=session.host.spark, options=options)
        else:
            named_index = statement.name if kind == "secondary_index" or expr else None
            columns = list(statement.columns)
            table.create_index(kind, columns, named_index, expr, spark=session.host.spark, options=options)
    return done(session)


def _index(table: Table, name: str) -> str | None:
    """The full name of an index by its name in SQL."""
    known = [info.name for info in table.indexes()]
    return next((each for each in known if each == name or each.endswith(f"_index_{name}")), None)


def drop_index(session: Session, statement: DropIndex) -> Any:
    """Run DROP INDEX."""
    table = session.table(statement.table)
    known = _index(table, statement.name)
    if known is None and statement.exists_ok:
        return done(session)
    with session.at(statement.table):
        table.drop_index(known or statement.name)
    return done(session)
