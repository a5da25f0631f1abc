"""Delete markers in records."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.config import OtherTableOptions
from pudi.errors import NotSupportedError, SchemaError

DELETED = "_hoodie_is_deleted"
"""Boolean column that marks a record as a delete (HoodieRecord.HOODIE_IS_DELETED_FIELD)."""

OPERATION = "_hoodie_operation"
"""Column of change logs that says what a record does (HoodieRecord.OPERATION_METADATA_FIELD)."""

_MARKABLE = (pa.string(), pa.int32(), pa.int64(), pa.bool_())


def delete_columns(rows: pa.Table, marker: tuple[str, str] | None) -> list[str]:
    """The columns of `rows` that mark deletes."""
    wanted = [DELETED] if marker is None else [DELETED, marker[0]]
    return [name for name in wanted if name in rows.column_names]


def delete_mask(rows: pa.Table, marker: tuple[str, str] | None) -> np.ndarray:
    """For each record whether it's a delete (RecordContext.isDeleteRecord).

    Args:
        rows: records.
        marker: a column and the text that it holds in deletes; a table without that column has no such deletes.
    """
    mask = np.zeros(rows.num_rows, dtype=bool)
    for name in delete_columns(rows, marker):
        found = rows[name]
        if marker is not None and name == marker[0]:
            found = pc.equal(pc.cast(found, pa.string()), marker[1])
        mask |= np.array(pc.fill_null(found, False), dtype=bool)
    return mask


def with_flag(rows: pa.Table, deleted: np.ndarray) -> pa.Table:
    """Records with column `DELETED`, true where `deleted`; added at the end where they have none."""
    flag = pa.array(deleted)
    if DELETED in rows.column_names:
        return rows.set_column(rows.column_names.index(DELETED), DELETED, flag)
    return rows.append_column(DELETED, flag)


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
