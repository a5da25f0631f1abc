"""Make record keys and partition paths from the columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.config import TableConfig, TimebasedOptions
from pudi.errors import InvalidArgumentError, NotSupportedError, PudiError
from pudi.record.key_text import (
    TimestampText,
    bounds_of_texts,
    column_of,
    field_of,
    folders_of_another_form,
    key_text,
    lies_in_null,
    partition_text,
    refusal,
    type_error,
)
from pudi.record.partition_path import (
    DEFAULT_PARTITION,
    EMPTY_TEXTS,
    check_paths,
    check_values,
    column_texts,
    escape,
    segments,
    typed_values,
)
from pudi.record.timestamp_keys import Moments
from pudi.schema.arrays import constant_text, one_array
from pudi.schema.java_numbers import numbers_of_texts

NULL_KEY = "__null__"
EMPTY_KEY = "__empty__"
"""Placeholders for null and for the empty text in a key of several columns (KeyGenerator)."""

SUPPORTED = ("SIMPLE", "COMPLEX", "NON_PARTITION", "TIMESTAMP", "CUSTOM")


@dataclass(frozen=True, slots=True)
class KeyGenerator:
    """Key generator of a table as a picklable value: makes record keys and partition paths.

    Any table's settings can be held, so that any table can be read; making keys is for the kinds in
    `SUPPORTED` only.

    Attributes:
        kind: Hudi's key generator type without `_AVRO`, for example `SIMPLE`.
        record_key_fields: columns of the record key, in order, `a.b` for one in a struct; none where keys are
            generated.
        partition_fields: columns of the partition path, in order; none for an unpartitioned table.
        hive_style: whether folders are named `column=value`.
        url_encode: whether special characters of values become %XX.
        slash_dates: whether `-` of a single partition column becomes a slash
            (`hoodie.datasource.write.slash.separated.date.partitioning`).
        partition_types: for CUSTOM, `SIMPLE` or `TIMESTAMP` for each partition column.
        moments: how columns become folders named by time, where the table says.
        names_single: whether a COMPLEX key of one column is `a:1`; tables below version 9 may have it without the name.
        either_spelling: whether log files may hold such a key both with the name and without it: in tables without meta
            fields, whose base files hold none.
        timestamps: the text of timestamps in partition paths.
    """

    kind: str
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...] = ()
    hive_style: bool = False
    url_encode: bool = False
    slash_dates: bool = False
    partition_types: tuple[str, ...] = ()
    moments: Moments | None = None
    names_single: bool = True
    either_spelling: bool = False
    timestamps: TimestampText = TimestampText.SECONDS

    @property
    def generates(self) -> bool:
        """Whether record keys are made up, since no column is one (AutoRecordGenWrapperKeyGenerator)."""
        return not self.record_key_fields

    @property
    def columns(self) -> frozenset[str]:
        """The table's columns that keys and paths are made of; of a field in a struct, the struct's."""
        return frozenset(name.split(".", 1)[0] for name in (*self.record_key_fields, *self.partition_fields))

    @property
    def names_keys(self) -> bool:
        """Whether columns' names stand in record keys."""
        return len(self.record_key_fields) > 1 or (self.kind == "COMPLEX" and self.names_single)

    def moments_of(self, position: int) -> Moments | None:
        """Return the time format of the partition column at a position; None if its folders aren't named by time."""
        by_time = self.kind == "TIMESTAMP" or (self.kind == "CUSTOM" and self.partition_types[position] == "TIMESTAMP")
        return self.moments if by_time else None

    def check(self) -> None:
        """Refuse a kind that pudi can't make keys by, and columns that don't go with the kind.

        Raises:
            NotSupportedError: another kind, or patterns and zones that pudi can't follow.
            InvalidArgumentError: a wrong number of columns, or settings of folders named by time are wrong.
        """
        if self.kind not in SUPPORTED:
            raise NotSupportedError(
                f"key generator {self.kind} is not supported for writes yet; {', '.join(SUPPORTED)} are"
            )
        if self.slash_dates:
            raise NotSupportedError("partitions of dates split by slashes are not supported for writes yet")
        keys, partitions = len(self.record_key_fields), len(self.partition_fields)
        if self.kind in {"SIMPLE", "TIMESTAMP"} and (keys > 1 or partitions != 1):
            raise InvalidArgumentError(
                f"the {self.kind} key generator takes one record key and one partition column, not {keys} and "
                f"{partitions}"
            )
        if self.kind == "NON_PARTITION" and partitions:
            raise InvalidArgumentError("the NON_PARTITION key generator takes no partition columns")
        if self.kind == "CUSTOM" and (
            len(self.partition_types) != partitions or not set(self.partition_types) <= {"SIMPLE", "TIMESTAMP"}
        ):
            raise InvalidArgumentError(
                "the CUSTOM key generator takes partition columns as column:SIMPLE or column:TIMESTAMP"
            )
        if self.kind == "TIMESTAMP" or "TIMESTAMP" in self.partition_types:
            if self.moments is None:
                raise InvalidArgumentError(
                    f"folders named by time need {TimebasedOptions.kind} and {TimebasedOptions.output_format}"
                )
            self.moments.check()

    @property
    def plain_fields(self) -> tuple[str, ...]:
        """Return the partition columns whose values name folders, not their time in a format."""
        return tuple(name for n, name in enumerate(self.partition_fields) if self.moments_of(n) is None)

    def check_timestamps(self, name: str) -> None:
        """Refuse timestamps whose text no folder can have.

        Raises:
            InvalidArgumentError: their text has colons, and paths aren't encoded.
        """
        if self.timestamps is TimestampText.FRACTIONS and not self.url_encode:
            raise InvalidArgumentError(
                f"{TableConfig.logical_timestamps}=true writes timestamps with colons into paths, here those of "
                f"{name!r}: make the table with {TableConfig.url_encode}=true"
            )

    def record_keys(self, table: pa.Table, place: tuple[int, int] = (0, 0)) -> pa.ChunkedArray:
        """The record key of each row, a string without nulls.

        One column's value as it is (see `key_text`); of several columns, and always of the COMPLEX
        kind as table version 9 has it, `a:1,b:x`, where null is `__null__` and empty `__empty__`.
        Hudi's bulk_insert refuses an unpartitioned row with a null among several columns where its
        upsert writes `__null__`; this does as upsert. A generated key is `_task_row`; once the instant of the write
        is known it goes before that (`with_instant`).
        Source: KeyGenUtils.getRecordKey, KeyGenerator.constructRecordKey; tried with Hudi 1.2.0.

        Args:
            table: rows with at least the key columns, in pudi's types.
            place: for generated keys, the number of the task and of the first row.

        Raises:
            InvalidArgumentError: a key is null or empty in all its columns, or lies in a struct that is null; says in
                how many rows.
            NotSupportedError: see `check` and `key_text`.
            SchemaError: a key column is missing.
        """
        self.check()
        if self.generates:
            rows = pa.array(np.arange(place[1], place[1] + len(table)))
            return pa.chunked_array([pc.binary_join_element_wise(f"_{place[0]}_", pc.cast(rows, pa.string()), "")])
        for name in self.record_key_fields:
            missing = lies_in_null(table, name)
            if missing:
                raise InvalidArgumentError(
                    f"record key column {name!r} lies in a struct that is null in {missing} rows"
                )
        texts = [key_text(column_of(table, name), name, partition=False) for name in self.record_key_fields]
        blank = [pc.equal(pc.fill_null(text, ""), "") for text in texts]
        lost = blank[0]
        for other in blank[1:]:
            lost = pc.and_(lost, other)
        count = pc.sum(lost).as_py() or 0
        if count:
            names = ", ".join(self.record_key_fields)
            raise InvalidArgumentError(f"the record key ({names}) is null or empty in {count} of {len(table)} rows")
        if not self.names_keys:
            self._check_spelling(texts[0])
            return texts[0]
        parts = []
        for name, text in zip(self.record_key_fields, texts, strict=True):
            filled = pc.fill_null(pc.if_else(pc.equal(text, ""), EMPTY_KEY, text), NULL_KEY)
            parts.append(pc.binary_join_element_wise(f"{name}:", filled, ""))
        return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, ",")

    def spelled(self, keys: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """Record keys of log files, as `record_keys` spells them.

        Args:
            keys: record keys, each with the name of its column or without, if `either_spelling`.
        """
        if not self.either_spelling:
            return keys
        name = f"{self.record_key_fields[0]}:"
        named = pc.starts_with(keys, name)
        if self.names_keys:
            return pc.if_else(named, keys, pc.binary_join_element_wise(name, keys, ""))
        return pc.if_else(named, pc.utf8_slice_codeunits(keys, len(name)), keys)

    def _check_spelling(self, texts: pa.ChunkedArray) -> None:
        """Refuse values that look like a named key.

        Raises:
            NotSupportedError: a value begins with the column's name and a colon.
        """
        name = f"{self.record_key_fields[0]}:"
        if self.either_spelling and pc.any(pc.starts_with(texts, name)).as_py():
            raise NotSupportedError(
                f"record keys that begin with {name!r}, in a table without meta fields below version 9: deletes in log "
                "files spell keys with the column's name or without it, and could mean another record"
            )

    def partition_paths(self, table: pa.Table) -> pa.DictionaryArray:
        """The partition path of each row, as a dictionary of the distinct paths, all of them in use.

        Values are joined by slashes, each `column=value` in the Hive style; null and empty become
        `__HIVE_DEFAULT_PARTITION__`. A slash in a value makes a folder, as in Hudi. Without
        partition columns the path is empty.
        Source: KeyGenUtils.getRecordPartitionPath; tried with Hudi 1.2.0.

        Args:
            table: rows with at least the partition columns, in pudi's types.

        Returns:
            Dictionary array of int32 to string, as long as the table.

        Raises:
            InvalidArgumentError: a value can't be a folder below the table's root; names it.
            NotSupportedError: see `check` and `key_text`.
            SchemaError: a partition column is missing.
        """
        self.check()
        if not self.partition_fields:
            return constant_text("", len(table))
        codes, distinct = _combinations([self._values(table, n) for n in range(len(self.partition_fields))])
        parts = [self._folder(position, values) for position, values in enumerate(distinct)]
        paths = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "/")
        check_paths(paths)
        # Different values may share a path: null and empty do.
        encoded = paths.dictionary_encode()
        return pa.DictionaryArray.from_arrays(encoded.indices.take(codes), encoded.dictionary)

    def _values(self, table: pa.Table, position: int) -> pa.ChunkedArray:
        """Return the values of one partition column that its folders distinguish."""
        name, moments = self.partition_fields[position], self.moments_of(position)
        column = column_of(table, name)
        return column if moments is None else pa.chunked_array([moments.local(column, name)])

    def _folder(self, position: int, values: pa.Array) -> pa.Array:
        name, moments = self.partition_fields[position], self.moments_of(position)
        encoded = False
        if moments is not None:
            text = moments.texts(values)
        else:
            text = pc.fill_null(partition_text(values, name, self.timestamps), "")
            text = pc.if_else(pc.equal(text, ""), DEFAULT_PARTITION, text)
            encoded = pa.types.is_timestamp(values.type) and self.timestamps.is_encoded
        if self.url_encode and not encoded:
            text = escape(text)
        check_values(text, name)
        return pc.binary_join_element_wise(f"{name}=", text, "") if self.hive_style else text


