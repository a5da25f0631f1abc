"""Derive a table's merge mode from its payload class, strategy id and ordering fields, and what a new table stores."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from pudi.config.table_options import MergeMode, OtherTableOptions, PartialUpdate, TableOptions
from pudi.errors import InvalidArgumentError, NotSupportedError

UNAVAILABLE = TableOptions.unavailable_value.key
"""The merge property that holds FILL_UNAVAILABLE's marker."""

_MODELS = "org.apache.hudi.common.model."
_DEFAULT = f"{_MODELS}DefaultHoodieRecordPayload"
PAYLOAD_BASED = "00000000-0000-0000-0000-000000000000"
"""Strategy id of tables that merge by a payload class (HoodieRecordMerger.PAYLOAD_BASED_MERGE_STRATEGY_UUID)."""
_STRATEGY_MODES = {
    "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5": MergeMode.EVENT_TIME,
    "ce9acb64-bde0-424c-9b91-f6ebba25356d": MergeMode.COMMIT_TIME,
}
_OWN_STRATEGIES = {*_STRATEGY_MODES, PAYLOAD_BASED, "1897ef5f-18bc-4557-939c-9d6a8afd1519"}


@dataclass(frozen=True, slots=True)
class Payload:
    """A payload class, described as version 9 stores it (`HoodieTableConfig.inferMergingConfigsForV9TableCreation`).

    Attributes:
        mode: the merge mode.
        partial_update: how winners are completed, if they are.
        delete_marker: column and value of deletes, if the rule has a marker.
        ordering: the ordering fields that it brings along; empty for the table's own.
        older_ordering: the same below version 9.
        unavailable: the marker of FILL_UNAVAILABLE.
        batches_by_order: below version 9, whether `preCombine` goes by ordering value where the rest doesn't.
        older_deletes_win: below version 9, whether deletes win regardless of their ordering value.
    """

    mode: MergeMode
    partial_update: PartialUpdate | None = None
    delete_marker: tuple[str, str] | None = None
    ordering: tuple[str, ...] = ()
    older_ordering: tuple[str, ...] = ()
    unavailable: str | None = None
    batches_by_order: bool = False
    older_deletes_win: bool = False

    def properties(self) -> dict[str, str]:
        """The settings that version 9 stores instead, besides the mode."""
        made = {} if self.partial_update is None else {TableOptions.partial_update_mode.key: self.partial_update.value}
        if self.delete_marker is not None:
            column, marker = self.delete_marker
            made |= {OtherTableOptions.delete_field.key: column, OtherTableOptions.delete_marker.key: marker}
        if self.unavailable is not None:
            made[OtherTableOptions.merge_property.prefix + UNAVAILABLE] = self.unavailable
        if self.ordering:
            made[TableOptions.ordering.key] = ",".join(self.ordering)
        return made


_CHANGES = ("_change_operation_type", "d")
BINLOG_ORDER = ("_event_seq",)
"""Ordering field of MySqlDebeziumAvroPayload below version 9: texts `file.position`."""
_PAYLOADS = {
    _DEFAULT: Payload(MergeMode.EVENT_TIME),
    f"{_MODELS}EventTimeAvroPayload": Payload(MergeMode.EVENT_TIME),
    f"{_MODELS}OverwriteWithLatestAvroPayload": Payload(MergeMode.COMMIT_TIME),
    f"{_MODELS}OverwriteNonDefaultsWithLatestAvroPayload": Payload(
        MergeMode.COMMIT_TIME, PartialUpdate.IGNORE_DEFAULTS, batches_by_order=True
    ),
    f"{_MODELS}PartialUpdateAvroPayload": Payload(
        MergeMode.EVENT_TIME, PartialUpdate.IGNORE_DEFAULTS, older_deletes_win=True
    ),
    f"{_MODELS}AWSDmsAvroPayload": Payload(MergeMode.COMMIT_TIME, delete_marker=("Op", "D"), batches_by_order=True),
    f"{_MODELS}debezium.PostgresDebeziumAvroPayload": Payload(
        MergeMode.EVENT_TIME,
        PartialUpdate.FILL_UNAVAILABLE,
        _CHANGES,
        ("_event_lsn",),
        ("_event_lsn",),
        "__debezium_unavailable_value",
    ),
    f"{_MODELS}debezium.MySqlDebeziumAvroPayload": Payload(
        MergeMode.EVENT_TIME,
        delete_marker=_CHANGES,
        ordering=("_event_bin_file", "_event_pos"),
        older_ordering=BINLOG_ORDER,
    ),
}
_PLAIN = {name: _PAYLOADS[name].mode for name in list(_PAYLOADS)[:3]}
"""Payload classes that have a merge mode of their own in every version."""


