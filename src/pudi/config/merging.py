"""Which merge mode a payload class, a strategy id or the ordering fields stand for."""

from __future__ import annotations

from pudi.config.table_registry import COMMIT_TIME_ORDERING, EVENT_TIME_ORDERING

CUSTOM = "CUSTOM"

_PAYLOAD_MODES = {
    "org.apache.hudi.common.model.DefaultHoodieRecordPayload": EVENT_TIME_ORDERING,
    "org.apache.hudi.common.model.EventTimeAvroPayload": EVENT_TIME_ORDERING,
    "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload": COMMIT_TIME_ORDERING,
}
_MODE_PAYLOADS = {
    EVENT_TIME_ORDERING: "org.apache.hudi.common.model.DefaultHoodieRecordPayload",
    COMMIT_TIME_ORDERING: "org.apache.hudi.common.model.OverwriteWithLatestAvroPayload",
}
_MARKED_PAYLOADS = {
    "org.apache.hudi.common.model.AWSDmsAvroPayload": (COMMIT_TIME_ORDERING, "Op", "D"),
}
_STRATEGY_MODES = {
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": EVENT_TIME_ORDERING,
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": COMMIT_TIME_ORDERING,
}


def mode_of_payload(name: str) -> str:
    """The merge mode of a payload class; CUSTOM for any but the plain ones (`inferRecordMergeModeFromPayloadClass`)."""
    return _PAYLOAD_MODES.get(name, CUSTOM)


def marked_payload(name: str) -> tuple[str, str, str] | None:
    """Merge mode, delete column and delete marker that version 9 stores in place of a payload class.

    None for a class that it doesn't store so (`HoodieTableConfig.handlePayloadAdhocConfigs`).
    """
    return _MARKED_PAYLOADS.get(name)


def newest_mode_of_payload(name: str) -> str:
    """The merge mode that version 9 stores for a payload class; CUSTOM for one that it loads."""
    marked = marked_payload(name)
    return mode_of_payload(name) if marked is None else marked[0]


def mode_of_strategy(identifier: str) -> str:
    """The merge mode of a strategy id; CUSTOM for an unknown one (`inferRecordMergeModeFromMergeStrategyId`)."""
    return _STRATEGY_MODES.get(identifier.lower(), CUSTOM)


def strategy_of_mode(mode: str) -> str:
    """The strategy id that a plain merge mode is stored with (`HoodieRecordMerger.getRecordMergeStrategyId`)."""
    return next(identifier for identifier, each in _STRATEGY_MODES.items() if each == mode)


def payload_of_mode(mode: str) -> str:
    """The payload class that a plain merge mode is stored with (`HoodieRecordPayload.getAvroPayloadForMergeMode`)."""
    return _MODE_PAYLOADS[mode]


def inferred_mode(*, payload: str | None, strategy_id: str | None, has_ordering: bool, version: int) -> str:
    """The merge mode where none is named: by strategy id, by payload class, else by whether there are ordering fields.

    Below version 8 the payload class comes first. Source: `HoodieTableConfig.inferMergingConfigsForPreV9Table`.
    """
    if payload and (version < 8 or not strategy_id):
        return mode_of_payload(payload)
    if strategy_id:
        return mode_of_strategy(strategy_id)
    return EVENT_TIME_ORDERING if has_ordering else COMMIT_TIME_ORDERING