def null_texts(keys: KeyGenerator, schema: pa.Schema) -> list[str]:
    """Return the partition columns of text whose empty values are to be stored as null.

    They share the folder of null, of which Hudi reads null. A column that can't be null keeps them, and one of the
    record key, since they stand in keys.
    """
    plain = set(keys.plain_fields) - set(keys.record_key_fields)
    return [field.name for field in schema if field.name in plain and field.type == pa.string() and field.nullable]


def without_empty_texts(rows: pa.Table, keys: KeyGenerator, schema: pa.Schema) -> pa.Table:
    """Return rows with null in place of the texts that Hudi reads back as null; see `null_texts`.

    Args:
        rows: rows with the columns of the schema.
        keys: the table's key generator.
        schema: the table's columns.
    """
    for name in null_texts(keys, schema):
        position = rows.column_names.index(name)
        empty = pc.is_in(rows.column(position), value_set=pa.array(EMPTY_TEXTS))
        if pc.any(empty).as_py():
            texts = pc.if_else(empty, pa.scalar(None, pa.string()), rows.column(position))
            rows = rows.set_column(position, rows.field(position), texts)
    return rows


def with_instant(instant: str, keys: pa.ChunkedArray | pa.Array) -> pa.ChunkedArray | pa.Array:
    """Generated keys as they are stored: `instant_task_row` (HoodieRecord.generateSequenceId).

    Keys that are stored already stay: they begin with an instant.
    """
    return pc.if_else(pc.starts_with(keys, "_"), pc.binary_join_element_wise(instant, keys, ""), keys)


