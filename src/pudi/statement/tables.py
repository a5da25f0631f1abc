"""CREATE, DROP, ALTER and TRUNCATE TABLE, and CREATE and DROP INDEX, by the verbs of a table."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa

from pudi.config import KEY_PREFIXES, SyncOptions, check_inline_compaction, find_option, resolve
from pudi.config.option import Scope, names_in
from pudi.config.read_options import FormatOptions
from pudi.config.sync_options import SyncStrategy
from pudi.config.table_options import COPY_ON_WRITE, MERGE_ON_READ, TableOptions
from pudi.errors import InvalidArgumentError, NotSupportedError, TableExistsError, TableNotFoundError
from pudi.filegroup.nested import check_none_below
from pudi.format.metadata_partitions import EXPRESSION_INDEX_PREFIX, SECONDARY_INDEX_PREFIX
from pudi.schema import without_meta_fields
from pudi.schema.spark_types import arrow_type_of, quote
from pudi.statement import partitions
from pudi.statement.changes import changed
from pudi.statement.host import CataloguedEntry, Entry, Home, Rows
from pudi.statement.like import filled_in
from pudi.statement.reader import wrong
from pudi.statement.session import Session, named
from pudi.statement.tree import (
    Alter,
    Change,
    ColumnDef,
    CreateIndex,
    CreateTable,
    DropIndex,
    DropTable,
    TableName,
    Text,
    Truncate,
)
from pudi.storage import delete_folder, open_storage, remove_folders
from pudi.table import Table, create
from pudi.table.create import check_engine

_HIVE_STYLE = TableOptions.hive_style.key
_SHORT = {"primarykey": "record_key", "precombinefield": "ordering", "orderingfields": "ordering", "type": "table_type"}
"""Hudi's short names of table properties in SQL, in lower case (HoodieOptionConfig)."""
_SHOWN = {"primarykey": "primaryKey", "precombinefield": "preCombineField", "orderingfields": "orderingFields"}
_KINDS = {"copy_on_write": "cow", "merge_on_read": "mor"}
_LIKE = 0.75
"""Similarity from which another name is taken for a slip of one of these: the table would lack its key."""


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
        home = session.attached.home(statement.table)
        if statement.table.path is None and session.named(statement.table) is not None:
            if statement.exists_ok:
                return done(session)
            raise TableExistsError(f"there is a table {statement.table} already: drop it, or write IF NOT EXISTS")
        known = _opened(path)
    if statement.like is not None:
        statement = filled_in(session, statement)
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
        kept = {key: value for key, value in options.items() if not _is_kept(key)}
        defined = (*statement.columns, *statement.partitioned_by)
        comments = {column.name.lower(): column.comment for column in defined if column.comment}
        external = statement.location is not None
        entry = Entry(known.path, {**others, **kept}, statement.comment, comments, is_external=external)
        with session.at(statement.table):
            _name(session, statement.table, known, home, entry)
    return done(session)


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


def _opened(path: str) -> Table | None:
    try:
        return Table(path)
    except TableNotFoundError:
        return None


def _is_kept(key: str) -> bool:
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
        role = _SHORT.get(key.lower())
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
            near = difflib.get_close_matches(key.lower().replace("_", ""), _SHORT, n=1, cutoff=_LIKE)
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
        raise wrong(session.text, twice.at, f"there is a column {twice.name} already: name it without its type")
    schema = pa.schema([*schema, *(_field(session, column) for column in typed)])
    partitions = [_spelt(session, schema, column) for column in statement.partitioned_by]
    if not len(schema):
        raise wrong(session.text, statement.table.at, f"there is no table at {path}: name columns to create one")
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


def _check_same(session: Session, statement: CreateTable, table: Table, roles: Mapping[str, Any]) -> None:
    """Refuse what the table at a place contradicts: columns, keys, type, and partition columns of no columns."""
    if statement.partitioned_by and not statement.columns:
        at = statement.partitioned_by[0].at
        raise wrong(session.text, at, f"PARTITIONED BY takes columns of a new table; there is one at {table.path}")
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
        if kind != _field(session, column).type:
            has = f"has {known} of type {kind}" if known else "does not have it"
            raise wrong(session.text, column.at, f"column {column.name}: the table at {table.path} {has}")


