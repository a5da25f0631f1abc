"""Read rows of data files by the table's schema: its column names and types, whatever the file calls them.

All readers of columns of data files go through here. A column that was renamed is found under its old name; one that
was dropped, and added again under the same name, isn't taken for the new one.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from pudi.filegroup import AnyBaseFile, BaseFile, LogFile
from pudi.schema import FieldNames, conform_read
from pudi.schema.internal import SchemaHistory


def names_in(history: SchemaHistory | None, instant: str) -> FieldNames | None:
    """Return the names of the table's columns in files of a commit; None where they are the same."""
    return None if history is None else history.names(instant)


def stored_names(target: pa.Schema, names: FieldNames | None) -> list[str]:
    """Return the names of wanted columns in a file."""
    found = [name if names is None else names.of(name)[0] for name in target.names]
    return [name for name in found if name is not None]


def same_named(columns: Sequence[str], file: BaseFile | LogFile, history: SchemaHistory | None) -> tuple[str, ...]:
    """Return the columns, with dots for fields of structs, that a file has under their names.

    Below version 8 the blocks of a log file are of several commits: then columns count that never had another name.
    """
    if history is None:
        return tuple(columns)
    instants = [file.instant] if isinstance(file, BaseFile) else [str(each.version) for each in history.versions]
    found = [history.names(instant) for instant in instants]
    return tuple(name for name in columns if all(is_same_named(name, names) for names in found))


def is_same_named(column: str, names: FieldNames | None) -> bool:
    """Return whether a column, with dots for fields of structs, has its name in files where columns are called so."""
    for part in column.split("."):
        if names is None:
            return True
        stored, names = names.of(part)
        if stored != part:
            return False
    return True


def read_base_rows(
    file: AnyBaseFile,
    base: BaseFile,
    target: pa.Schema,
    history: SchemaHistory | None,
    groups: Sequence[int] | None = None,
) -> pa.Table:
    """Return rows of a base file with exactly the wanted columns.

    Args:
        file: the open file.
        base: which file it is.
        target: the wanted columns of the table, in its types; without any the rows only have a number.
        history: the schemas of older files; None in a table without schema on read.
        groups: row groups; None for all.

    Raises:
        CorruptError: the file is damaged.
        SchemaError: a type in the file can't evolve into the table's type, or a required column is missing.
    """
    names = names_in(history, base.instant)
    known = dict.fromkeys(file.schema.names)
    present = [name for name in stored_names(target, names) if name in known]
    stored = file.read(present or list(known)[:1], groups)  # the rows count even if the file has none of the columns
    return conform_read(stored, target, path=base.path, names=names) if len(target) else stored
