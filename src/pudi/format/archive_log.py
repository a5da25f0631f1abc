"""Archive files of layout 1: a log of Avro blocks in, an entry for each state of an instant out (FORMAT 3.1)."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import fastavro

from pudi.errors import CorruptError
from pudi.format.avro_file import BAD_BYTES, BAD_SCHEMA, parse_record_schema
from pudi.format.avro_schemas import NAMESPACE
from pudi.format.instant_time import is_instant_time
from pudi.format.instants import CommitMetadata, commit_metadata_of
from pudi.format.names import Action, State

_MAGIC = b"#HUDI#"
_AVRO_BLOCK = 3
_SCHEMA_HEADER = 2
_ENTRY = f"{NAMESPACE}.HoodieArchivedMetaEntry"
_LENGTHS = 8

_STATES = {state.name: state for state in State}


@dataclass(frozen=True, slots=True)
class ArchivedEntry:
    """One state of an archived instant (HoodieArchivedMetaEntry).

    Attributes:
        requested: requested time of the instant.
        action: what it did.
        state: the state that the entry tells of.
        transition: when it came to that state, in local time; None in archives of old.
        record: the whole entry, by Avro's names.
    """

    requested: str
    action: Action
    state: State
    transition: str | None
    record: Mapping[str, Any] = field(repr=False, hash=False)

    @property
    def commit_metadata(self) -> CommitMetadata:
        """What the write did; empty where the entry is none of a completed write.

        Raises:
            CorruptError: the entry's schema isn't that of commit metadata.
        """
        record = self.record.get("hoodieReplaceCommitMetadata") or self.record.get("hoodieCommitMetadata")
        try:
            return CommitMetadata() if record is None else commit_metadata_of(record)
        except (TypeError, AttributeError, ValueError) as error:
            raise CorruptError(
                f"archived timeline: the metadata of a {self.action.value} is damaged: {error}", instant=self.requested
            ) from error

    @property
    def clean_metadata(self) -> Mapping[str, Any]:
        """What a completed clean did, by Avro's names; empty for any other action."""
        return self.record.get("hoodieCleanMetadata") or {}


def decode_archive_log(data: bytes, *, path: str | None = None) -> Iterator[ArchivedEntry]:
    """The entries of an archive file, in their order; those of unknown actions are passed over.

    Args:
        data: the whole file.
        path: path of the file, for errors.

    Raises:
        CorruptError: a block is cut off or damaged, or is none of Avro records.
    """
    at = 0
    while at < len(data):
        reader = _Block(data, at, path)
        yield from reader.entries()
        at = reader.end


class _Block:
    """One block of a log file (HoodieLogFormatWriter): magic, length, version, type, headers, content, footers."""

    def __init__(self, data: bytes, start: int, path: str | None) -> None:
        self._path = path
        self._data = data
        self._at = start
        if self._take(len(_MAGIC)) != _MAGIC:
            raise self._corrupt("a block does not begin as one")
        length = self._number(_LENGTHS)
        self.end = self._at + length
        if self.end > len(data):
            raise self._corrupt(f"a block of {length} bytes ends after the file")
        version, self._kind = self._number(4), self._number(4)
        if version != 1:
            raise self._corrupt(f"blocks of format version {version} are not known")
        self._headers = {self._number(4): self._take(self._number(4)) for _ in range(self._count(self._number(4)))}
        self._content = self._take(self._number(_LENGTHS))

    def entries(self) -> Iterator[ArchivedEntry]:
        if self._kind != _AVRO_BLOCK:
            raise self._corrupt(f"a block of type {self._kind} where archives hold Avro records")
        try:
            schema = parse_record_schema(self._headers.get(_SCHEMA_HEADER, b""))
        except BAD_SCHEMA as error:
            raise self._corrupt(f"the schema of a block can't be used: {error!r}") from error
        if schema["name"] != _ENTRY:
            raise self._corrupt(f"a block holds records of {schema['name']}")
        self._data, self._at = self._content, 4  # after the version of the content's own layout
        for _ in range(self._count(self._number(4))):
            row = io.BytesIO(self._take(self._number(4)))
            try:
                record = fastavro.schemaless_reader(row, schema, None)
            except BAD_BYTES as error:
                raise self._corrupt(f"an entry is cut off or damaged: {error!r}") from error
            entry = self._entry(record)
            if entry is not None:
                yield entry

    @staticmethod
    def _entry(record: Any) -> ArchivedEntry | None:
        action = next((each for each in Action if each.value == record.get("actionType")), None)
        state = _STATES.get(record.get("actionState") or State.COMPLETED.name)
        requested = record.get("commitTime")
        if action is None or state is None or not isinstance(requested, str) or not is_instant_time(requested):
            return None
        return ArchivedEntry(requested, action.comparable, state, record.get("stateTransitionTime"), record)

    def _number(self, size: int) -> int:
        return int.from_bytes(self._take(size), "big", signed=True)

    def _count(self, number: int) -> int:
        if not 0 <= number <= len(self._data):
            raise self._corrupt(f"{number} parts are not credible")
        return number

    def _take(self, size: int) -> bytes:
        if not 0 <= size <= len(self._data) - self._at:
            raise self._corrupt(f"{size} bytes are not there")
        self._at += size
        return self._data[self._at - size : self._at]

    def _corrupt(self, what: str) -> CorruptError:
        return CorruptError(f"archived timeline: {what}", path=self._path, offset=self._at)
