"""`pudi.import_table`: a folder of Parquet files becomes a table."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pudi.config import TableConfig
from pudi.config.arguments import map_given, names_given, path_given
from pudi.context import Storage
from pudi.context.runtime import lazy_module
from pudi.errors import (
    CorruptError,
    InvalidArgumentError,
    NotFoundError,
    NotSupportedError,
    PudiError,
    SchemaError,
    TableExistsError,
)
from pudi.filegroup.basefile_copies import ForeignFile
from pudi.filegroup.listing import check_is_loose
from pudi.format import HOODIE_DIR, PROPERTIES, PROPERTIES_BACKUP
from pudi.plan.imports import SourceFile
from pudi.record import KeyGenerator
from pudi.record.partition_path import FolderValues, check_same_columns, folder_type, folder_values
from pudi.schema import META_FIELDS, FixedColumns, normalise, written_schema
from pudi.storage import canonical_root, delete_folder, executor_of, open_storage
from pudi.table.base import engine_of
from pudi.table.create import create
from pudi.table.table import Table
from pudi.task.import_files import ImportSource
from pudi.writes.create import TABLE_TYPES

if TYPE_CHECKING:
    from pudi.writes import import_files as import_action
else:
    import_action = lazy_module("pudi.writes.import_files")

_SUFFIX = ".parquet"


def import_table(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str] | None = None,
    *,
    record_key: str | Sequence[str] | None = None,
    partition_by: str | Sequence[str] | None = None,
    ordering: str | Sequence[str] | None = None,
    table_type: str = "cow",
    name: str | None = None,
    copy: bool = True,
    spark: Any = None,
    options: Mapping[str, str] | None = None,
    storage_options: Mapping[str, str] | None = None,
    source_options: Mapping[str, str] | None = None,
) -> Table:
    """Make a table of a folder of Parquet files, in one bulk insert; the folder stays as it is.

    Column chunks are copied as bytes where base files have the same types and all rows of a file belong to one
    partition; other files are rewritten. Nothing is committed unless all files are whole, no record key is
    null, and none comes twice (in its partition; in the whole table with a global index).

    A target that an interrupted import of the same settings left behind is taken up again.

    Args:
        source: the folder. Names that begin with `_` or `.` are left out, as Spark does.
        target: the new table's root; None for a folder beside the source, its name with `_hudi`.
        record_key: as of `pudi.create`; None generates keys.
        partition_by: as of `pudi.create`; None for the columns of Hive-style folders (`city=nyc`), if there are such.
        ordering: as of `pudi.create`.
        table_type: as of `pudi.create`.
        name: as of `pudi.create`.
        copy: False rewrites all files.
        spark: a session to run on; None for this machine.
        options: Hudi's option keys, as of `pudi.create`; for the commit too.
        storage_options: credentials and settings of the target's storage.
        source_options: those of the source's storage; None for the target's.

    Returns:
        The table.

    Raises:
        NotFoundError: the folder has no Parquet files.
        TableExistsError: the target is a table with commits, or one of other settings.
        CorruptError: a file is damaged; names it.
        SchemaError: columns of two files don't go together; names them.
        InvalidArgumentError: null or duplicate keys; settings that contradict each other.
        NotSupportedError: the folder is a Hudi table, or holds one of Delta or Iceberg, or has other files than
            Parquet.
    """
    files = open_storage(source, storage_options if source_options is None else source_options)
    root = path_given(target, "target") if target is not None else files.root.rstrip("/") + "_hudi"
    _check_apart(files.root, root)
    found = _listed(files)
    values = {path: folder_values(path) for path, _ in found}
    folders = check_same_columns(values.items(), files.root)
    seen = _look(files, found)
    key_names = names_given(record_key, "record_key")
    schema = _columns(files.root, seen, values, folders, key_names)
    partitions = names_given(partition_by, "partition_by") if partition_by is not None else folders
    given = map_given(options, "options")
    if folders and set(partitions) == set(folders):
        given.setdefault(TableConfig.hive_style.key, "true")
    ordered = names_given(ordering, "ordering")
    wanted = _NewTable(key_names, partitions, ordered, table_type, name, given, storage_options)
    with _table(root, schema, wanted) as table:
        keys = table._meta.keys
        whole = ImportSource(files, table.schema, keys)
        sources = []
        for path, size in found:
            own, groups = seen[path]
            file = SourceFile(path, size, groups, values=values[path])
            sources.append(replace(file, partition=_partition(keys, whole, file, own)))
        import_action.import_files(table._request(engine_of(None, spark), None), whole, sources, copy=copy)
    return table


def _check_apart(source: str, target: str) -> None:
    """Refuse a target inside the source, which an import never changes, and the other way round."""
    one, other = (canonical_root(each).rstrip("/") + "/" for each in (source, target))
    if one.startswith(other) or other.startswith(one):
        raise InvalidArgumentError(
            f"the table can't be made in {target!r}, which is part of the source or holds it: choose another target",
            table=source,
        )


def _listed(files: Storage) -> list[tuple[str, int]]:
    """Return path and size of the Parquet files, sorted.

    Raises:
        NotFoundError: there are none.
        NotSupportedError: there are other files, or a table of Hudi, Delta or Iceberg.
    """
    found: list[tuple[str, int]] = []
    others: list[tuple[str, int]] = []
    for info in files.list():
        check_is_loose(files.root, info.path)
        parts = info.path.split("/")
        if any(part.startswith(("_", ".")) and "=" not in part for part in parts):
            continue
        (found if info.path.endswith(_SUFFIX) else others).append((info.path, info.size))
    if others:
        raise NotSupportedError(
            f"{len(others)} files don't end with {_SUFFIX}, such as {min(others)[0]}: an import takes Parquet files "
            "only; move others elsewhere, or give them a name that begins with _",
            table=files.root,
        )
    if not found:
        raise NotFoundError(
            f"there are no files *{_SUFFIX} to import: the folder has none, or isn't there", table=files.root
        )
    return sorted(found)


def _look(files: Storage, found: Sequence[tuple[str, int]]) -> dict[str, tuple[pa.Schema, tuple[tuple[int, int], ...]]]:
    """Return the columns and the row groups of each file.

    Raises:
        CorruptError: a file is no Parquet.
    """

    def look(file: tuple[str, int]) -> tuple[pa.Schema, tuple[tuple[int, int], ...]]:
        path, size = file
        if not size:
            raise CorruptError("the file is empty, which no Parquet file is", table=files.root, path=path)
        with closing(ForeignFile(files, path, size)) as opened:
            return opened.schema.remove_metadata(), opened.groups

    return dict(zip([path for path, _ in found], executor_of(files).map(look, found), strict=True))


def _columns(
    root: str,
    seen: Mapping[str, tuple[pa.Schema, object]],
    values: Mapping[str, FolderValues],
    folders: Sequence[str],
    keys: Sequence[str],
) -> pa.Schema:
    """Return the table's columns: the first file's come first; one that a file lacks is nullable.

    Raises:
        SchemaError: columns don't go together; names the file.
    """
    schema: pa.Schema | None = None
    for path, (own, _) in seen.items():
        try:
            _check_names(own)
            schema = normalise(own) if schema is None else _united(schema, normalise(own), keys)
        except SchemaError as error:
            raise SchemaError(f"{error.message}; nothing was imported", table=root, path=path) from error
    assert schema is not None
    for name in folders:
        if name not in schema.names:
            texts = [text for known in values.values() for column, text in known if column == name]
            schema = schema.append(pa.field(name, folder_type(texts)))
    return schema


def _united(table: pa.Schema, own: pa.Schema, keys: Sequence[str]) -> pa.Schema:
    if own == table:
        return table
    made = written_schema(table, own, FixedColumns(keys=keys), fill_missing=True)
    return pa.schema([each if each.name in own.names else each.with_nullable(True) for each in made])


def _check_names(schema: pa.Schema) -> None:
    meta = [name for name in schema.names if name in META_FIELDS]
    if meta:
        raise SchemaError(
            f"column {meta[0]} is a meta field of Hudi's: these are files of a Hudi table, or exported with its meta "
            "fields; open the table with pudi.Table, or export it without them (scan(meta_fields=False), pudi export)"
        )


def _partition(keys: KeyGenerator, source: ImportSource, file: SourceFile, own: pa.Schema) -> str | None:
    """Return the partition path of all rows of a file, if its folders tell.

    Args:
        keys: makes partition paths.
        source: the source.
        file: the file.
        own: its columns. What rows tell may differ from what the folders tell.
    """
    fields = set(keys.partition_fields)
    if not fields <= {name for name, _ in file.values} or fields & set(own.names):
        return None
    schema = pa.schema([field for field in source.schema if field.name in fields])
    one = source.fit(pa.table({}), file, schema, 1) if fields else pa.table({"": pa.nulls(1)})
    return str(keys.partition_paths(one)[0].as_py())


@dataclass(frozen=True, slots=True)
class _NewTable:
    """Settings of the table that an import makes; see `create`."""

    record_key: tuple[str, ...]
    partition_by: Sequence[str]
    ordering: tuple[str, ...]
    table_type: str
    name: str | None
    options: Mapping[str, str]
    storage_options: Mapping[str, str] | None

    def create(self, root: str, schema: pa.Schema) -> Table:
        """Create it."""
        return create(root, schema, **{each.name: getattr(self, each.name) for each in fields(self)})


@contextmanager
def _table(root: str, schema: pa.Schema, wanted: _NewTable) -> Iterator[Table]:
    """Yield the target without commits; one that is made here is taken away if the import is refused."""
    made = True
    try:
        table = wanted.create(root, schema)
    except TableExistsError:
        table, made = _taken_up(root, schema, wanted), False
    try:
        yield table
    except PudiError as error:
        if made and not error.retryable:
            with suppress(PudiError):  # the first error is the one to tell
                _forget(table)
        raise


def _taken_up(root: str, schema: pa.Schema, wanted: _NewTable) -> Table:
    """Return the table that an interrupted import left.

    Raises:
        TableExistsError: it has commits, or other settings.
    """
    table = Table(root, wanted.options, wanted.storage_options)
    if table.timeline.commits:
        raise TableExistsError("there is a table already, and it has commits: choose another target", table=root)
    config = table.config
    same = {
        "record_key": wanted.record_key == tuple(config.record_key_fields),
        "partition_by": config.has_partitioning(tuple(wanted.partition_by)),
        "ordering": wanted.ordering == tuple(config.ordering_fields),
    }
    differs = [name for name, is_same in same.items() if not is_same]
    if differs or table.schema != schema or config.table_type != TABLE_TYPES[wanted.table_type]:
        what = differs[0] if differs else "its columns or its type"
        raise TableExistsError(
            f"there is a table without commits already, of other settings ({what}): choose another target, or delete "
            "the folder first",
            table=root,
        )
    return table


def _forget(table: Table) -> None:
    """Delete what makes the folder a table, unless a commit has completed meanwhile."""
    storage = table._meta.storage
    if any(instant.is_completed for instant in table.timeline.instants):
        return
    storage.delete([PROPERTIES, PROPERTIES_BACKUP])
    delete_folder(storage, HOODIE_DIR)
