"""ALTER, DROP and TRUNCATE TABLE, and DROP INDEX, by the verbs of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from pudi.config import KEY_PREFIXES, resolve
from pudi.errors import InvalidArgumentError, NotSupportedError, TableExistsError, TableNotFoundError
from pudi.filegroup.listing import check_none_below
from pudi.schema.spark_types import quote
from pudi.statement.execute import partitions
from pudi.statement.execute.create import (
    SHORT_NAMES,
    arrow_field,
    full_index_name,
    is_kept_by_table,
    known_column,
)
from pudi.statement.host import CataloguedEntry, Entry
from pudi.statement.session import Session, named
from pudi.statement.tree import (
    Alter,
    Change,
    DropIndex,
    DropTable,
    TableName,
    Text,
    Truncate,
)
from pudi.storage import delete_folder, open_storage, remove_folders
from pudi.table import Table
from pudi.table.table import find_table


def drop_table(session: Session, statement: DropTable) -> Any:
    """Run DROP TABLE: forget the name; with PURGE, or if the table was made without LOCATION, its files go too."""
    with session.at(statement.table):
        entry = session.entry(statement.table)
        if entry is None:
            if statement.exists_ok and not session.host.keeps(statement.table):
                return session.done()
            raise TableNotFoundError(f"there is no table {statement.table}")
        catalogued = entry if isinstance(entry, CataloguedEntry) else CataloguedEntry(entry.path)
        if catalogued.is_view and statement.purge:
            raise InvalidArgumentError(
                f"{statement.table} is one more name of the table at {entry.path}: drop the table by its own name, or "
                "leave PURGE out"
            )
        managed = catalogued.is_managed if entry is catalogued else _is_in_warehouse(session, statement.table, entry)
        if statement.table.path is not None and not statement.purge:
            raise InvalidArgumentError("a path is no name that could be dropped: DROP TABLE … PURGE deletes the table")
        deletes = (statement.purge or (managed and not catalogued.is_view)) and find_table(entry.path) is not None
        storage = open_storage(entry.path)
        if deletes:
            check_none_below(storage)
        _forget(session, statement.table, entry)
        if deletes:
            delete_folder(storage, "")
            parent, _, folder = storage.root.rstrip("/").rpartition("/")
            if parent and "://" not in parent:  # a storage keeps its root, and Hudi leaves no empty folder
                remove_folders(open_storage(parent), folder)
    return session.done()


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
    return _opened_root(entry.path).startswith(_opened_root(warehouse) + "/")


def _opened_root(path: str) -> str:
    return open_storage(path).root.rstrip("/")


def truncate(session: Session, statement: Truncate) -> Any:
    """Run TRUNCATE TABLE."""
    table = session.table(statement.table)
    if statement.partition:
        values = partitions.constants_of(session, table, statement.partition)
        return session.changed(table.delete_partitions([table.partition_path(values)]))
    return session.changed(table.insert_overwrite_table(table.schema.empty_table()))


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
    return session.done()


def _add_columns(session: Session, statement: Alter, table: Table) -> None:
    seen: set[str] = set()
    for column in statement.columns:  # all are looked at before any is added
        arrow_field(session, column)
        if not column.nullable:
            raise session.wrong(column.at, f"column {column.name} is null in the records that are there")
        if column.name.lower() in seen:
            raise session.wrong(column.at, f"column {column.name} is named twice")
        if named(table.schema.names, column.name) is not None:
            raise session.wrong(column.at, f"there is a column {column.name} already")
        seen.add(column.name.lower())
    for column in statement.columns:
        with session.at(column.at):
            table.add_column(column.name, arrow_field(session, column).type, after=column.after)
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
            table.change_type(column.name, arrow_field(session, column).type)
            if column.after is not None:
                table.move_column(column.name, column.after)
        _note_comment(session, statement, column.name, column.comment)


def _comment(session: Session, statement: Alter, table: Table) -> None:
    """Run ALTER COLUMN … COMMENT."""
    _entry(session, statement)
    for column in statement.columns:
        known = column.name if "." in column.name else known_column(session, table.schema, column)
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
    fixed = [key for key in statement.properties if is_kept_by_table(key) or key.lower() in SHORT_NAMES]
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


def drop_index(session: Session, statement: DropIndex) -> Any:
    """Run DROP INDEX."""
    table = session.table(statement.table)
    known = full_index_name(table, statement.name)
    if known is None and statement.exists_ok:
        return session.done()
    with session.at(statement.table):
        table.drop_index(known or statement.name)
    return session.done()
