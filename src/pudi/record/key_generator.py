"""Which record a row is and where it lives: a table of rows in, record keys and partition paths out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import InvalidArgumentError, NotSupportedError, SchemaError
from pudi.record.key_text import key_text, refusal, type_error
from pudi.record.partition_path import (
    DEFAULT_PARTITION,
    check_paths,
    check_values,
    escape,
    segments,
    typed_value,
)

NULL_KEY = "__null__"
EMPTY_KEY = "__empty__"
"""What stands for null and for the empty text in a key of several columns (KeyGenerator's placeholders)."""

SUPPORTED = ("SIMPLE", "COMPLEX", "NON_PARTITION")


@dataclass(frozen=True, slots=True)
class KeyGenerator:
    """How a table makes record keys and partition paths: Hudi's key generator as a picklable value.

    Any table's settings can be held, so that any table can be read; making keys is for the kinds in
    `SUPPORTED` only.

    Attributes:
        kind: Hudi's key generator type without `_AVRO`, for example `SIMPLE`.
        record_key_fields: columns of the record key, in order.
        partition_fields: columns of the partition path, in order; none for an unpartitioned table.
        hive_style: whether folders are named `column=value`.
        url_encode: whether special characters of values become %XX.
        slash_dates: whether `-` of a single partition column becomes a slash
            (`hoodie.datasource.write.slash.separated.date.partitioning`).
    """

    kind: str
    record_key_fields: tuple[str, ...]
    partition_fields: tuple[str, ...] = ()
    hive_style: bool = False
    url_encode: bool = False
    slash_dates: bool = False

    def check(self) -> None:
        """Refuse a kind that pudi can't make keys by, and columns that don't go with the kind.

        Raises:
            NotSupportedError: another kind, generated keys, or columns inside structs.
            InvalidArgumentError: a wrong number of columns.
        """
        if self.kind not in SUPPORTED:
            raise NotSupportedError(
                f"key generator {self.kind} is not supported for writes yet; {', '.join(SUPPORTED)} are"
            )
        if self.slash_dates:
            raise NotSupportedError("partitions of dates split by slashes are not supported for writes yet")
        if not self.record_key_fields:
            raise NotSupportedError("the table has no record key columns: generated keys are not supported yet")
        nested = [name for name in (*self.record_key_fields, *self.partition_fields) if "." in name]
        if nested:
            raise NotSupportedError(f"key column {nested[0]!r} is inside a struct, which is not supported yet")
        keys, partitions = len(self.record_key_fields), len(self.partition_fields)
        if self.kind == "SIMPLE" and (keys, partitions) != (1, 1):
            raise InvalidArgumentError(
                f"the SIMPLE key generator takes one record key and one partition column, not {keys} and {partitions}"
            )
        if self.kind == "NON_PARTITION" and partitions:
            raise InvalidArgumentError("the NON_PARTITION key generator takes no partition columns")

    def record_keys(self, table: pa.Table) -> pa.ChunkedArray:
        """The record key of each row, a string without nulls.

        One column's value as it is (see `key_text`); of several columns, and always of the COMPLEX
        kind as table version 9 has it, `a:1,b:x`, where null is `__null__` and empty `__empty__`.
        Hudi's bulk_insert refuses an unpartitioned row with a null among several columns where its
        upsert writes `__null__`; this does as upsert.
        Source: KeyGenUtils.getRecordKey, KeyGenerator.constructRecordKey; tried with Hudi 1.2.0.

        Args:
            table: rows with at least the key columns, in pudi's types.

        Raises:
            InvalidArgumentError: a key is null or empty in all its columns; says in how many rows.
            NotSupportedError: see `check` and `key_text`.
            SchemaError: a key column is missing.
        """
        self.check()
        texts = [self._text(table, name, partition=False) for name in self.record_key_fields]
        blank = [pc.equal(pc.fill_null(text, ""), "") for text in texts]
        lost = blank[0]
        for other in blank[1:]:
            lost = pc.and_(lost, other)
        count = pc.sum(lost).as_py() or 0
        if count:
            names = ", ".join(self.record_key_fields)
            raise InvalidArgumentError(f"the record key ({names}) is null or empty in {count} of {len(table)} rows")
        if len(texts) == 1 and self.kind != "COMPLEX":
            return texts[0]
        parts = []
        for name, text in zip(self.record_key_fields, texts, strict=True):
            filled = pc.fill_null(pc.if_else(pc.equal(text, ""), EMPTY_KEY, text), NULL_KEY)
            parts.append(pc.binary_join_element_wise(f"{name}:", filled, ""))
        return parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, ",")

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
            return pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(table), np.int32)), pa.array([""]))
        codes, distinct = _combinations([_column(table, name) for name in self.partition_fields])
        parts = [self._folder(name, values) for name, values in zip(self.partition_fields, distinct, strict=True)]
        paths = parts[0] if len(parts) == 1 else pc.binary_join_element_wise(*parts, "/")
        check_paths(paths)
        # Different values may share a path: null and empty do.
        encoded = paths.dictionary_encode()
        return pa.DictionaryArray.from_arrays(encoded.indices.take(codes), encoded.dictionary)

    def _folder(self, name: str, values: pa.Array) -> pa.Array:
        text = pc.fill_null(key_text(values, name, partition=True), "")
        text = pc.if_else(pc.equal(text, ""), DEFAULT_PARTITION, text)
        if self.url_encode:
            text = escape(text)
        check_values(text, name)
        return pc.binary_join_element_wise(f"{name}=", text, "") if self.hive_style else text

    def _text(self, table: pa.Table, name: str, *, partition: bool) -> pa.ChunkedArray:
        return key_text(_column(table, name), name, partition=partition)


