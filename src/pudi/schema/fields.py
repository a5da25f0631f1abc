"""Add and check meta fields and column names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pyarrow as pa

from pudi.errors import SchemaError

COMMIT_TIME = "_hoodie_commit_time"
COMMIT_SEQNO = "_hoodie_commit_seqno"
RECORD_KEY = "_hoodie_record_key"
PARTITION_PATH = "_hoodie_partition_path"
FILE_NAME = "_hoodie_file_name"

META_FIELDS = (COMMIT_TIME, COMMIT_SEQNO, RECORD_KEY, PARTITION_PATH, FILE_NAME)
"""The meta fields in the order in which they lead every data file (HoodieRecord.HOODIE_META_COLUMNS)."""


def with_meta_fields(schema: pa.Schema) -> pa.Schema:
    """The schema with the five meta fields, nullable strings, in front; any it had already are moved there.

    Source: HoodieSchemaUtils.addMetadataFields.
    """
    meta = [pa.field(name, pa.string()) for name in META_FIELDS]
    return pa.schema([*meta, *without_meta_fields(schema)])


def without_meta_fields(schema: pa.Schema) -> pa.Schema:
    """The schema without any of the five meta fields, the other columns in their order."""
    return pa.schema([field for field in schema if field.name not in META_FIELDS])


def check_names(fields: list[pa.Field], path: str = "") -> None:
    """Refuse column names that Hudi's Avro schema or Spark could not hold.

    Args:
        fields: the columns of a table, or the fields of a struct.
        path: dotted path of that struct, empty for the table.

    Raises:
        SchemaError: a name is illegal in Avro (Java Avro's Schema.validateName), occurs twice, or
            differs from another one by case only, which Spark cannot tell apart.
    """
    seen: dict[str, str] = {}
    repeated = set(repeated_names(field.name for field in fields))
    for field in fields:
        name = f"{path}.{field.name}" if path else field.name
        if not _is_avro_name(field.name):
            raise SchemaError(
                f"column name {name!r} can't be stored: a name holds letters, digits and '_' only and "
                "begins with a letter or '_'; rename the column"
            )
        twin = seen.setdefault(field.name.casefold(), name)
        if twin != name:
            raise SchemaError(f"columns {twin!r} and {name!r} differ by case only; rename one of them")
        if field.name in repeated:
            raise SchemaError(f"column {name!r} occurs more than once; drop or rename one of them")


def check_no_repeats(names: Iterable[str], table: str | None) -> None:
    """Refuse data with two columns of one name.

    Args:
        names: the names of its columns.
        table: location of the table, for errors.

    Raises:
        SchemaError: some occur more than once.
    """
    twice = repeated_names(names)
    if twice:
        raise SchemaError(f"the data has these columns more than once: {', '.join(twice)}", table=table)


def repeated_names(names: Iterable[str]) -> list[str]:
    """Return the names that occur more than once, sorted."""
    return sorted(name for name, count in Counter(names).items() if count > 1)


def _is_avro_name(name: str) -> bool:
    # Java looks at UTF-16 units, so letters beyond the basic plane are no letters to it.
    def letter(char: str) -> bool:
        return char == "_" or (char.isalpha() and ord(char) <= 0xFFFF)

    return bool(name) and letter(name[0]) and all(letter(c) or (c.isdecimal() and ord(c) <= 0xFFFF) for c in name)
