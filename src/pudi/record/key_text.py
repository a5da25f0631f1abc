"""Key and partition columns: found by the names that key generators know, written as text the way Hudi does.

Source for timestamps: SqlKeyGenerator, and java.sql.Timestamp.toString in HoodieAvroUtils; tried with Hudi 1.2.0 in a
JVM in UTC.
"""

from __future__ import annotations

import datetime as dt
from enum import Enum

import pyarrow as pa
import pyarrow.compute as pc

from pudi.config import TableConfig
from pudi.errors import InvalidArgumentError, NotSupportedError, SchemaError
from pudi.schema import field_at, values_at
from pudi.schema.java_numbers import texts_of_numbers


def field_of(schema: pa.Schema, name: str) -> pa.Field:
    """The field of that name.

    Raises:
        SchemaError: the column does not exist.
    """
    field = field_at(schema, name)
    if field is None:
        raise _missing(name, schema)
    return field


def column_of(table: pa.Table, name: str) -> pa.ChunkedArray:
    """The values of that name; null where a struct around them is.

    Raises:
        SchemaError: the column does not exist.
    """
    values = values_at(table, name)
    if values is None:
        raise _missing(name, table.schema)
    return values


def lies_in_null(table: pa.Table, name: str) -> int:
    """Return the number of rows where a struct around the field is null: Hudi's upsert finds no record key there."""
    outer = name.rpartition(".")[0]
    return column_of(table, outer).null_count if outer else 0


def _missing(name: str, schema: pa.Schema) -> SchemaError:
    return SchemaError(f"key column {name!r} is not among the columns {', '.join(schema.names)}")


_MIN_DATE, _MAX_DATE = -719162, 2932896
"""Days of 0001-01-01 and 9999-12-31: beyond them Java and Arrow print a year differently."""

_ADVICE = {
    "float": "its text depends on the Java version (2.0E23 or 1.9999999999999998E23); use a decimal or a string",
    "timestamp": "Hudi's bulk_insert and upsert write its text differently; use a date, a long or a string",
    "timestamp_ms": "Hudi's SQL takes it for one in microseconds; use microseconds",
    "timestamp_ntz": "Hudi can't read such a partition back; use a date or a string",
    "binary": "Hudi's bulk_insert writes a memory address for it; use its hex text in a string",
}


def refusal(kind: pa.DataType, *, partition: bool) -> str | None:
    """Why a column of this type can't be a record key or partition column; None when it can.

    Tried against Hudi 1.2.0, by bulk_insert's row writer and by upsert: string, int, long, boolean,
    date, decimal, for record keys timestamps without a time zone (their microseconds), and for partition paths floats
    and timestamps with a zone come out the same both ways; binary doesn't.

    Args:
        kind: one of pudi's types.
        partition: whether it is for a partition path, else for a record key.
    """
    types = pa.types
    if kind in (pa.string(), pa.int32(), pa.int64(), pa.bool_(), pa.date32()) or types.is_decimal128(kind):
        return None
    if types.is_floating(kind):
        return None if partition else _ADVICE["float"]
    if types.is_timestamp(kind):
        if kind.tz is None:
            return _ADVICE["timestamp_ntz"] if partition else None
        if not partition:
            return _ADVICE["timestamp"]
        return None if kind.unit == "us" else _ADVICE["timestamp_ms"]
    if kind == pa.binary():
        return _ADVICE["binary"]
    return "use a string, an integer, a boolean, a date or a decimal"


def partition_text(values: pa.Array, name: str, timestamps: TimestampText) -> pa.Array:
    """The values of a partition column as Hudi writes them into paths; null stays null.

    Floats and doubles are written as Java before 19 does, which most Hudi jobs run on. For other types see `key_text`.

    Args:
        values: distinct values in one of pudi's types.
        name: the column's name, for messages.
        timestamps: the text of timestamps.

    Raises:
        NotSupportedError: the type can't be a partition column, see `refusal`.
        InvalidArgumentError: a day or a timestamp lies outside the years 1 to 9999.
    """
    if pa.types.is_floating(values.type):
        return texts_of_numbers(values)
    if refusal(values.type, partition=True) is None and pa.types.is_timestamp(values.type):
        return texts_of_timestamps(values, timestamps, name)
    return key_text(values, name, partition=True)


def key_text(column: pa.ChunkedArray | pa.Array, name: str, *, partition: bool = False) -> pa.ChunkedArray | pa.Array:
    """The column's values as Hudi writes them into record keys; null stays null.

    Strings are taken as they are, integers in decimal, booleans as true and false, dates as
    2026-01-02, decimals with all digits of their scale as Java's BigDecimal.toString (0E-10),
    timestamps without a zone as microseconds (HoodieAvroUtils.convertValueForAvroLogicalTypes).

    Args:
        column: values in one of pudi's types.
        name: the column's name, for messages.
        partition: whether it is for a partition path, else for a record key.

    Raises:
        NotSupportedError: the type can't be a key, see `refusal`.
        InvalidArgumentError: a date lies outside the years 1 to 9999.
    """
    why = refusal(column.type, partition=partition)
    if why is not None:
        raise type_error(name, column.type, why, partition=partition)
    if column.type == pa.string():
        return column
    if pa.types.is_timestamp(column.type):
        return pc.cast(pc.cast(column, pa.int64()), pa.string())
    if column.type == pa.date32():
        _check_dates(column, name)
    return pc.cast(column, pa.string())


