"""Rows of a secondary index: values of a column as the texts that it knows them by, and the value beside every key.

Source: FORMAT 7.2 and 7.4; SecondaryIndexRecordGenerationUtils, HoodieIndexUtils.isSecondaryIndexSupportedType,
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
from pudi.schema.java_text import java_float_text


def may_be_secondary(kind: pa.DataType) -> bool:
    """Whether Hudi makes a secondary index over a column of a type."""
    return bool(
        pt.is_string(kind)
        or pt.is_large_string(kind)
        or pt.is_signed_integer(kind)
        or pt.is_floating(kind)
        or pt.is_date32(kind)
        or (pt.is_timestamp(kind) and kind.tz is not None)
    )


def secondary_texts(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Values of a column as a secondary index has them: texts of Java's values in a row of Spark's.

    So a date is its number of days, and a point in time its microseconds.

    Raises:
        NotSupportedError: of this type there's no index.
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
    """Whether records may be looked up by the values of a column of a type: it's sure by which texts they are known.

    Of points in time in milliseconds it isn't: Hudi's readers take them for microseconds or not, by release.
    """
    return may_be_secondary(kind) and not (pt.is_timestamp(kind) and kind.unit != "us")


def certain_texts(values: Collection[object], kind: pa.DataType) -> list[str] | None:
    """Every text by which secondary indexes may know some values of a column, whoever wrote them.

    Args:
        values: of a column; no nulls, no NaN.
        kind: the column's type, one that `may_be_looked_up`.

    Returns:
        None where it isn't sure: Java before 19 prints some floating-point numbers with more digits than needed. Those
        with as many digits as any decimal number keeps in the type, neither large nor small, are the same in all.
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
"""Sizes of numbers that Java prints without an exponent."""


def _float_texts(value: np.float64, kind: pa.DataType) -> set[str] | None:
    """The texts of a number, written as the column's type or as one that it had before: FLOAT, or an integer."""
    if value == 0:
        return {"0.0", "-0.0", "0"}
    if not _PLAIN_FROM <= abs(value) < _PLAIN_TO:
        return None
    if value.is_integer():
        return {f"{value:.1f}", f"{value:.0f}"}
    narrow = np.float32(value)
    told: list[tuple[np.floating[Any], int]] = [(narrow, _FLOAT_DIGITS)] if narrow == value else []
    told += [(value, _DOUBLE_DIGITS)] if pt.is_float64(kind) else []
    texts = [np.format_float_positional(number) for number, _ in told]
    digits = [len(text.lstrip("-0.").replace(".", "")) for text in texts]
    return set(texts) if all(has <= most for has, (_, most) in zip(digits, told, strict=True)) else None


_FLOAT_DIGITS, _DOUBLE_DIGITS = 6, 15
"""Digits that every decimal number keeps as FLT_DIG and DBL_DIG say."""


def keys_of_rows(values: pa.Array | pa.ChunkedArray, record_keys: pa.Array | pa.ChunkedArray) -> pa.Array:
    """The keys that an index over a column has for records.

    Args:
        values: the column's values.
        record_keys: the records' keys.
    """
    keys = record_keys.combine_chunks() if isinstance(record_keys, pa.ChunkedArray) else record_keys
    return secondary_keys(secondary_texts(values), keys.cast(pa.string()))


@cache
def secondary_value() -> bytes:
    """The value of every key, in Avro, with an empty key."""
    row = {"key": "", "type": int(RecordType.SECONDARY_INDEX), "SecondaryIndexMetadata": {"isDeleted": False}}
    rows = pa.Table.from_pylist([row], RECORD_SCHEMA)
    metas = [pa.field(name, pa.string()) for name in META_FIELDS]
    arrays = [*(pa.nulls(1, pa.string()) for _ in metas), *rows.columns]
    whole = pa.Table.from_arrays(arrays, schema=pa.schema([*metas, *RECORD_SCHEMA]))
    value: bytes = encode_records(RECORD_AVRO, whole, unions=True)[0].as_py()
    return value
