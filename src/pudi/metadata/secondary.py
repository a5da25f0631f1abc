"""Rows of a secondary index: the texts of a column's values, and the value of every key.

Source: SecondaryIndexRecordGenerationUtils, HoodieIndexUtils.isSecondaryIndexSupportedType,
HoodieMetadataPayload.createSecondaryIndexRecord.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pudi.errors import NotSupportedError
from pudi.format.avro_encode import encode_records
from pudi.metadata.keys import secondary_keys
from pudi.metadata.records import RECORD_AVRO, RECORD_SCHEMA, RecordType
from pudi.schema import META_FIELDS
from pudi.schema.conversions import java_float_text


def may_be_secondary(kind: pa.DataType) -> bool:
    """Return whether Hudi supports secondary indexes on columns of a type."""
    return bool(
        pt.is_string(kind)
        or pt.is_large_string(kind)
        or pt.is_signed_integer(kind)
        or pt.is_floating(kind)
        or pt.is_date32(kind)
        or (pt.is_timestamp(kind) and kind.tz is not None)
    )


def secondary_texts(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column's values as texts of a secondary index: Java's texts of the values in a Spark row.

    For example, a date is its number of days, and a timestamp its microseconds.

    Raises:
        NotSupportedError: the type has no secondary index.
    """
    whole = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if pt.is_dictionary(whole.type):
        whole = whole.dictionary_decode()
    kind = whole.type
    if not may_be_secondary(kind):
        raise NotSupportedError(f"a secondary index over a column of type {kind}")
    if pt.is_floating(kind):
        return java_float_text(whole) if len(whole) > whole.null_count else pa.nulls(len(whole), pa.string())
    if pt.is_date32(kind):
        whole = whole.view(pa.int32())
    elif pt.is_timestamp(kind):
        whole = whole.cast(pa.timestamp("us", kind.tz)).view(pa.int64())
    return pc.cast(whole, pa.string())


def may_be_looked_up(kind: pa.DataType) -> bool:
    """Return whether reads may use an index on columns of a type, which requires known texts for its values.

    Timestamps in milliseconds are excluded: Hudi's releases disagree on whether they are microseconds.
    """
    return may_be_secondary(kind) and not (pt.is_timestamp(kind) and kind.unit != "us")


def certain_texts(values: Collection[object], kind: pa.DataType) -> list[str] | None:
    """Return all texts that any writer may have used in a secondary index for some values of a column.

    Args:
        values: values of the column, without null and NaN.
        kind: the column's type; `may_be_looked_up` is true.

    Returns:
        None if the texts are uncertain: Java before 19 prints some floating-point numbers with more digits than needed.
        Numbers of moderate size with few enough digits have the same text in all versions.
    """
    if not pt.is_floating(kind):
        return sorted(secondary_texts(pa.array(list(values), kind)).to_pylist())
    texts: set[str] = set()
    for value in values:
        found = _float_texts(np.float64(cast(float, value)), kind)
        if found is None:
            return None
        texts |= found
    return sorted(texts)


_PLAIN_FROM, _PLAIN_TO = 1e-3, 1e7
"""Range of numbers that Java prints without an exponent."""


def _float_texts(value: np.float64, kind: pa.DataType) -> set[str] | None:
    """Return the texts of a number in the column's type and in its possible old types: FLOAT, or an integer."""
    if value == 0:
        return {"0.0", "-0.0", "0"}
    if not _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        return None
    if value.is_integer():
        return {f"{value:.1f}", f"{value:.0f}"}
    narrow = np.float32(value)
    candidates: list[tuple[np.floating[Any], int]] = [(narrow, _FLOAT_DIGITS)] if narrow == value else []
    candidates += [(value, _DOUBLE_DIGITS)] if pt.is_float64(kind) else []
    texts = [np.format_float_positional(number) for number, _ in candidates]
    digits = [len(text.lstrip("-0.").replace(".", "")) for text in texts]
    return set(texts) if all(has <= most for has, (_, most) in zip(digits, candidates, strict=True)) else None


_FLOAT_DIGITS, _DOUBLE_DIGITS = 6, 15
"""Number of digits that every decimal number keeps (FLT_DIG and DBL_DIG)."""


def keys_of_rows(values: pa.Array | pa.ChunkedArray, record_keys: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return the keys of an index for records.

    Args:
        values: the column's values.
        record_keys: the records' keys.
    """
    keys = record_keys.combine_chunks() if isinstance(record_keys, pa.ChunkedArray) else record_keys
    return secondary_keys(secondary_texts(values), keys.cast(pa.string()))


@cache
def secondary_value() -> bytes:
    """Return the value of every key, in Avro, with an empty key."""
    row = {"key": "", "type": int(RecordType.SECONDARY_INDEX), "SecondaryIndexMetadata": {"isDeleted": False}}
    rows = pa.Table.from_pylist([row], RECORD_SCHEMA)
    metas = [pa.field(name, pa.string()) for name in META_FIELDS]
    arrays = [*(pa.nulls(1, pa.string()) for _ in metas), *rows.columns]
    whole = pa.Table.from_arrays(arrays, schema=pa.schema([*metas, *RECORD_SCHEMA]))
    value: bytes = encode_records(RECORD_AVRO, whole, unions=True)[0].as_py()
    return value
