"""Delete markers in records."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.config import OtherTableOptions
from pudi.errors import NotSupportedError, SchemaError
from pudi.schema.arrays import mask_of

DELETED = "_hoodie_is_deleted"
"""Boolean column that marks a record as a delete (HoodieRecord.HOODIE_IS_DELETED_FIELD)."""

INTERNAL = "_pudi_"
"""Beginning of the names of columns that pudi adds while it works."""

OPERATION = "_hoodie_operation"
"""Column of change logs that says what a record does (HoodieRecord.OPERATION_METADATA_FIELD)."""

_MARKABLE = (pa.string(), pa.int32(), pa.int64(), pa.bool_())


def delete_columns(rows: pa.Table, marker: tuple[str, str] | None) -> list[str]:
    """The columns of `rows` that mark deletes."""
    wanted = [DELETED] if marker is None else [DELETED, marker[0]]
    return [name for name in wanted if name in rows.column_names]


def delete_mask(rows: pa.Table, marker: tuple[str, str] | None) -> np.ndarray:
    """Return a mask of the records that are deletes (RecordContext.isDeleteRecord).

    Args:
        rows: records.
        marker: a column and the text that it holds in deletes; a table without that column has no such deletes.
    """
    mask = np.zeros(rows.num_rows, dtype=bool)
    for name in delete_columns(rows, marker):
        found = rows[name]
        if marker is not None and name == marker[0]:
            found = pc.equal(pc.cast(found, pa.string()), marker[1])
        mask |= mask_of(found)
    return mask


def with_flag(rows: pa.Table, deleted: np.ndarray) -> pa.Table:
    """Records with column `DELETED`, true where `deleted`; added at the end where they have none."""
    flag = pa.array(deleted)
    if DELETED in rows.column_names:
        return rows.set_column(rows.column_names.index(DELETED), DELETED, flag)
    return rows.append_column(DELETED, flag)


def check_given_columns(data: pa.Schema, known: Collection[str], table: str) -> None:
    """Refuse a batch whose column `DELETED` is no boolean, or with new columns of names that pudi needs for its own.

    Args:
        data: the batch's columns.
        known: the table's columns.
        table: the table's location.

    Raises:
        SchemaError: there is such a column.
    """
    for field in data:
        name, kind = field.name, field.type
        if name == DELETED and not (pa.types.is_boolean(kind) or pa.types.is_null(kind)):
            raise SchemaError(
                f"column {DELETED} is {kind}: it marks deletes and must be boolean; cast it, so that true stands for a "
                "delete",
                table=table,
            )
        if name.startswith(INTERNAL) and name not in known:
            raise SchemaError(
                f"column {name}: names that begin with {INTERNAL} are pudi's own while it works; rename it", table=table
            )


def check_delete_marker(marker: tuple[str, str] | None, schema: pa.Schema, *, table: str) -> None:
    """Refuse a marker whose column does not exist or has no unambiguous text form.

    Raises:
        SchemaError: the column does not exist.
        NotSupportedError: its values have no one text.
    """
    if marker is None:
        return
    name, option = marker[0], OtherTableOptions.delete_field.job_keys[0]
    if name not in schema.names:
        raise SchemaError(
            f"{option}={name}: there is no such column among {', '.join(schema.names)}",
            table=table,
        )
    kind = schema.field(name).type
    if kind not in _MARKABLE:
        raise NotSupportedError(
            f"{option}={name} is a column of type {kind}: use a string, an integer or a boolean",
            table=table,
        )