def check_key_types(keys: KeyGenerator, schema: pa.Schema, *, table: str | None = None) -> None:
    """Refuse a table whose keys pudi can't generate: unsupported generator, columns or types.

    Args:
        keys: the table's key generator.
        schema: the table schema, in pudi's types.
        table: location of the table, for messages.

    Raises:
        NotSupportedError: the kind, or a column's type; says what to use instead.
        InvalidArgumentError: the columns don't go with the kind.
        SchemaError: a column is not in the schema.
    """
    try:
        keys.check()
        for name in keys.record_key_fields:
            _check_type(name, field_of(schema, name).type, None, partition=False)
        for position, name in enumerate(keys.partition_fields):
            kind = field_of(schema, name).type
            _check_type(name, kind, keys.moments_of(position), partition=True)
            if pa.types.is_timestamp(kind) and name in keys.plain_fields:
                keys.check_timestamps(name)
    except (NotSupportedError, InvalidArgumentError) as error:
        raise type(error)(error.message, table=table) from error


def partition_values(path: str, keys: KeyGenerator, schema: pa.Schema) -> dict[str, object] | None:
    """Return the values of the partition columns in a partition. Columns without a certain value are left out.

    Args:
        path: partition path, relative to the table's root.
        keys: the table's key generator.
        schema: the table schema, in pudi's types.

    Returns:
        Values of those partition columns that the path tells for sure, as Python values (str, int,
        bool, date, Decimal); None when the path's parts can't be separated or the kind is not supported.
    """
    parts = _segments(pa.array([path], pa.string()), keys)
    if parts is None or any(part.null_count for part in parts.values()):
        return None
    columns = _typed(parts, keys, schema)
    return {name: column[0].as_py() for name, column in columns.items() if column.null_count == 0}


