"""Archive files of both timeline layouts: entries of layout 1 in a log of Avro blocks, rows of layout 2 in Parquet.

Source: HoodieArchivedMetaEntry, HoodieLSMTimelineInstant, TimelineArchiverV1, LSMTimelineWriter,
MetadataConversionUtils, LegacyArchivedMetaEntryReader, ActiveActionWithDetails,
MetadataConversionUtils.createMetaWrapper.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pudi.context.runtime import lazy_module
from pudi.errors import CorruptError, cause_text
from pudi.format.avro_file import RecordSchema, bad_bytes, bad_schema, encode_avro_file, parse_record_schema
from pudi.format.avro_schemas import (
    CLEAN_METADATA,
    CLEANER_PLAN,
    COMMIT_METADATA,
    COMPACTION_PLAN,
    INDEX_COMMIT_METADATA,
    NAMESPACE,
    REPLACE_COMMIT_METADATA,
    REQUESTED_REPLACE_METADATA,
    ROLLBACK_METADATA,
    SAVEPOINT_METADATA,
    STRING,
    Schema,
    array,
    field,
    mapping,
    optional,
    record,
)
from pudi.format.instants import (
    CommitMetadata,
    commit_metadata_of,
    decode_avro,
    decode_commit_metadata,
    encode_commit_metadata,
)
from pudi.format.log_block import BlockKind, Header, LogBlock, decode_blocks, encode_block
from pudi.format.log_data import CONTENT_VERSION, block_schema, record_spans
from pudi.format.names import WRITE_ACTIONS, Action, State, is_instant_time
from pudi.format.parquet import AVRO_SCHEMA, WRITER_MODEL, parquet_writer

if TYPE_CHECKING:
    import fastavro
else:
    fastavro = lazy_module("fastavro")

_VERSION = field("version", ["int", "null"], default=1)

_COMPACTION_STAT = record(
    "HoodieCompactionWriteStat",
    optional("partitionPath", STRING),
    optional("totalLogRecords", "long"),
    optional("totalLogFiles", "long"),
    optional("totalUpdatedRecordsCompacted", "long"),
    field("hoodieWriteStat", ["null", "HoodieWriteStat"]),
)

_COMPACTION_METADATA = record(
    "HoodieCompactionMetadata",
    field("partitionToCompactionWriteStats", ["null", mapping(array(_COMPACTION_STAT))]),
)


def _named_once(schema: Any, seen: set[str]) -> Any:
    """A schema in which named types are defined where they come first, in the namespace of the whole."""
    if isinstance(schema, list):
        return [_named_once(branch, seen) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") != "record":
        return {key: _named_once(each, seen) if key in {"type", "items", "values"} else each
                for key, each in schema.items()}  # fmt: skip
    if schema["name"] in seen:
        return schema["name"]
    seen.add(schema["name"])
    inner = {key: each for key, each in schema.items() if key != "namespace"}
    return {**inner, "fields": [_named_once(each, seen) for each in schema["fields"]]}


def _entry_schema() -> Schema:
    fields = (
        optional("hoodieCommitMetadata", COMMIT_METADATA),
        optional("hoodieCleanMetadata", CLEAN_METADATA),
        optional("hoodieCompactionMetadata", _COMPACTION_METADATA),
        optional("hoodieRollbackMetadata", ROLLBACK_METADATA),
        optional("hoodieSavePointMetadata", SAVEPOINT_METADATA),
        optional("commitTime", STRING),
        optional("actionType", STRING),
        _VERSION,
        optional("hoodieCompactionPlan", COMPACTION_PLAN),
        optional("hoodieCleanerPlan", CLEANER_PLAN),
        optional("actionState", STRING),
        optional("hoodieReplaceCommitMetadata", REPLACE_COMMIT_METADATA),
        optional("hoodieRequestedReplaceMetadata", REQUESTED_REPLACE_METADATA),
        optional("HoodieInflightReplaceMetadata", COMMIT_METADATA),
        optional("hoodieIndexCommitMetadata", INDEX_COMMIT_METADATA),
        optional("stateTransitionTime", STRING),
    )
    made: Schema = _named_once(record("HoodieArchivedMetaEntry", *fields), set())
    return {**made, "namespace": NAMESPACE}


ARCHIVED_ENTRY: Final = _entry_schema()
"""One state of an instant in an archive of layout 1."""

HISTORY_ROW: Final = record(
    "HoodieLSMTimelineInstant",
    optional("instantTime", STRING),
    optional("completionTime", STRING),
    optional("action", STRING),
    optional("metadata", "bytes"),
    optional("plan", "bytes"),
    field("version", "int", default=1),
    namespace=NAMESPACE,
)
"""One instant in an archive of layout 2."""


_ENTRY_NAME = f"{NAMESPACE}.HoodieArchivedMetaEntry"

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
    record: Mapping[str, Any] = dataclasses.field(repr=False, hash=False)

    @property
    def commit_metadata(self) -> CommitMetadata:
        """The commit metadata; empty if the entry is not a completed write.

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
    if schema["name"] != _ENTRY_NAME:
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


