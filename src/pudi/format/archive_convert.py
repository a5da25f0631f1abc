"""Archived instants from one layout of the timeline to the other: entries of layout 1, rows of layout 2.

Source: LegacyArchivedMetaEntryReader, ActiveActionWithDetails, MetadataConversionUtils.createMetaWrapper.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pudi.errors import CorruptError
from pudi.format import avro_schemas
from pudi.format.archive_encode import archived_entry, content_field
from pudi.format.archive_log import ArchivedEntry
from pudi.format.avro_file import RecordSchema, bad_schema, encode_avro_file
from pudi.format.instants import commit_metadata_of, decode_avro, decode_commit_metadata, encode_commit_metadata
from pudi.format.names import Action, State

_COMMITS = frozenset({Action.COMMIT, Action.DELTACOMMIT, Action.REPLACECOMMIT})
_SCHEMAS = {
    "hoodieCleanMetadata": avro_schemas.CLEAN_METADATA,
    "hoodieCleanerPlan": avro_schemas.CLEANER_PLAN,
    "hoodieRollbackMetadata": avro_schemas.ROLLBACK_METADATA,
    "hoodieSavePointMetadata": avro_schemas.SAVEPOINT_METADATA,
    "hoodieCompactionPlan": avro_schemas.COMPACTION_PLAN,
    "hoodieRequestedReplaceMetadata": avro_schemas.REQUESTED_REPLACE_METADATA,
    "hoodieIndexCommitMetadata": avro_schemas.INDEX_COMMIT_METADATA,
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
        return encode_avro_file(RecordSchema.of(_SCHEMAS[field]), part)
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
    if action not in _COMMITS:
        return decode_avro(content)
    return decode_avro(encode_commit_metadata(decode_commit_metadata(content)))
