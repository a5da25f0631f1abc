"""Java properties: the bytes of a table's configuration or a partition's metadata in, text by key out, and back."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import lru_cache
from typing import TYPE_CHECKING

from pudi.config import OtherTableOptions, TableConfig
from pudi.context.runtime import lazy_module
from pudi.errors import CorruptError, InvalidArgumentError
from pudi.format.layout import MaxBytes

if TYPE_CHECKING:
    import javaproperties
else:
    javaproperties = lazy_module("javaproperties")

_NAME, _DATABASE = TableConfig.table_name.key, TableConfig.database.key
_CHECKSUM = OtherTableOptions.checksum.key

_USUAL_BYTES = 64 << 10
# Hudi writes none at all; each costs a copy of its line when read.
_MAX_CONTINUATIONS = 1000
_CONTINUATION = re.compile(rb"\\\r?\n")


def encode_properties(properties: Mapping[str, str], comment: str, millis: int) -> bytes:
    """Text of a properties file as `java.util.Properties.store` writes it, keys in order.

    Args:
        properties: text by key.
        comment: first comment line, without the `#`.
        millis: moment for the second comment line, milliseconds since the epoch.
    """
    date = datetime.fromtimestamp(millis / 1000, timezone.utc)
    text: str = javaproperties.dumps(properties, comments=comment, timestamp=date, sort_keys=True)
    return text.encode("latin-1")


def decode_properties(data: bytes, *, path: str | None = None) -> dict[str, str]:
    """Decode a properties file.

    Args:
        data: content of the file.
        path: path of the file, for errors.

    Raises:
        CorruptError: a bad escape, a line without an end (the file was cut off), or an absurd size.
    """
    if len(data) > MaxBytes.PROPERTIES:
        reason = f"properties of {len(data)} bytes: more than {int(MaxBytes.PROPERTIES)} are implausible"
        raise CorruptError(reason, path=path)
    if data and not data.endswith((b"\n", b"\r")):
        raise CorruptError(
            "properties end in the middle of a line, so the file was cut off; if it is complete, add the line's end",
            path=path,
            offset=len(data),
        )
    if sum(1 for _ in _CONTINUATION.finditer(data)) > _MAX_CONTINUATIONS:
        raise CorruptError(f"properties with more than {_MAX_CONTINUATIONS} continued lines", path=path)
    try:
        return dict(_loaded(data) if len(data) <= _USUAL_BYTES else javaproperties.loads(data))
    except javaproperties.InvalidUEscapeError as error:
        raise CorruptError(f"properties hold a bad escape: {error}", path=path) from error


@lru_cache(maxsize=32)  # a write reads the table's properties twice
def _loaded(data: bytes) -> Mapping[str, str]:
    return dict(javaproperties.loads(data))


def encode_table_properties(properties: Mapping[str, str], millis: int) -> bytes:
    """Content of a table's properties file, with its checksum (HoodieTableConfig.storeProperties).

    Args:
        properties: text by key, `hoodie.table.name` among them; a checksum among them is replaced.
        millis: moment of writing, milliseconds since the epoch.

    Raises:
        InvalidArgumentError: the table's name is missing.
    """
    name = properties.get(_NAME)
    if not name:
        raise InvalidArgumentError(f"a table's properties need {_NAME}")
    checksum = table_checksum(name, properties.get(_DATABASE, ""))
    moment = datetime.fromtimestamp(millis / 1000, timezone.utc).isoformat(timespec="milliseconds")
    comment = f"Updated at {moment.removesuffix('+00:00')}Z"
    return encode_properties({**properties, _CHECKSUM: str(checksum)}, comment, millis)


def decode_table_properties(data: bytes, *, path: str | None = None) -> dict[str, str]:
    """Decode a table's properties file and verify its checksum.

    Args:
        data: content of the file.
        path: path of the file, for errors.

    Raises:
        CorruptError: the properties are invalid or don't belong to a table; read the backup, as HoodieTableConfig does.
    """
    properties = decode_properties(data, path=path)
    verify_table_checksum(properties, path=path)
    return properties


def table_checksum(table_name: str, database_name: str = "") -> int:
    """CRC-32 of `<database>.<table>` in UTF-8 (HoodieTableConfig.generateChecksum)."""
    return zlib.crc32(f"{database_name}.{table_name}".encode())


def verify_table_checksum(properties: Mapping[str, str], *, path: str | None = None) -> None:
    """Hold a table's properties against their checksum; where they have none, a name is enough, as in Hudi.

    Args:
        properties: text by key.
        path: path of the file, for errors.

    Raises:
        CorruptError: the name is missing, or the checksum is another one's.
    """
    name = properties.get(_NAME)
    if not name:
        raise CorruptError(
            f"the table's properties have no {_NAME}: restore the file from its backup, or add the property", path=path
        )
    expected = str(table_checksum(name, properties.get(_DATABASE, "")))
    found = properties.get(_CHECKSUM, expected)
    if found.strip() != expected:
        raise CorruptError(
            f"{_CHECKSUM} is {found!r}, but that of table {name!r} is {expected}: restore the file, "
            "or correct the value if the names are right",
            path=path,
        )


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """Content of the file that marks a folder as a partition (HoodiePartitionMetadata).

    Attributes:
        commit_time: instant that made the partition.
        partition_depth: how many folders below the table's root; 0 when the table is not partitioned.
    """

    commit_time: str
    partition_depth: int


_COMMIT_TIME_KEY = "commitTime"
_PARTITION_DEPTH_KEY = "partitionDepth"


def encode_partition_metadata(metadata: PartitionMetadata, millis: int) -> bytes:
    """Content of a partition's metadata file, as written at `millis`, milliseconds since the epoch."""
    properties = {_COMMIT_TIME_KEY: metadata.commit_time, _PARTITION_DEPTH_KEY: str(metadata.partition_depth)}
    return encode_properties(properties, "partition metadata", millis)


def decode_partition_metadata(data: bytes, *, path: str | None = None) -> PartitionMetadata:
    """Decode a partition's metadata file.

    Args:
        data: content of the file.
        path: path of the file, for errors.

    Raises:
        CorruptError: it lacks one of its two keys, or the depth is no number.
    """
    properties = decode_properties(data, path=path)
    commit_time, depth = properties.get(_COMMIT_TIME_KEY), properties.get(_PARTITION_DEPTH_KEY, "")
    if commit_time is None or re.fullmatch(r"[0-9]{1,4}", depth) is None:
        raise CorruptError(
            f"partition metadata needs {_COMMIT_TIME_KEY} and a number as {_PARTITION_DEPTH_KEY}, found {properties}",
            path=path,
        )
    return PartitionMetadata(commit_time, int(depth))