_INT = Struct(">i")
_ENTRY_SCHEMA, _ROW_SCHEMA = RecordSchema.of(ARCHIVED_ENTRY), RecordSchema.of(HISTORY_ROW)
_WITHOUT_REPLACES = frozenset({Action.COMMIT, Action.DELTACOMMIT})
_COMPLETED = {Action.REPLACECOMMIT: "hoodieReplaceCommitMetadata", **_CONTENTS}

HISTORY_SCHEMA = pa.schema(
    [
        pa.field("instantTime", pa.string()),
        pa.field("completionTime", pa.string()),
        pa.field("action", pa.string()),
        pa.field("metadata", pa.binary()),
        pa.field("plan", pa.binary()),
        pa.field("version", pa.int32(), nullable=False),
    ],
    {AVRO_SCHEMA: _ROW_SCHEMA.text, WRITER_MODEL: b"avro"},
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
    if action in _WITHOUT_REPLACES:
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
        fastavro.schemaless_writer(out, _ENTRY_SCHEMA.parsed, entry)
        rows.append(_INT.pack(out.tell()) + out.getvalue())
    content = _INT.pack(CONTENT_VERSION) + _INT.pack(len(rows)) + b"".join(rows)
    return encode_block(BlockKind.AVRO, {Header.SCHEMA: _ENTRY_SCHEMA.text.decode()}, content)


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


_FIELD_SCHEMAS = {
    "hoodieCleanMetadata": CLEAN_METADATA,
    "hoodieCleanerPlan": CLEANER_PLAN,
    "hoodieRollbackMetadata": ROLLBACK_METADATA,
    "hoodieSavePointMetadata": SAVEPOINT_METADATA,
    "hoodieCompactionPlan": COMPACTION_PLAN,
    "hoodieRequestedReplaceMetadata": REQUESTED_REPLACE_METADATA,
    "hoodieIndexCommitMetadata": INDEX_COMMIT_METADATA,
}
_COMMIT_FIELDS = frozenset({"hoodieCommitMetadata", "hoodieReplaceCommitMetadata", "HoodieInflightReplaceMetadata"})
_PLANS = {
    Action.CLEAN: ("hoodieCleanerPlan",),
    Action.COMMIT: ("hoodieCompactionPlan",),
    Action.DELTACOMMIT: ("hoodieCompactionPlan",),
    Action.REPLACECOMMIT: ("HoodieInflightReplaceMetadata", "hoodieRequestedReplaceMetadata"),
}
"""The fields that hold the plan of an action, by the action that it completes as; the first that is filled counts."""


def history_row(entries: Iterable[ArchivedEntry]) -> dict[str, Any] | None:
    """The row of layout 2 for an instant.

    Args:
        entries: its entries, one for each state; one alone may hold all.

    Returns:
        The row; None if no entry says that the instant is completed.

    Raises:
        CorruptError: an entry doesn't fit its schema.
    """
    known = list(entries)
    done = next((entry for entry in known if entry.state is State.COMPLETED), None)
    if done is None:
        return None
    content = "hoodieReplaceCommitMetadata" if done.record.get("hoodieReplaceCommitMetadata") else None
    field = content or content_field(done.action, State.COMPLETED)
    plans = (_encoded(entry, name) for name in _PLANS.get(done.action, ()) for entry in known)
    return {
        "instantTime": done.requested,
        "completionTime": done.transition or done.requested,
        "action": done.action.value,
        "metadata": None if field is None else _encoded(done, field),
        "plan": next((plan for plan in plans if plan is not None), None),
    }


def _encoded(entry: ArchivedEntry, field: str) -> bytes | None:
    """A part of an entry as the bytes of a file of the timeline."""
    part = entry.record.get(field)
    if part is None:
        return None
    try:
        if field in _COMMIT_FIELDS:
            return encode_commit_metadata(commit_metadata_of(part))
        return encode_avro_file(RecordSchema.of(_FIELD_SCHEMAS[field]), part)
    except bad_schema() as error:
        raise CorruptError(
            f"archived timeline: the {field} of a {entry.action.value} is damaged: {error}", instant=entry.requested
        ) from error


def history_entry(row: Mapping[str, Any], action: Action) -> dict[str, Any]:
    """The entry of layout 1 for a row of layout 2; one entry holds all of the instant, as Hudi's downgrade has it.

    Args:
        row: the row.
        action: the action that it says.

    Raises:
        CorruptError: metadata or plan can't be read.
    """
    requested, completion = str(row["instantTime"]), str(row["completionTime"])
    metadata, plan = row["metadata"] or b"", row["plan"] or b""
    done = action.comparable
    entry = archived_entry(requested, done, State.COMPLETED, completion, _decoded(done, metadata))
    if not plan:
        return entry
    if done is Action.REPLACECOMMIT:
        try:  # the inflight file's content, or else the requested one's
            entry["HoodieInflightReplaceMetadata"] = _decoded(Action.COMMIT, plan)
        except CorruptError:
            entry["hoodieRequestedReplaceMetadata"] = decode_avro(plan)
    elif done in _PLANS:
        entry[_PLANS[done][0]] = decode_avro(plan)
    return entry


def _decoded(action: Action, content: bytes) -> dict[str, Any]:
    if not content:
        return {}
    if action not in WRITE_ACTIONS:
        return decode_avro(content)
    return decode_avro(encode_commit_metadata(decode_commit_metadata(content)))
