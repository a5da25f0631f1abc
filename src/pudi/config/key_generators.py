"""Hudi's key generators by name, and what Hudi infers from the number of columns."""

from __future__ import annotations

from collections.abc import Sequence

_PACKAGE = "org.apache.hudi.keygen."
_CLASSES = {
    "SimpleKeyGenerator": "SIMPLE",
    "SimpleAvroKeyGenerator": "SIMPLE_AVRO",
    "ComplexKeyGenerator": "COMPLEX",
    "ComplexAvroKeyGenerator": "COMPLEX_AVRO",
    "NonpartitionedKeyGenerator": "NON_PARTITION",
    "NonpartitionedAvroKeyGenerator": "NON_PARTITION_AVRO",
    "TimestampBasedKeyGenerator": "TIMESTAMP",
    "TimestampBasedAvroKeyGenerator": "TIMESTAMP_AVRO",
    "CustomKeyGenerator": "CUSTOM",
    "CustomAvroKeyGenerator": "CUSTOM_AVRO",
    "GlobalDeleteKeyGenerator": "GLOBAL_DELETE",
    "GlobalAvroDeleteKeyGenerator": "GLOBAL_DELETE_AVRO",
}
_EXTRACTORS = "org.apache.hudi.hive."


def type_of_class(name: str) -> str:
    """The key generator type of a class name; USER_PROVIDED for a class that is not Hudi's (`KeyGeneratorType`)."""
    return _CLASSES.get(name.removeprefix(_PACKAGE), "USER_PROVIDED")


def class_of_type(name: str) -> str | None:
    """The name of the class of a key generator type; None for one that isn't Hudi's."""
    found = next((each for each, kind in _CLASSES.items() if kind == name), None)
    return None if found is None else _PACKAGE + found


def inferred_type(record_key_fields: Sequence[str], partition_fields: Sequence[str]) -> str:
    """Return the key generator that Hudi chooses if a table names none (`KeyGenUtils.inferKeyGeneratorType`).

    Args:
        record_key_fields: names of the record key's columns.
        partition_fields: names of the partition path's columns, a custom generator's `:type` included.
    """
    if not partition_fields:
        return "NON_PARTITION"
    if ":" in partition_fields[0]:
        return "CUSTOM"
    return "SIMPLE" if len(partition_fields) == 1 and len(record_key_fields) <= 1 else "COMPLEX"


def partition_extractor(partition_fields: Sequence[str], *, hive_style: bool) -> str:
    """The hint for Hive sync that Hudi stores (`HoodieTableConfigUtils.inferPartitionValueExtractorClass`)."""
    if not partition_fields:
        return _EXTRACTORS + "NonPartitionedExtractor"
    if len(partition_fields) > 1:
        return _EXTRACTORS + "MultiPartKeysValueExtractor"
    return _EXTRACTORS + ("HiveStylePartitionValueExtractor" if hive_style else "SinglePartPartitionValueExtractor")