def drop_table(session: Session, statement: DropTable) -> Any:
    """Run DROP TABLE: forget the name; with PURGE, or if the table was made without LOCATION, its files go too."""
    with session.at(statement.table):
        entry = session.entry(statement.table)
        if entry is None:
            if statement.exists_ok and not session.host.keeps(statement.table):
                return done(session)
            raise TableNotFoundError(f"there is no table {statement.table}")
        catalogued = entry if isinstance(entry, CataloguedEntry) else CataloguedEntry(entry.path)
        if catalogued.is_view and statement.purge:
            raise InvalidArgumentError(
                f"{statement.table} is one more name of the table at {entry.path}: drop the table by its own name, or "
                "leave PURGE out"
            )
        managed = catalogued.is_managed or _is_in_warehouse(session, statement.table, entry)
        if statement.table.path is not None and not statement.purge:
            raise InvalidArgumentError("a path is no name that could be dropped: DROP TABLE … PURGE deletes the table")
        deletes = (statement.purge or (managed and not catalogued.is_view)) and _opened(entry.path) is not None
        storage = open_storage(entry.path)
        if deletes:
            check_none_below(storage)
        _forget(session, statement.table, entry)
        if deletes:
            delete_folder(storage, "")
            parent, _, folder = storage.root.rstrip("/").rpartition("/")
            if parent and "://" not in parent:  # a storage keeps its root, and Hudi leaves no empty folder
                remove_folders(open_storage(parent), folder)
    return done(session)


def _forget(session: Session, name: TableName, entry: Entry) -> None:
    """Remove a name from where it is known."""
    if not isinstance(entry, CataloguedEntry):
        session.catalog.remove(name)
    elif entry.home is not None:
        session.attached.drop(entry.home)
    else:
        session.host.query(Text(f"DROP TABLE {'.'.join(map(quote, name.parts))}", 0), [], [])


def _is_in_warehouse(session: Session, name: TableName, entry: Entry) -> bool:
    """Return whether a table is where CREATE TABLE without LOCATION puts tables, for all that is known of it."""
    warehouse = session.catalog.warehouse()
    if warehouse is None or entry.is_external or name.path is not None:
        return False
    if isinstance(entry, CataloguedEntry):  # catalogs keep the location of every table
        return _opened_root(entry.path) == _opened_root(session.catalog.location(name))
    return _opened_root(entry.path).startswith(_opened_root(warehouse) + "/")


def _opened_root(path: str) -> str:
    return open_storage(path).root.rstrip("/")


def truncate(session: Session, statement: Truncate) -> Any:
    """Run TRUNCATE TABLE."""
    table = session.table(statement.table)
    if statement.partition:
        values = partitions.constants_of(session, table, statement.partition)
        return changed(session, table.delete_partitions([table.partition_path(values)]))
    return changed(session, table.insert_overwrite_table(table.schema.empty_table()))


def alter(session: Session, statement: Alter) -> Any:
    """Run ALTER TABLE."""
    table = session.table(statement.table)
    entry = session.named(statement.table) if statement.change in _OF_ENTRIES else None
    if isinstance(entry, CataloguedEntry) and entry.home is None:
        with session.at(statement.table):
            raise NotSupportedError(
                "the engine can't change a Hudi entry of its catalog: ATTACH 'hive://host:9083' AS name, and repeat it",
                table=table.path,
            )
    with session.at(statement.table):
        _CHANGES[statement.change](session, statement, table)
    return done(session)


def _add_columns(session: Session, statement: Alter, table: Table) -> None:
    seen: set[str] = set()
    for column in statement.columns:  # all are looked at before any is added
        _field(session, column)
        if not column.nullable:
            raise wrong(session.text, column.at, f"column {column.name} is null in the records that are there")
        if column.name.lower() in seen:
            raise wrong(session.text, column.at, f"column {column.name} is named twice")
        if named(table.schema.names, column.name) is not None:
            raise wrong(session.text, column.at, f"there is a column {column.name} already")
        seen.add(column.name.lower())
    for column in statement.columns:
        with session.at(column.at):
            table.add_column(column.name, _field(session, column).type, after=column.after)
        _note_comment(session, statement, column.name, column.comment)


def _rename_column(session: Session, statement: Alter, table: Table) -> None:
    old, new = statement.names
    entry = session.entry(statement.table)
    comment = None if entry is None else entry.comments.get(old.lower())
    table.rename_column(old, new.rpartition(".")[2])
    _note_comment(session, statement, old, "")
    _note_comment(session, statement, new, comment)


def _move_column(session: Session, statement: Alter, table: Table) -> None:
    table.move_column(*statement.names)


def _drop_columns(session: Session, statement: Alter, table: Table) -> None:
    whole = [name for name in statement.names if "." not in name]
    missing = [name for name in whole if named(table.schema.names, name) is None]
    if missing and not statement.exists_ok:  # before any is dropped
        there = ", ".join(table.schema.names)
        raise InvalidArgumentError(f"the table has no column {missing[0]}; it has {there}", table=table.path)
    for name in statement.names:
        if name in missing:
            continue
        table.drop_column(name)
        _note_comment(session, statement, name, "")


def _change_type(session: Session, statement: Alter, table: Table) -> None:
    for column in statement.columns:
        with session.at(column.at):
            table.change_type(column.name, _field(session, column).type)
            if column.after is not None:
                table.move_column(column.name, column.after)
        _note_comment(session, statement, column.name, column.comment)


