"""The records of the metadata table: HoodieMetadataRecord, its Avro schema, Arrow columns, types and partitions."""

from __future__ import annotations

import json
from enum import IntEnum
from typing import Any, Final

import pyarrow as pa

from pudi.format.metadata_partitions import partition_type
from pudi.schema import META_FIELDS, avro_to_arrow, without_meta_fields

ALL_PARTITIONS: Final = "__all_partitions__"
"""Key of the record that lists all partitions (HoodieTableMetadata.RECORDKEY_PARTITION_LIST)."""
NO_PARTITION: Final = "."
"""Identifier of the empty partition path (HoodieTableMetadata.EMPTY_PARTITION_NAME)."""


class RecordType(IntEnum):
    """The type of a record (MetadataPartitionType.getRecordType)."""

    ALL_PARTITIONS = 1
    FILES = 2
    COLUMN_STATS = 3
    BLOOM_FILTER = 4
    RECORD_INDEX = 5
    PARTITION_STATS = 6
    SECONDARY_INDEX = 7


def partition_identifier(partition: str) -> str:
    """Return the identifier of a data table's partition in keys (HoodieTableMetadataUtil.getPartitionIdentifier)."""
    return partition or NO_PARTITION


def partition_path(identifier: str) -> str:
    """Return the partition path of an identifier."""
    return "" if identifier == NO_PARTITION else identifier


Node = dict[str, Any]

_STRING: Node = {"type": "string", "avro.java.string": "String"}
_TEXT = ["null", _STRING]
_LONG = ["null", "long"]


def _field(name: str, kind: object, doc: str | None = None, **more: object) -> Node:
    return {"name": name, "type": kind, **({} if doc is None else {"doc": doc}), **more}


def _record(name: str, fields: list[Node], doc: str | None = None) -> Node:
    return {"type": "record", "name": name, **({} if doc is None else {"doc": doc}), "fields": fields}


def _wrapper(name: str, kind: object, of: str) -> Node:
    return _record(
        f"{name}Wrapper",
        [_field("value", kind)],
        f"A record wrapping {of} type to be able to be used it w/in Avro's Union",
    )


_DECIMAL = {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15}
_WRAPPERS = [
    _wrapper("Boolean", "boolean", "boolean"),
    _wrapper("Int", "int", "int"),
    _wrapper("Long", "long", "long"),
    _wrapper("Float", "float", "float"),
    _wrapper("Double", "double", "double"),
    _wrapper("Bytes", "bytes", "bytes"),
    _wrapper("String", _STRING, "string"),
    _wrapper("Date", "int", "Date logical"),
    _wrapper("Decimal", _DECIMAL, "Decimal logical"),
    _wrapper("TimeMicros", {"type": "long", "logicalType": "time-micros"}, "Time-micros logical"),
    _wrapper("TimestampMicros", "long", "Timestamp-micros logical"),
    _wrapper("LocalDate", "int", "Local Date"),
]
WRAPPERS: Final = (*(str(each["name"]) for each in _WRAPPERS), "ArrayWrapper")
"""Union branches of minimum and maximum in column statistics; their columns in `RECORD_SCHEMA`, in this order."""

_ARRAY_WRAPPER = _record(
    "ArrayWrapper",
    [
        _field(
            "wrappedValues",
            ["null", {"type": "array", "items": ["null", *WRAPPERS[:-1]]}],
            "An array where each element is one of the supported wrapper types.",
            default=None,
        )
    ],
    "A record containing a list of wrapped values.",
)
_RANGE_DOC = "{} value in the range. Based on user data table schema, we can convert {} to appropriate type"

