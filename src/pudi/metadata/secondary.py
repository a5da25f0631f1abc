"""Rows of a secondary index: values of a column as the texts that it knows them by, and the value beside every key.

Source: FORMAT 7.2 and 7.4; SecondaryIndexRecordGenerationUtils, HoodieIndexUtils.isSecondaryIndexSupportedType,
HoodieMetadataPayload.createSecondaryIndexRecord.
"""

from __future__ import annotations

from functools import cache

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