def check_key_types(keys: KeyGenerator, schema: pa.Schema, *, table: str | None = None) -> None:
    """Refuse a table whose keys pudi couldn't make: the kind, the columns, or their types.

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
        for names, partition in ((keys.record_key_fields, False), (keys.partition_fields, True)):
            for name in names:
                kind = _field(schema, name).type
                why = refusal(kind, partition=partition)
                if why is not None:
                    raise type_error(name, kind, why, partition=partition)
    except (NotSupportedError, InvalidArgumentError) as error:
        raise type(error)(error.message, table=table) from error


def partition_values(path: str, keys: KeyGenerator, schema: pa.Schema) -> dict[str, object] | None:
    """What the rows of a partition have in its partition columns, for pruning; never a guess.

    The answer rests on the path as key generators make it, so it says nothing of a table whose
    global index leaves moved records where they were: there, as in Hudi's own pruning, a row's
    column may differ from its folder.

    Args:
        path: partition path, relative to the table's root.
        keys: the table's key generator.
        schema: the table schema, in pudi's types.

    Returns:
        Values of those partition columns that the path tells for sure, as Python values (str, int,
        bool, date, Decimal). A column is left out when it is null or empty, or of a type whose text
        is ambiguous; None when the path's parts can't be told apart or the kind is not supported.
    """
    if keys.kind not in SUPPORTED or keys.slash_dates:
        return None
    if not keys.partition_fields:
        return {} if path == "" else None
    parts = segments(path, keys.partition_fields, hive_style=keys.hive_style)
    if parts is None:
        return None
    values: dict[str, object] = {}
    for name, text in zip(keys.partition_fields, parts, strict=True):
        index = schema.get_field_index(name)
        value = None if index < 0 else typed_value(text, schema.field(index).type, url_encode=keys.url_encode)
        if value is not None:
            values[name] = value
    return values


def _field(schema: pa.Schema, name: str) -> pa.Field:
    index = schema.get_field_index(name)
    if index < 0:
        raise SchemaError(f"key column {name!r} is not among the columns {', '.join(schema.names)}")
    return schema.field(index)


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    _field(table.schema, name)
    return table.column(name)


def _combinations(columns: Sequence[pa.ChunkedArray]) -> tuple[pa.Array, list[pa.Array]]:
    """For each row the number of its combination of values, and the distinct combinations, column by column."""
    first = columns[0].dictionary_encode(null_encoding="encode").combine_chunks()
    codes, distinct = first.indices, [first.dictionary]
    for column in columns[1:]:
        encoded = column.dictionary_encode(null_encoding="encode").combine_chunks()
        size = max(len(encoded.dictionary), 1)
        both = codes.to_numpy().astype(np.int64) * size + encoded.indices.to_numpy()
        pairs = pa.array(both).dictionary_encode()
        codes, seen = pairs.indices, pairs.dictionary.to_numpy()
        distinct = [values.take(pa.array(seen // size)) for values in distinct]
        distinct.append(encoded.dictionary.take(pa.array(seen % size)))
    return codes, distinct