_STOCK_MERGERS = frozenset(
    {
        "org.apache.hudi.DefaultSparkRecordMerger",
        "org.apache.hudi.HoodieSparkRecordMerger",
        "org.apache.hudi.OverwriteWithLatestSparkRecordMerger",
        "org.apache.hudi.common.model.HoodieAvroRecordMerger",
        "org.apache.hudi.common.model.HoodiePreCombineAvroRecordMerger",
        "org.apache.hudi.common.model.OverwriteWithLatestMerger",
    }
)
"""Mergers that come with Hudi: they do what the merge mode says, or the payload class."""
_registered_payloads: set[str] = set()
_registered_mergers: set[str] = set()


def note_registered(merger: str, payload_class: str | None) -> None:
    """Let a registered merger be named in options, and tables with its payload class be merged.

    Args:
        merger: the full name of the merger's class.
        payload_class: the payload class that it stands for; None for none.
    """
    _registered_mergers.add(merger)
    if payload_class is not None:
        _registered_payloads.add(payload_class)


def has_merger(payload_class: str) -> bool:
    """Whether a merger was registered that stands for a payload class."""
    return payload_class in _registered_payloads


def unknown_merger(names: Sequence[str]) -> str | None:
    """The first name that is neither of one of Hudi's own mergers nor of a registered one; None without one."""
    return next((name for name in names if name not in _STOCK_MERGERS | _registered_mergers), None)


def payload(name: str) -> Payload | None:
    """Return the description of a payload class; None for an unknown one. A class is never loaded by its name."""
    return _PAYLOADS.get(name)


def mode_of_payload(name: str) -> MergeMode:
    """The merge mode of a payload class; CUSTOM for any but the plain ones (`inferRecordMergeModeFromPayloadClass`)."""
    return _PLAIN.get(name, MergeMode.CUSTOM)


def is_plain(name: str) -> bool:
    """Whether a payload class has a merge mode of its own in every version."""
    return name in _PLAIN


def newest_mode_of_payload(name: str) -> MergeMode:
    """The merge mode that version 9 stores for a payload class; CUSTOM for one that it loads."""
    known = payload(name)
    return MergeMode.CUSTOM if known is None else known.mode


def is_own_strategy(identifier: str) -> bool:
    """Whether a strategy id is one of Hudi's own (`HoodieTableConfig.BUILTIN_MERGE_STRATEGIES`)."""
    return identifier.lower() in _OWN_STRATEGIES


def mode_of_strategy(identifier: str) -> MergeMode:
    """The merge mode of a strategy id; CUSTOM for an unknown one (`inferRecordMergeModeFromMergeStrategyId`)."""
    return _STRATEGY_MODES.get(identifier.lower(), MergeMode.CUSTOM)


def inferred_mode(*, payload: str | None, strategy_id: str | None, has_ordering: bool, version: int) -> MergeMode:
    """Return the merge mode of a table that names none: by strategy id, by payload class, or by ordering fields.

    Below version 8 the payload class comes first. Source: `HoodieTableConfig.inferMergingConfigsForPreV9Table`.
    """
    if payload and (version < 8 or not strategy_id):
        return mode_of_payload(payload)
    if strategy_id:
        return mode_of_strategy(strategy_id)
    return MergeMode.EVENT_TIME if has_ordering else MergeMode.COMMIT_TIME


