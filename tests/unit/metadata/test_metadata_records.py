"""Records of the metadata table as Arrow rows, and unions of several types among their fields."""

from __future__ import annotations

import io
import json
from decimal import Decimal
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import NotSupportedError, SchemaError
from pudi.format.avro_encode import encode_records
from pudi.format.avro_rows import read_records
from pudi.format.avro_values import BadAvro, Records, Run
from pudi.metadata import RECORD_AVRO, RECORD_SCHEMA
from pudi.metadata.record_schema import META_FIELDS
from pudi.schema import avro_to_arrow

_FASTAVRO = fastavro.parse_schema(json.loads(RECORD_AVRO))
_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "BooleanWrapper": st.booleans(),
    "IntWrapper": st.integers(-(2**31), 2**31 - 1),
    "LongWrapper": st.integers(-(2**63), 2**63 - 1),
    "DoubleWrapper": st.floats(allow_nan=False),
    "BytesWrapper": st.binary(),
    "StringWrapper": st.text(),
    "DateWrapper": st.integers(-(2**31), 2**31 - 1),
    "DecimalWrapper": st.decimals(-(10**14), 10**14, places=15),
    "TimestampMicrosWrapper": st.integers(-(2**63), 2**63 - 1),
}
_VALUES = st.none() | st.sampled_from(sorted(_PLAIN)).flatmap(
    lambda name: _PLAIN[name].map(lambda value: (f"org.apache.hudi.avro.model.{name}", {"value": value}))
)
_STATS = st.fixed_dictionaries(
    {
        "fileName": st.none() | st.text(),
        "columnName": st.text(),
        "minValue": _VALUES,
        "maxValue": _VALUES,
        "valueCount": st.integers(0, 2**63 - 1),
        "nullCount": st.integers(0, 5),
        "isDeleted": st.booleans(),
        "isTightBound": st.booleans(),
        "valueType": st.none() | st.fixed_dictionaries({"typeOrdinal": st.integers(0, 20)}),
    }
)
_RECORDS = st.fixed_dictionaries(
    {
        "key": st.just(""),
        "type": st.integers(1, 7),
        "filesystemMetadata": st.none()
        | st.dictionaries(
            st.text(), st.fixed_dictionaries({"size": st.integers(0, 2**40), "isDeleted": st.booleans()}), max_size=3
        ),
        "ColumnStatsMetadata": st.none() | _STATS,
    }
)


def _encoded(record: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, _FASTAVRO, {**dict.fromkeys(META_FIELDS), **record})
    return out.getvalue()


def _read(values: list[bytes], schema: str = RECORD_AVRO) -> pa.Table:
    ends = np.cumsum([0, *(len(value) for value in values)])
    return read_records(schema, Run(Records.of(b"".join(values)), ends[:-1], ends[1:]), unions=True)


def _plain(value: Any) -> Any:
    """A union's value of one row without the columns that are null."""
    return None if value is None else next((v["value"] for v in value.values() if v is not None), None)


@given(st.lists(_RECORDS, max_size=6))
def test_records_are_read_as_another_reader_reads_them_and_written_back(records: list[dict[str, Any]]) -> None:
    values = [_encoded(record) for record in records]
    rows = _read(values)
    assert pa.schema([rows.schema.field(name) for name in RECORD_SCHEMA.names]) == RECORD_SCHEMA
    for record, row in zip(records, rows.to_pylist(), strict=True):
        files = record["filesystemMetadata"]
        assert row["filesystemMetadata"] == (None if files is None else list(files.items()))
        stats, found = record["ColumnStatsMetadata"], row["ColumnStatsMetadata"]
        assert (found is None) == (stats is None)
        if stats is not None:
            assert found["valueCount"] == stats["valueCount"]
            for side in ("minValue", "maxValue"):
                assert _plain(found[side]) == (None if stats[side] is None else stats[side][1]["value"])
    assert encode_records(RECORD_AVRO, rows, unions=True).to_pylist() == values


UNION = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [{"name": "u", "type": ["int", "string", {"type": "array", "items": ["long", "null", "boolean"]}]}],
    }
)


def test_a_union_without_null_is_a_struct_that_is_never_null() -> None:
    rows = _read([b"\x00\x08", b"\x02\x02x", b"\x04\x06\x00\x02\x02\x04\x01\x00"], UNION)
    assert not rows.schema.field("u").nullable
    assert rows["u"].to_pylist() == [
        {"int": 4, "string": None, "array": None},
        {"int": None, "string": "x", "array": None},
        {
            "int": None,
            "string": None,
            "array": [{"long": 1, "boolean": None}, None, {"long": None, "boolean": True}],
        },
    ]
    assert encode_records(UNION, rows, unions=True).to_pylist()[:2] == [b"\x00\x08", b"\x02\x02x"]


def test_unions_of_several_types_are_no_columns_of_tables() -> None:
    with pytest.raises(NotSupportedError, match="union of 3 types"):
        avro_to_arrow(UNION)


def test_a_branch_that_a_union_does_not_have() -> None:
    with pytest.raises(BadAvro, match="branch"):
        _read([b"\x06\x00"], UNION)


def test_a_value_of_two_types_cannot_be_written() -> None:
    schema = avro_to_arrow(UNION, unions=True)
    both = pa.table({"u": pa.array([{"int": 1, "string": "x", "array": None}], schema.field("u").type)})
    with pytest.raises(SchemaError, match="two types"):
        encode_records(UNION, both, unions=True)
    none = pa.table({"u": pa.array([{"int": None, "string": None, "array": None}], schema.field("u").type)})
    with pytest.raises(SchemaError, match="null"):
        encode_records(UNION, none, unions=True)


def test_decimals_keep_their_fifteen_digits() -> None:
    wrapped = ("org.apache.hudi.avro.model.DecimalWrapper", {"value": Decimal("1.5")})
    stats = {"columnName": "c", "minValue": wrapped, "isDeleted": False, "isTightBound": False}
    rows = _read([_encoded({"key": "", "type": 3, "filesystemMetadata": None, "ColumnStatsMetadata": stats})])
    assert _plain(rows["ColumnStatsMetadata"][0].as_py()["minValue"]) == Decimal("1.5")