def partition_texts(path: str, keys: KeyGenerator) -> dict[str, str | None] | None:
    """Return the text of each partition column in a partition, None for null, as Hudi's HoodieFileIndex reads it.

    Args:
        path: partition path, relative to the table's root.
        keys: the table's key generator.

    Returns:
        All columns, in their order; None when the path's parts can't be separated, or name times instead of values.
    """
    parts = _segments(pa.array([path], pa.string()), keys)
    if parts is None or any(_is_by_time(keys, position) for position in range(len(parts))):
        return None
    texts = column_texts(list(parts.values()), url_encode=keys.url_encode)
    return None if texts is None else dict(zip(parts, texts, strict=True))


def partition_bounds(paths: pa.Array, keys: KeyGenerator, schema: pa.Schema) -> dict[str, tuple[pa.Array, pa.Array]]:
    """Return the least and the greatest value of the partition columns in partitions, for pruning.

    The answer rests on the path as key generators make it, so it says nothing of a table whose
    global index leaves moved records where they were: there, as in Hudi's own pruning, a row's
    column may differ from its folder.

    Args:
        paths: partition paths, relative to the table's root.
        keys: the table's key generator.
        schema: the table schema, in pudi's types.

    Returns:
        By partition column two arrays of one value per path, in the column's type. They are NULL when the path doesn't
        tell them: the value is null, empty or NaN, of a type whose text is ambiguous, a timestamp that the path shows
        in part, or the path's parts can't be separated. A column that no path states is left out.
    """
    parts = _segments(paths, keys)
    if parts is None:
        return {}
    found = {name: (values, values) for name, values in _typed(parts, keys, schema).items()}
    for name, (values, _) in found.items():
        if pa.types.is_timestamp(values.type):
            found[name] = bounds_of_texts(parts[name])
        elif pa.types.is_floating(values.type):
            numbers = pc.if_else(pc.is_nan(values), pa.scalar(None, values.type), values)
            found[name] = (numbers, numbers)
    return found


