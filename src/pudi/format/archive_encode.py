"""Archive files, written: entries of layout 1 into a log of one Avro block, rows of layout 2 into Parquet.

Source: TimelineArchiverV1, LSMTimelineWriter, MetadataConversionUtils.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pudi.context.lazy import lazy_module
from pudi.format.archive_schemas import ARCHIVED_ENTRY, HISTORY_ROW
from pudi.format.avro_file import RecordSchema
from pudi.format.log_block import BlockKind, Header, encode_block
from pudi.format.log_data import CONTENT_VERSION
from pudi.format.names import Action, State
from pudi.format.parquet import AVRO_SCHEMA, WRITER_MODEL
from pudi.format.parquet_pages import parquet_writer

if TYPE_CHECKING:
    import fastavro
else:
    fastavro = lazy_module("fastavro")

_INT = Struct(">i")
_ENTRY, _ROW = RecordSchema.of(ARCHIVED_ENTRY), RecordSchema.of(HISTORY_ROW)
_COMMITS = frozenset({Action.COMMIT, Action.DELTACOMMIT})
_COMPLETED = {
    Action.REPLACECOMMIT: "hoodieReplaceCommitMetadata",
    Action.CLEAN: "hoodieCleanMetadata",
    Action.ROLLBACK: "hoodieRollbackMetadata",
    Action.SAVEPOINT: "hoodieSavePointMetadata",
    Action.INDEXING: "hoodieIndexCommitMetadata",
}

HISTORY_SCHEMA = pa.schema(
    [
        pa.field("instantTime", pa.string()),
        pa.field("completionTime", pa.string()),
        pa.field("action", pa.string()),
        pa.field("metadata", pa.binary()),
        pa.field("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ],
    {AVRO_SCHEMA: _ROW.text, WRITER_MODEL: b"avro"},
)
"""Columns of a file of the archived timeline of layout 2."""


def archived_entry(
    requested: str, action: Action, state: State, transition: str, content: Mapping[str, Any]
) -> dict[str, Any]:
    """The entry of one state of an instant, as Avro's record (MetadataConversionUtils.createMetaWrapper).

    Args:
        requested: requested time of the instant.
        action: what the file of that state says that it does.
        state: the state.
        transition: when it came to that state.
        content: what the file says, by Avro's names; empty where it says nothing.
    """
    entry: dict[str, Any] = {
        "commitTime": requested,
        "actionType": action.value,
        "actionState": state.name,
        "version": None,
        "stateTransitionTime": transition,
    }
    name = content_field(action, state)
    if name is not None and content:
        entry[name] = dict(content)
    return entry


def content_field(action: Action, state: State) -> str | None:
    """The entry's field that holds what the file of a state says; None where it's not kept."""
    done = state is State.COMPLETED
    if action in _COMMITS:
        return "hoodieCommitMetadata"
    if done:
        return _COMPLETED.get(action)
    if action is Action.CLEAN:
        return "hoodieCleanerPlan"
    if action in {Action.REPLACECOMMIT, Action.CLUSTERING}:
        return "hoodieRequestedReplaceMetadata" if state is State.REQUESTED else "HoodieInflightReplaceMetadata"
    if action in {Action.COMPACTION, Action.LOGCOMPACTION}:
        return "hoodieCompactionPlan" if state is State.REQUESTED else None
    return None


def encode_archive_log(entries: Iterable[Mapping[str, Any]]) -> bytes:
    """An archive file of layout 1 with the given entries."""
    rows = []
    for entry in entries:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, _ENTRY.parsed, entry)
        rows.append(_INT.pack(out.tell()) + out.getvalue())
    content = _INT.pack(CONTENT_VERSION) + _INT.pack(len(rows)) + b"".join(rows)
    return encode_block(BlockKind.AVRO, {Header.SCHEMA: _ENTRY.text.decode()}, content)


def encode_history(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Encode a file of the archived timeline of layout 2: rows of `HISTORY_SCHEMA`, version 1."""
    table = pa.Table.from_pylist([{**row, "version": 1} for row in rows], HISTORY_SCHEMA)
    return encode_history_table(table)


def encode_history_table(table: pa.Table) -> bytes:
    """A file of the archived timeline of layout 2."""
    sink = pa.BufferOutputStream()
    with parquet_writer(sink, HISTORY_SCHEMA, "gzip") as writer:
        writer.write_table(table.cast(HISTORY_SCHEMA))
    return bytes(sink.getvalue())
