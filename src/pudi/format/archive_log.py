"""Archive files of layout 1: a log of Avro blocks in, an entry for each state of an instant out.

Source: HoodieArchivedMetaEntry.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pudi.context.lazy import lazy_module
from pudi.errors import CorruptError, cause_text
from pudi.format.avro_file import bad_bytes, bad_schema, parse_record_schema
from pudi.format.avro_schemas import NAMESPACE
from pudi.format.instant_time import is_instant_time
from pudi.format.instants import CommitMetadata, commit_metadata_of
from pudi.format.log_block import BlockKind, LogBlock, decode_blocks
from pudi.format.log_data import block_schema, record_spans
from pudi.format.names import Action, State

if TYPE_CHECKING:
    import fastavro
else:
    fastavro = lazy_module("fastavro")

_ENTRY = f"{NAMESPACE}.HoodieArchivedMetaEntry"

_CONTENTS = {
    Action.CLEAN: "hoodieCleanMetadata",
    Action.ROLLBACK: "hoodieRollbackMetadata",
    Action.SAVEPOINT: "hoodieSavePointMetadata",
    Action.INDEXING: "hoodieIndexCommitMetadata",
}

_STATES = {state.name: state for state in State}


@dataclass(frozen=True, slots=True)
class ArchivedEntry:
    """One state of an archived instant (HoodieArchivedMetaEntry).

    Attributes:
        requested: requested time of the instant.
        action: the action.
        state: the state of the entry.
        transition: when it came to that state, in local time; None in archives of old.
        record: the whole entry, by Avro's names.
    """

    requested: str
    action: Action
    state: State
    transition: str | None
    record: Mapping[str, Any] = field(repr=False, hash=False)

    @property
    def read_commit_metadata(self) -> CommitMetadata:
        """Return the commit metadata; empty if the entry is not a completed write.

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
        """Return the metadata of a completed clean under Avro's field names; empty for other actions."""
        return self.record.get("hoodieCleanMetadata") or {}

    @property
    def content(self) -> Mapping[str, Any]:
        """The metadata of a completed clean, rollback, savepoint or index build by Avro's names; otherwise empty."""
        return self.record.get(_CONTENTS.get(self.action, "")) or {}


def decode_archive_log(data: bytes, *, path: str | None = None) -> Iterator[ArchivedEntry]:
    """The entries of an archive file, in their order; those of unknown actions are passed over.

    Args:
        data: the whole file.
        path: path of the file, for errors.

    Raises:
        CorruptError: a block is cut off or damaged, or doesn't hold Avro records.
    """
    try:
        for block in decode_blocks(data, path=path):
            yield from _entries(block)
    except CorruptError as error:
        raise CorruptError(f"archived timeline: {error.message}", path=path, offset=error.offset) from error


def _entries(block: LogBlock) -> Iterator[ArchivedEntry]:
    if block.kind is not BlockKind.AVRO:
        raise block.corrupt("is where archives hold Avro records")
    try:
        schema = parse_record_schema(block_schema(block).encode())
    except bad_schema() as error:
        raise block.corrupt(f"has a schema that can't be used: {cause_text(error)}") from error
    if schema["name"] != _ENTRY:
        raise block.corrupt(f"holds records of {schema['name']}")
    for begin, end in zip(*record_spans(block), strict=True):
        row = io.BytesIO(block.content[begin:end])
        try:
            record = fastavro.schemaless_reader(row, schema, None)
        except bad_bytes() as error:
            raise block.corrupt(f"has an entry that is cut off or damaged: {cause_text(error)}") from error
        entry = _entry(record)
        if entry is not None:
            yield entry


def _entry(record: Any) -> ArchivedEntry | None:
    action = next((each for each in Action if each.value == record.get("actionType")), None)
    state = _STATES.get(record.get("actionState") or State.COMPLETED.name)
    requested = record.get("commitTime")
    if action is None or state is None or not isinstance(requested, str) or not is_instant_time(requested):
        return None
    return ArchivedEntry(requested, action.comparable, state, record.get("stateTransitionTime"), record)
