"""Fields of a schema: by path, the meta fields, and the names that columns may have.

In a path, `a.b` is field `b` of the struct column `a`, since no column of a table has a dot in its name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import SchemaError

Path: TypeAlias = "str | tuple[str, ...]"
"""The names of a field and of what it lies in, joined by dots; or one by one, for data whose names may have dots."""


def parts_of(path: Path) -> tuple[str, ...]:
    """Return the names of a path, the column first."""
    return tuple(path.split(".")) if isinstance(path, str) else path


def root_of(path: str) -> str:
    """Return the column that holds a field."""
    return path.partition(".")[0]


def roots_of(paths: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that hold some fields, each once: what a reader of the fields reads."""
    return tuple(dict.fromkeys(map(root_of, paths)))


def field_at(schema: pa.Schema, path: Path) -> pa.Field | None:
    """Return the field of a path; None if there is none, or if it lies in anything but structs."""
    first, *rest = parts_of(path)
    index = schema.get_field_index(first)
    field = schema.field(index) if index >= 0 else None
    for part in rest:
        if field is None or not pa.types.is_struct(field.type):
            return None
        index = field.type.get_field_index(part)
        field = field.type.field(index) if index >= 0 else None
    return field


def values_at(rows: pa.Table, path: Path) -> pa.ChunkedArray | None:
    """Return the values of a path, null where a struct around them is; None where `field_at` finds no field."""
    if field_at(rows.schema, path) is None:
        return None
    first, *rest = parts_of(path)
    return pc.struct_field(rows[first], rest) if rest else rows[first]


def columns_holding(values: Mapping[str, pa.Array], schema: pa.Schema) -> dict[str, pa.Array]:
    """Return columns that hold nothing but the values of some fields.

    Args:
        values: of one length, by path, in the fields' types.
        schema: the types of these columns, and maybe of others.

    Returns:
        By name the columns that hold the fields. Fields beside them are null, also where the type takes no null.
    """
    by_path = {parts_of(path): array for path, array in values.items()}
    return {root: _holding(by_path, (root,), schema.field(root).type) for root in roots_of(values)}


def _holding(values: Mapping[tuple[str, ...], pa.Array], at: tuple[str, ...], kind: pa.DataType) -> pa.Array:
    if at in values:
        return values[at]
    inside = {path: array for path, array in values.items() if path[: len(at)] == at}
    if not inside:
        return pa.nulls(len(next(iter(values.values()))), kind)
    fields = [kind.field(number) for number in range(kind.num_fields)]
    return pa.StructArray.from_arrays(
        [_holding(values, (*at, field.name), field.type) for field in fields], fields=fields
    )


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