def _comment(session: Session, statement: Alter, table: Table) -> None:
    """Run ALTER COLUMN … COMMENT."""
    _entry(session, statement)
    for column in statement.columns:
        known = column.name if "." in column.name else _spelt(session, table.schema, column)
        _note_comment(session, statement, known, column.comment)


def _note_comment(session: Session, statement: Alter, column: str, comment: str | None) -> None:
    """Keep a column's comment with the name of its table; an empty one removes it, None leaves it as it is."""
    entry = session.entry(statement.table)
    if entry is None or comment is None or statement.table.path is not None:
        return
    others = {name: text for name, text in entry.comments.items() if name != column.lower()}
    kept = {**others, column.lower(): comment} if comment else others
    if kept != entry.comments:
        session.keep(statement.table, replace(entry, comments=kept), entry)


def _entry(session: Session, statement: Alter) -> Entry:
    found = session.named(statement.table)
    if found is None or statement.table.path is not None:
        what = "comments" if statement.change is Change.COMMENT else "properties"
        raise NotSupportedError(f"{what} are kept with the name of a table: CREATE TABLE name USING hudi LOCATION …")
    return found


def _set_properties(session: Session, statement: Alter, table: Table) -> None:
    entry = _entry(session, statement)
    fixed = [key for key in statement.properties if _is_kept(key) or key.lower() in _SHORT]
    if fixed:
        raise NotSupportedError(f"{fixed[0]} says what the table is: it can't be set later", table=table.path)
    resolve(
        {key: value for key, value in statement.properties.items() if key.startswith(KEY_PREFIXES)}, table=table.path
    )
    session.keep(statement.table, replace(entry, properties={**entry.properties, **statement.properties}), entry)


def _unset_properties(session: Session, statement: Alter, table: Table) -> None:
    entry = _entry(session, statement)
    missing = [key for key in statement.names if key not in entry.properties]
    if missing and not statement.exists_ok:
        raise InvalidArgumentError(f"there is no property {missing[0]}", table=table.path)
    kept = {key: value for key, value in entry.properties.items() if key not in statement.names}
    session.keep(statement.table, replace(entry, properties=kept), entry)


def _rename(session: Session, statement: Alter, table: Table) -> None:
    entry = _entry(session, statement)
    new = type(statement.table)(statement.names, statement.table.at)
    if isinstance(entry, CataloguedEntry):
        home = entry.home.address if entry.home is not None else "the catalog of the engine"
        raise NotSupportedError(
            f"{statement.table} is registered in {home}, where pudi doesn't rename tables: CREATE TABLE "
            f"{new} USING hudi LOCATION '{entry.path}', then DROP TABLE {statement.table}",
            table=table.path,
        )
    if session.entry(new) is not None:
        raise TableExistsError(f"there is a table {new} already")
    session.catalog.remove(statement.table)
    session.catalog.add(new, entry)


def _recover_partitions(session: Session, statement: Alter, table: Table) -> None:
    """Do nothing: a table's partitions are those that its commits wrote, and no catalog has to learn of them."""


_OF_ENTRIES = frozenset({Change.SET_PROPERTIES, Change.UNSET_PROPERTIES, Change.RENAME})
"""Changes of what a catalog holds, not of the table."""

_CHANGES: Mapping[Change, Callable[[Session, Alter, Table], None]] = {
    Change.ADD_COLUMNS: _add_columns,
    Change.RENAME_COLUMN: _rename_column,
    Change.DROP_COLUMNS: _drop_columns,
    Change.MOVE_COLUMN: _move_column,
    Change.CHANGE_TYPE: _change_type,
    Change.COMMENT: _comment,
    Change.SET_PROPERTIES: _set_properties,
    Change.UNSET_PROPERTIES: _unset_properties,
    Change.RENAME: _rename,
    Change.ADD_PARTITION: partitions.add,
    Change.DROP_PARTITION: partitions.drop,
    Change.RECOVER_PARTITIONS: _recover_partitions,
}


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
        raise wrong(session.text, statement.table.at, f"an index of the record key is named {kind}, in Hudi too")
    if kind == "record_index" and statement.columns and not of_keys:
        of = f"name {', '.join(keys)} or no column" if keys else "name no column"
        raise wrong(session.text, statement.table.at, f"{kind} is of the record key: {of}")
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
    full = (name, SECONDARY_INDEX_PREFIX + name, EXPRESSION_INDEX_PREFIX + name)
    return next((each for each in full if each in known), None)


def drop_index(session: Session, statement: DropIndex) -> Any:
    """Run DROP INDEX."""
    table = session.table(statement.table)
    known = _index(table, statement.name)
    if known is None and statement.exists_ok:
        return done(session)
    with session.at(statement.table):
        table.drop_index(known or statement.name)
    return done(session)
