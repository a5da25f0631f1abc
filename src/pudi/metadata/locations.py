"""Rows of the record index: encode and decode the location of a key.

All keys that one commit adds to a file group have the same value, so values are encoded and decoded once per file
group, not once per key.

Source: HoodieMetadataPayload.createRecordIndexUpdate, HoodieTableMetadataUtil
.getLocationFromRecordIndexInfo.
"""

from __future__ import annotations

import re
from functools import cache
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pudi.errors import CorruptError, naming
from pudi.format.avro_file import RecordSchema, encode_avro
from pudi.format.avro_rows import read_records
from pudi.format.avro_values import BadAvro, Records
from pudi.format.metadata_partitions import RECORD_INDEX
from pudi.metadata.records import RECORD_AVRO, RECORD_SCHEMA, RecordType

_UUID, _TEXT = 0, 1
"""The encodings of a file id: the halves of a UUID and a number, or the text itself."""

_NO_INDEX = -1
"""The number for a file id that is only a UUID (RECORD_INDEX_MISSING_FILEINDEX_FALLBACK)."""

_SHAPE = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?:-(0|[1-9][0-9]{0,8}))?")
_COLUMN = "recordIndexMetadata"


@cache
def _record() -> RecordSchema:
    return RecordSchema.own(RECORD_AVRO)


def encode_location(partition: str, file_id: str, millis: int) -> bytes:
    """Encode the value of all keys in a file group as Avro, with an empty key.

    Args:
        partition: partition path, empty for none.
        file_id: the file group.
        millis: time of the instant that added them.
    """
    # a hundred times as fast as `encode_records` for a single value; a table has many file groups
    row = {"key": "", "type": int(RecordType.RECORD_INDEX), _COLUMN: _info(partition, file_id, millis)}
    return encode_avro(_record(), dict.fromkeys(RECORD_SCHEMA.names) | row)


def _info(partition: str, file_id: str, millis: int) -> dict[str, object]:
    shape = _SHAPE.fullmatch(file_id)
    info: dict[str, object] = {"partitionName": partition, "instantTime": millis, "position": None}
    if shape is None:  # it would not decode to the same text
        return {
            **info,
            "fileIdHighBits": -1,
            "fileIdLowBits": -1,
            "fileIndex": _NO_INDEX,
            "fileId": file_id,
            "fileIdEncoding": _TEXT,
        }
    high, low = np.frombuffer(UUID(file_id[:36]).bytes, ">i8").tolist()
    return {
        **info,
        "fileIdHighBits": high,
        "fileIdLowBits": low,
        "fileIndex": _NO_INDEX if shape[1] is None else int(shape[1]),
        "fileId": "",
        "fileIdEncoding": _UUID,
    }


def decode_locations(values: pa.Array, schema_json: str, *, path: str) -> tuple[pa.Array, pa.Array]:
    """Decode partition paths and file ids from values of the record index.

    Args:
        values: binary, as `encode_location` makes them.
        schema_json: Avro schema of the values.
        path: the file of the values, for messages.

    Returns:
        Two dictionary-encoded string arrays of the length of `values`.

    Raises:
        CorruptError: a value is not a row of the record index.
    """
    coded = pc.dictionary_encode(values)
    known = coded.dictionary.cast(pa.binary())
    offsets = np.frombuffer(known.buffers()[1], np.int32)[known.offset : known.offset + len(known) + 1].astype(np.int64)
    data = known.buffers()[2] if len(known) else None
    try:
        records = Records.of(b"" if data is None else memoryview(data)[: int(offsets[-1])])
        with naming(path):
            rows = read_records(schema_json, records, offsets[:-1], offsets[1:], {_COLUMN}, unions=True)
    except BadAvro as error:
        raise CorruptError(f"a row of the record index can't be decoded: {error}", path=path) from error
    infos = rows[_COLUMN].to_pylist()  # file groups, not records
    places = [_place(info, path) for info in infos]
    partitions, files = (pa.array([place[n] for place in places], pa.string()) for n in (0, 1))
    return (
        pa.DictionaryArray.from_arrays(coded.indices, partitions),
        pa.DictionaryArray.from_arrays(coded.indices, files),
    )


def _place(info: dict[str, object] | None, path: str) -> tuple[str, str]:
    """Return partition path and file id of a row."""
    if info is None or info["partitionName"] is None:
        raise CorruptError(f"partition {RECORD_INDEX} of the metadata table has a record without location", path=path)
    partition = str(info["partitionName"])
    if info["fileIdEncoding"] != _UUID:
        return partition, str(info["fileId"] or "")
    halves, number = (info["fileIdHighBits"], info["fileIdLowBits"]), info["fileIndex"]
    if not all(isinstance(half, int) for half in halves):
        raise CorruptError("a row of the record index has no file id", path=path)
    file_id = str(UUID(bytes=np.array(halves, dtype=">i8").tobytes()))
    return partition, file_id if number in {None, _NO_INDEX} else f"{file_id}-{number}"