def check_folder_names(
    paths: Callable[[], Sequence[str]], keys: KeyGenerator, schema: pa.Schema, *, table: str
) -> None:
    """Refuse to write into a table whose folders another writer has named in another way than `partition_paths` does.

    Only numbers with fractions and timestamps have several texts. A record would come into a second partition there.

    Args:
        paths: lists the table's partition paths.
        keys: the table's key generator.
        schema: the table schema, in pudi's types.
        table: location of the table, for messages.

    Raises:
        NotSupportedError: names the folder, and who names folders so.
    """
    kinds = {name: field_of(schema, name).type for name in keys.plain_fields}
    kinds = {name: kind for name, kind in kinds.items() if pa.types.is_floating(kind) or pa.types.is_timestamp(kind)}
    parts = (_segments(pa.array(paths(), pa.string()), keys) or {}) if kinds else {}
    for name, kind in kinds.items():
        texts = parts.get(name, pa.array([], pa.string())).unique()
        if pa.types.is_timestamp(kind):
            others, why = folders_of_another_form(texts, keys.timestamps)
        else:
            own = partition_text(numbers_of_texts(texts, kind), name, keys.timestamps)
            others, why = texts.filter(pc.not_equal(texts, own)), "a job on Java 19 or later named it"
        if len(others):
            raise NotSupportedError(
                f"column {name!r} has a folder {others[0].as_py()!r}: {why}; a new record of the same value would come "
                "into another folder",
                table=table,
            )


def _segments(paths: pa.Array, keys: KeyGenerator) -> dict[str, pa.Array] | None:
    """The text of each partition column, NULL where a path can't be split; None where none can."""
    if keys.kind not in SUPPORTED or keys.slash_dates:
        return None
    if not keys.partition_fields:
        return {} if pc.all(pc.equal(paths, "")).as_py() else None
    depths = _depths(keys)
    if depths is None:
        return None
    parts = segments(paths, keys.partition_fields, depths, hive_style=keys.hive_style)
    return dict(zip(keys.partition_fields, parts, strict=True))


def _typed(parts: Mapping[str, pa.Array], keys: KeyGenerator, schema: pa.Schema) -> dict[str, pa.Array]:
    columns = {}
    for position, (name, texts) in enumerate(parts.items()):
        index = schema.get_field_index(name)
        if index >= 0 and not _is_by_time(keys, position):
            columns[name] = typed_values(texts, schema.field(index).type, url_encode=keys.url_encode)
    return columns


def _check_type(name: str, kind: pa.DataType, moments: Moments | None, *, partition: bool) -> None:
    why = refusal(kind, partition=partition) if moments is None else moments.refusal(kind)
    if why is not None:
        raise type_error(name, kind, why, partition=partition)


def _is_by_time(keys: KeyGenerator, position: int) -> bool:
    return keys.kind == "TIMESTAMP" or (keys.kind == "CUSTOM" and keys.partition_types[position] != "SIMPLE")


def _depths(keys: KeyGenerator) -> tuple[int, ...] | None:
    """Return how many folders each partition column adds to a path; None if that varies."""
    if keys.kind == "CUSTOM" and len(keys.partition_types) != len(keys.partition_fields):
        return None
    if keys.url_encode:
        return (1,) * len(keys.partition_fields)
    try:
        by_time = 0 if keys.moments is None else keys.moments.folders
    except PudiError:  # a pattern that is none
        by_time = 0
    depths = tuple(by_time if _is_by_time(keys, n) else 1 for n in range(len(keys.partition_fields)))
    return depths if all(depths) else None


def _combinations(columns: Sequence[pa.ChunkedArray]) -> tuple[pa.Array, list[pa.Array]]:
    """Return a number per row for its combination of values, and the distinct combinations, column by column."""
    first = one_array(columns[0].dictionary_encode(null_encoding="encode"))
    codes, distinct = first.indices, [first.dictionary]
    for column in columns[1:]:
        encoded = one_array(column.dictionary_encode(null_encoding="encode"))
        size = max(len(encoded.dictionary), 1)
        both = codes.to_numpy().astype(np.int64) * size + encoded.indices.to_numpy()
        pairs = pa.array(both).dictionary_encode()
        codes, seen = pairs.indices, pairs.dictionary.to_numpy()
        distinct = [values.take(pa.array(seen // size)) for values in distinct]
        distinct.append(encoded.dictionary.take(pa.array(seen % size)))
    return codes, distinct