@dataclass(frozen=True, slots=True)
class RequestedMerging:
    """The merge settings that the options of a new table request.

    Attributes:
        mode: the merge mode.
        payload: the payload class.
        strategy_id: the id of the merge strategy.
    """

    mode: MergeMode | None
    payload: str | None
    strategy_id: str | None

    def stored(self, ordering: Sequence[str], version: int) -> dict[str, str]:
        """The properties that a new table stores for it (`inferMergingConfigsForPreV9Table`, `…V9TableCreation`).

        Args:
            ordering: the ordering fields.
            version: the table's version.

        Raises:
            InvalidArgumentError: the options contradict each other, or lack something.
            NotSupportedError: an unknown payload class, or a merger that pudi can't have.
        """
        self._check_known(version)
        mode = self._mode(bool(ordering), version)
        known = payload(self.payload) if self.payload else None
        if self.payload and self.strategy_id and mode is MergeMode.CUSTOM and not is_own_strategy(self.strategy_id):
            raise InvalidArgumentError(
                f"the options contradict each other: payload class {self.payload}, and strategy id {self.strategy_id} "
                "of a merger; give one of them"
            )
        fields = self._ordering(ordering, known, version)
        effective = mode if known is None else known.mode
        if effective.compares and not fields:
            raise InvalidArgumentError(f"{effective} needs an ordering column: give ordering=…")
        if version >= 9:
            return self._newest(mode, known)
        by_payload = mode is MergeMode.CUSTOM and bool(self.payload)
        stored = {
            TableOptions.compaction_payload_class.key: self.payload or payload_of_mode(mode),
            TableOptions.merge_strategy_id.key: PAYLOAD_BASED if by_payload else self._strategy(mode),
        }
        return stored if version < 8 else {**stored, TableOptions.record_merge_mode.key: mode.value}

    def _newest(self, mode: MergeMode, known: Payload | None) -> dict[str, str]:
        if known is not None:
            mode, stored = known.mode, {TableOptions.legacy_payload_class.key: str(self.payload), **known.properties()}
        elif mode is MergeMode.CUSTOM and self.payload:
            stored = {
                TableOptions.compaction_payload_class.key: self.payload,
                TableOptions.merge_strategy_id.key: PAYLOAD_BASED,
            }
        elif mode is MergeMode.CUSTOM:
            stored = {TableOptions.merge_strategy_id.key: self._strategy(mode)}
        else:
            stored = {}
        return {TableOptions.record_merge_mode.key: mode.value, **stored}

    def _check_known(self, version: int) -> None:
        if self.payload and payload(self.payload) is None and not has_merger(self.payload):
            raise NotSupportedError(
                f"payload class {self.payload} is not known here, and a class is never loaded by name: write a "
                f"pudi.RecordMerger and give its {TableOptions.merge_strategy_id}, or register it for the class: "
                f"pudi.register_merger(…, payload_class={self.payload!r})"
            )
        identifier = self.strategy_id
        if not identifier or identifier.lower() in _STRATEGY_MODES or (self.payload and identifier == PAYLOAD_BASED):
            return
        if is_own_strategy(identifier):
            raise NotSupportedError(
                f"strategy id {identifier} is one of Hudi's own that names no rule: take that of a pudi.RecordMerger"
            )
        try:
            uuid.UUID(identifier)
        except ValueError as error:
            raise InvalidArgumentError(f"{TableOptions.merge_strategy_id}={identifier} is no UUID") from error
        if version < 8:
            raise NotSupportedError(
                f"strategy id {identifier} in a table of version 6: Hudi reads such by payload class, whatever the id "
                "says; make the table of version 8 or 9"
            )

    def _mode(self, has_ordering: bool, version: int) -> MergeMode:
        """The mode by the rules below version 9, which also decide what contradicts what."""
        by_id = mode_of_strategy(self.strategy_id) if self.strategy_id else None
        implied = {
            TableOptions.record_merge_mode.key: self.mode,
            TableOptions.compaction_payload_class.key: self._payload_mode(version),
            TableOptions.merge_strategy_id.key: by_id,
        }
        modes = {value for value in implied.values() if value}
        if len(modes) > 1:
            said = ", ".join(f"{key} says {value}" for key, value in implied.items() if value)
            raise InvalidArgumentError(f"the options contradict each other: {said}")
        if self.mode is MergeMode.CUSTOM and not (self.payload or self.strategy_id):
            raise InvalidArgumentError(
                f"CUSTOM needs {TableOptions.merge_strategy_id}, the strategy_id of a pudi.RecordMerger, or a payload "
                "class that is known here"
            )
        if self.mode:
            return self.mode
        return inferred_mode(
            payload=self.payload, strategy_id=self.strategy_id, has_ordering=has_ordering, version=version
        )

    def _payload_mode(self, version: int) -> MergeMode | None:
        """Return the merge mode implied by the payload class. In version 9 a stored CUSTOM doesn't contradict it."""
        if not self.payload:
            return None
        if version >= 9 and self.mode is not MergeMode.CUSTOM and not self.strategy_id:
            return newest_mode_of_payload(self.payload)
        return mode_of_payload(self.payload)

    @staticmethod
    def _ordering(given: Sequence[str], known: Payload | None, version: int) -> tuple[str, ...]:
        brought = () if known is None else known.ordering if version >= 9 else known.older_ordering
        if brought and given and tuple(given) != brought:
            raise InvalidArgumentError(
                f"ordering={list(given)}: the payload class orders by {', '.join(brought)}; leave ordering out"
            )
        return brought or tuple(given)

    def _strategy(self, mode: MergeMode) -> str:
        return str(self.strategy_id) if mode is MergeMode.CUSTOM else strategy_of_mode(mode)


def strategy_of_mode(mode: MergeMode) -> str:
    """The strategy id of COMMIT_TIME or EVENT_TIME."""
    return next(identifier for identifier, each in _STRATEGY_MODES.items() if each is mode)


def payload_of_mode(mode: MergeMode) -> str:
    """The payload class that a merge mode is stored with (`HoodieRecordPayload.getAvroPayloadForMergeMode`)."""
    return f"{_MODELS}OverwriteWithLatestAvroPayload" if mode is MergeMode.COMMIT_TIME else _DEFAULT


def goes_with_a_mode(payload_class: str) -> bool:
    """Whether a payload class is the one that tables of a merge mode are stored with: beside CUSTOM it says nothing."""
    return payload_class in {payload_of_mode(mode) for mode in _STRATEGY_MODES.values()}