_FILES = _record(
    "HoodieMetadataFileInfo",
    [
        _field("size", "long", "Size of the file"),
        _field("isDeleted", "boolean", "True if this file has been deleted"),
    ],
)
_BLOOM = _record(
    "HoodieMetadataBloomFilter",
    [
        _field("type", _STRING, "Bloom filter type code"),
        _field("timestamp", _STRING, "Instant timestamp when this metadata was created/updated"),
        _field("bloomFilter", "bytes", "Bloom filter binary byte array"),
        _field("isDeleted", "boolean", "Bloom filter entry valid/deleted flag"),
    ],
    "Data file bloom filter details",
)
_VALUE_TYPE = _record(
    "HoodieValueTypeInfo",
    [
        _field("typeOrdinal", "int", "Enum type ordinal representing the value type"),
        _field("additionalInfo", _TEXT, "Optional additional information about the value type", default=None),
    ],
)
_COLUMN_STATS = _record(
    "HoodieMetadataColumnStats",
    [
        _field("fileName", _TEXT, "File name for which this column statistics applies", default=None),
        _field("columnName", _TEXT, "Column name for which this column statistics applies", default=None),
        _field("minValue", ["null", *_WRAPPERS, _ARRAY_WRAPPER], _RANGE_DOC.format("Minimum", "this"), default=None),
        _field("maxValue", ["null", *WRAPPERS], _RANGE_DOC.format("Maximum", "it"), default=None),
        _field("valueCount", _LONG, "Total count of values", default=None),
        _field("nullCount", _LONG, "Total count of null values", default=None),
        _field("totalSize", _LONG, "Total storage size on disk", default=None),
        _field("totalUncompressedSize", _LONG, "Total uncompressed storage size on disk", default=None),
        _field("isDeleted", "boolean", "Column range entry valid/deleted flag"),
        _field("isTightBound", "boolean", "Whether the min/max range of a column is tight bound or not", default=False),
        _field(
            "valueType",
            ["null", _VALUE_TYPE],
            "Value type information containing enum ordinal and optional additional information",
            default=None,
        ),
    ],
    "Data file column statistics",
)
_FILE_ID_DOC = (
    " if the fileId is based on UUID format. \nA UUID based fileId is stored as 3 pieces in RLI (fileIdHighBits, "
    "fileIdLowBits and fileIndex). \nFileID format is {UUID}-{fileIndex}."
)
_RECORD_INDEX = _record(
    "HoodieRecordIndexInfo",
    [
        _field("partitionName", _TEXT, "Refers to the partition name the record belongs to", default=None),
        _field("fileIdHighBits", _LONG, f"Refers to high 64 bits{_FILE_ID_DOC}", default=None),
        _field("fileIdLowBits", _LONG, f"Refers to low 64 bits{_FILE_ID_DOC}", default=None),
        _field(
            "fileIndex",
            ["null", "int"],
            "Index representing file index which is used to re-construct UUID based fileID. Applicable when the "
            f"fileId is based on UUID format. {_FILE_ID_DOC[len(' if the fileId is based on UUID format. ') :]}",
            default=None,
        ),
        _field(
            "fileId",
            _TEXT,
            "Represents fileId of the location where record belongs to. When the encoding is 1, fileID is stored in "
            "raw string format.",
            default=None,
        ),
        _field(
            "instantTime",
            _LONG,
            "Epoch time in millisecond representing the commit time at which record was added",
            default=None,
        ),
        _field(
            "fileIdEncoding",
            "int",
            "Represents fileId encoding. Possible values are 0 and 1. O represents UUID based fileID, and 1 represents "
            "raw string format of the fileId. \nWhen the encoding is 0, reader can deduce fileID from fileIdLowBits, "
            "fileIdHighBits and fileIndex.",
            default=0,
        ),
        _field(
            "position",
            _LONG,
            "Represents position of record within a file group for easier access. It will be used for index lookup.",
            default=None,
        ),
    ],
)
_SECONDARY = _record(
    "HoodieSecondaryIndexInfo", [_field("isDeleted", "boolean", "True if this entry has been deleted")]
)


def _optional(name: str, kind: Node, doc: str) -> Node:
    return _field(name, ["null", kind], doc, default=None)


RECORD_AVRO: Final = json.dumps(
    {
        "type": "record",
        "name": "HoodieMetadataRecord",
        "namespace": "org.apache.hudi.avro.model",
        "doc": "A record saved within the Metadata Table",
        "fields": [
            *(_field(name, ["null", "string"], "", default=None) for name in META_FIELDS),
            _field("key", _STRING),
            _field("type", "int", "Type of the metadata record"),
            _field(
                "filesystemMetadata",
                ["null", {"type": "map", "values": _FILES, "avro.java.string": "String"}],
                "Contains information about partitions and files within the dataset",
            ),
            _optional(
                "BloomFilterMetadata", _BLOOM, "Metadata Index of bloom filters for all data files in the user table"
            ),
            _optional(
                "ColumnStatsMetadata",
                _COLUMN_STATS,
                "Metadata Index of column statistics for all data files in the user table",
            ),
            _optional(
                "recordIndexMetadata",
                _RECORD_INDEX,
                "Metadata Index that contains information about record keys and their location in the dataset",
            ),
            _optional(
                "SecondaryIndexMetadata",
                _SECONDARY,
                "Metadata Index that contains information about secondary keys and the corresponding record keys in "
                "the dataset",
            ),
        ],
    },
    separators=(",", ":"),
)
"""Avro schema of a record as Hudi 1.2 writes it in HFiles and log blocks, with meta fields first.

Source: HoodieMetadataRecord.
"""

RECORD_SCHEMA: Final = without_meta_fields(avro_to_arrow(RECORD_AVRO, unions=True))
"""The Arrow columns of a record without the meta fields, which are empty in the metadata table.

A union of several types (`minValue`, `maxValue`) is a struct with one nullable column per type, named like the Avro
type; at most one is not null.
"""


def columns_of(partition: str) -> tuple[str, ...]:
    """Return the columns of `RECORD_SCHEMA` that records of a partition have.

    Raises:
        NotSupportedError: the partition comes from a later Hudi.
    """
    return ("key", "type", *partition_type(partition).payload)


def all_columns(records: pa.Table) -> pa.Table:
    """Return records with all columns of `RECORD_SCHEMA`; missing ones are null."""
    known = set(records.column_names)
    columns = [
        records[field.name] if field.name in known else pa.nulls(records.num_rows, field.type)
        for field in RECORD_SCHEMA
    ]
    return pa.Table.from_arrays(columns, schema=RECORD_SCHEMA)
