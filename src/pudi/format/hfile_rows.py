"""Records of a table in HFiles: log blocks and base files in, Arrow tables out, and back.

Each value is an Avro record. A field named `key` that repeats the entry's own key is stored empty and filled by
readers, as Hudi does for the key field of the metadata table's records.

Source: HFileUtils.serializeRecordsToLogBlock, HoodieAvroHFileReaderImplBase.deserialize.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.config import WriteOptions
from pudi.errors import CorruptError, InvalidArgumentError, NotSupportedError, naming
from pudi.format.avro_encode import encode_records
from pudi.format.avro_rows import read_records
from pudi.format.avro_values import BadAvro, Run, cut
from pudi.format.bloom import BloomFilter, BloomOptions
from pudi.format.hfile_blocks import Entries
from pudi.format.hfile_read import HFileReader
from pudi.format.hfile_write import HFileSettings, StoredBloom, encode_hfile
from pudi.schema import avro_to_arrow
from pudi.schema.arrays import decoded_column, one_array

KEY_FIELD = "key"
"""The field that isn't stored twice (HoodieAvroHFileReaderImplBase.KEY_FIELD_NAME)."""

_USUAL = HFileSettings()


def read_rows(reader: HFileReader, schema_json: str, columns: Collection[str] | None = None, *, path: str) -> pa.Table:
    """The records of an HFile, in the order of their keys.

    Args:
        reader: the file.
        schema_json: Avro schema of the values.
        columns: the top-level fields that are wanted; None for all.
        path: the file's name, for messages.

    Raises:
        CorruptError: the file is damaged, or holds something else.
    """
    parts = []
    try:
        for entries in reader.batches():
            values = Run(entries.records, entries.value, entries.value_end)
            with naming(path):
                parts.append(_with_keys(read_records(schema_json, values, columns), entries))
    except BadAvro as error:
        raise CorruptError(f"the records of an HFile can't be decoded: {error}", path=path) from error
    if parts:
        return pa.concat_tables(parts)
    with naming(path):
        schema = avro_to_arrow(schema_json)
    return pa.schema([f for f in schema if columns is None or f.name in columns]).empty_table()


def _with_keys(rows: pa.Table, entries: Entries) -> pa.Table:
    """The rows with their keys where these stand in the entries alone."""
    place = rows.schema.get_field_index(KEY_FIELD)
    if place < 0 or rows.schema.field(place).type != pa.string():
        return rows
    empty = pc.equal(rows.column(place), "")
    if not pc.any(empty).as_py():
        return rows
    keys = cut(entries.records, entries.key, entries.key_end, pa.string())
    filled = pc.if_else(pc.fill_null(empty, False), keys, rows[KEY_FIELD])
    return rows.set_column(place, rows.schema.field(place), filled)


def encode_rows(
    rows: pa.Table,
    schema_json: str,
    keys: pa.Array,
    *,
    bloom: BloomOptions | None = None,
    settings: HFileSettings = _USUAL,
) -> bytes:
    """An HFile of a table's records.

    Args:
        rows: columns in the types that `avro_to_arrow` makes of the schema, in any order of rows; dictionaries too.
        schema_json: Avro schema of the records.
        keys: record keys, each once.
        bloom: how the filter of the keys is made that base files have; log blocks have none.
        settings: as of `encode_hfile`.

    Raises:
        InvalidArgumentError: a key comes twice.
        NotSupportedError: a column is named `key`, and isn't the record key: readers would take its empty texts for it.
    """
    keys = one_array(keys)
    rows = without_dictionaries(rows)
    place = rows.schema.get_field_index(KEY_FIELD)
    if place >= 0:
        if not one_array(rows.column(place)).equals(keys):
            raise NotSupportedError(
                f"a column named {KEY_FIELD!r} that isn't the record key: in HFiles Hudi puts the key in its place"
            )
        blank = pa.array([""], pa.string()).take(pa.array(np.zeros(rows.num_rows, dtype=np.int64)))
        rows = rows.set_column(place, rows.schema.field(place), blank)
    values = encode_records(schema_json, rows)
    order = pc.sort_indices(keys.cast(pa.binary()))
    keys = keys.take(order)
    _check_unique(keys)
    kept = None if bloom is None else BloomFilter.build(keys, bloom)
    stored = None if kept is None else StoredBloom(kept.to_base64().encode(), kept.kind)
    return encode_hfile(keys, values.take(order), avro_schema=schema_json, bloom=stored, settings=settings)


def _check_unique(keys: pa.Array) -> None:
    """Refuse sorted keys with a duplicate (HoodieAvroHFileWriter.writeAvro)."""
    again = np.flatnonzero(np.asarray(pc.equal(keys.slice(0, max(0, len(keys) - 1)), keys.slice(1))))
    if len(again):
        raise InvalidArgumentError(
            f"record key {keys[int(again[0])].as_py()!r} comes twice in a file, and an HFile holds each key once: "
            f"upsert, or give the records with {WriteOptions.combine_before_insert}=true"
        )


def without_dictionaries(rows: pa.Table) -> pa.Table:
    """Return rows without dictionary columns, which Avro lacks."""
    for place, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            rows = rows.set_column(place, field.name, decoded_column(rows[field.name]))
    return rows