def type_error(name: str, kind: pa.DataType, why: str, *, partition: bool) -> NotSupportedError:
    """Return the error for a column whose type can't be part of a key."""
    role = "partition" if partition else "record key"
    return NotSupportedError(f"column {name!r} of type {kind} can't be a {role} column: {why}")


def _check_dates(column: pa.ChunkedArray | pa.Array, name: str) -> None:
    days = pc.cast(column, pa.int32())
    beyond = pc.sum(pc.or_(pc.less(days, _MIN_DATE), pc.greater(days, _MAX_DATE))).as_py()
    if beyond:
        raise InvalidArgumentError(f"key column {name!r} has {beyond} dates outside the years 1 to 9999")


_SECOND, _DAY = 1_000_000, 86_400_000_000
_FIRST, _GREGORIAN = dt.datetime(1, 1, 1), dt.datetime(1582, 10, 15)
_LAST = dt.datetime(9999, 12, 31, 23, 59, 59, 999999)
_FORM = (
    r"^(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2}) (?P<h>[0-9]{2})(?::|%3A)(?P<m>[0-9]{2})(?::|%3A)(?P<s>[0-9]{2})"
    r"(?:\.[0-9]{1,6})?\z"
)


class TimestampText(Enum):
    """The text of timestamps in partition paths."""

    SECONDS = "2026-01-02 03%3A04%3A05"
    """Texts as Hudi's SQL writes them, always URL-encoded."""
    FRACTIONS = "2026-01-02 03:04:05.0"
    """Texts as Hudi's other writers write consistent logical timestamps, encoded if the table's paths are."""

    @property
    def is_encoded(self) -> bool:
        """Return whether the text is encoded in any table."""
        return self is TimestampText.SECONDS


def texts_of_timestamps(values: pa.Array, form: TimestampText, name: str) -> pa.Array:
    """Write timestamps; null stays null.

    Args:
        values: `timestamp("us", "UTC")`.
        form: the text.
        name: the column's name, for messages.

    Raises:
        InvalidArgumentError: a timestamp is outside the years that Java and Arrow write alike.
    """
    micros = values.cast(pa.int64())
    _check_range(micros, form, name)
    millis = pc.divide(micros, 1000).cast(pa.timestamp("ms"))  # Hudi cuts off towards 1970
    whole = pc.floor_temporal(millis, unit="second")
    seconds = pc.strftime(whole.cast(pa.timestamp("s")), "%Y-%m-%d %H:%M:%S")
    if form is TimestampText.SECONDS:
        return pc.replace_substring(seconds, ":", "%3A")
    fraction = pc.subtract(millis.cast(pa.int64()), whole.cast(pa.int64()))
    digits = pc.utf8_rtrim(pc.utf8_lpad(pc.cast(fraction, pa.string()), 3, "0"), "0")
    return pc.binary_join_element_wise(seconds, pc.if_else(pc.equal(digits, ""), "0", digits), ".")


def bounds_of_texts(texts: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the least and the greatest timestamp that a folder may hold; null where its text is no timestamp.

    A day is left on both sides, since writers name folders in the time zone of their JVM, which no table states.
    """
    parts = pc.extract_regex(texts, _FORM)
    joined = pc.binary_join_element_wise(
        pc.struct_field(parts, "date"),
        pc.binary_join_element_wise(*(pc.struct_field(parts, each) for each in "hms"), ":"),
        " ",
    )
    moments = pc.strptime(joined, format="%Y-%m-%d %H:%M:%S", unit="us", error_is_null=True).cast(pa.int64())
    kind = pa.timestamp("us", "UTC")
    low, high = pc.subtract(moments, _DAY), pc.add(moments, _DAY + _SECOND)
    return low.cast(kind), high.cast(kind)


def folders_of_another_form(texts: pa.Array, form: TimestampText) -> tuple[pa.Array, str]:
    """Return the folders that show timestamps in another way, and who does so.

    Args:
        texts: the text of a timestamp column in partition paths.
        form: the text that is expected.
    """
    option = TableConfig.logical_timestamps
    micros = texts.filter(pc.match_substring_regex(texts, r"^-?[0-9]+\z"))
    if len(micros):
        return micros, f"Hudi wrote microseconds, which it can't read back, without {option}=true"
    fractions = pc.match_substring_regex(texts, r"\.[0-9]+\z")
    if form is TimestampText.SECONDS:
        return texts.filter(fractions), f"Hudi wrote it with {option}=true: give this option"
    seconds = pc.and_(pc.invert(fractions), pc.match_substring_regex(texts, _FORM))
    return texts.filter(seconds), f"Hudi's SQL wrote it, or another writer without {option}=true: leave the option out"


def _check_range(micros: pa.Array, form: TimestampText, name: str) -> None:
    first = _FIRST if form is TimestampText.SECONDS else _GREGORIAN
    low, high = (pa.scalar(moment, pa.timestamp("us")).cast(pa.int64()) for moment in (first, _LAST))
    if pc.any(pc.or_(pc.less(micros, low), pc.greater(micros, high))).as_py():
        raise InvalidArgumentError(f"partition column {name!r} has a timestamp before {first} or after the year 9999")
