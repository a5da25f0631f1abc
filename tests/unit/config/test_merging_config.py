"""How a table merges: what options make a new one store, and what stored properties of every version mean."""

from __future__ import annotations

import pytest

from pudi.config import TableConfig, merge_semantics, resolve
from pudi.config.checks import check_consistent, check_mergeable
from pudi.config.new_table import NewTable
from pudi.errors import InvalidArgumentError, NotSupportedError

MODELS = "org.apache.hudi.common.model."
EVENT, COMMIT, CUSTOM = "EVENT_TIME_ORDERING", "COMMIT_TIME_ORDERING", "CUSTOM"
EVENT_ID, COMMIT_ID = "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5", "ce9acb64-bde0-424c-9b91-f6ebba25356d"
PAYLOAD_ID = "00000000-0000-0000-0000-000000000000"
OWN = "6f0f6d2e-2222-4444-8888-123456789abc"
PROPERTY = "hoodie.record.merge.property."
ABOUT_MERGING = ("merge", "payload", "ordering", "partial", "precombine")

PG, MYSQL = "debezium.PostgresDebeziumAvroPayload", "debezium.MySqlDebeziumAvroPayload"
NON_DEFAULTS, PARTIAL = "OverwriteNonDefaultsWithLatestAvroPayload", "PartialUpdateAvroPayload"
NEWEST = {
    None: {"mode": EVENT},
    "DefaultHoodieRecordPayload": {"mode": EVENT},
    "EventTimeAvroPayload": {"mode": EVENT},
    "OverwriteWithLatestAvroPayload": {"mode": COMMIT},
    NON_DEFAULTS: {"mode": COMMIT, "partial": "IGNORE_DEFAULTS"},
    PARTIAL: {"mode": EVENT, "partial": "IGNORE_DEFAULTS"},
    "AWSDmsAvroPayload": {"mode": COMMIT, "marker": ("Op", "D")},
    PG: {
        "mode": EVENT,
        "partial": "FILL_UNAVAILABLE",
        "marker": ("_change_operation_type", "d"),
        "ordering": "_event_lsn",
        "unavailable": "__debezium_unavailable_value",
    },
    MYSQL: {"mode": EVENT, "marker": ("_change_operation_type", "d"), "ordering": "_event_bin_file,_event_pos"},
}
"""What Hudi 1.2.0 stores in tables of version 9, as seen in tables that it made."""


def new(version: int, ordering: str = "ts", **given: str) -> TableConfig:
    keys = {
        "payload": "hoodie.datasource.write.payload.class",
        "mode": "hoodie.write.record.merge.mode",
        "strategy": "hoodie.write.record.merge.strategy.id",
    }
    options = {keys[name]: value for name, value in given.items()} | {"hoodie.write.table.version": str(version)}
    fields = [name for name in ordering.split(",") if name]
    new = NewTable(name="t", create_schema="{}", record_key=["id"], ordering=fields)
    return TableConfig.new(new, resolve(options), table="t")


def stored(config: TableConfig) -> dict[str, str]:
    return {k: v for k, v in config.to_properties().items() if any(word in k for word in ABOUT_MERGING)}


@pytest.mark.parametrize("payload", list(NEWEST))
def test_what_version_9_stores(payload: str | None) -> None:
    facts = NEWEST[payload]
    brought = facts.get("ordering")
    config = new(9, "" if brought else "ts", **({} if payload is None else {"payload": MODELS + payload}))
    expected = {"hoodie.record.merge.mode": facts["mode"], "hoodie.table.ordering.fields": brought or "ts"}
    if payload is not None:
        expected["hoodie.table.legacy.payload.class"] = MODELS + payload
    if "partial" in facts:
        expected["hoodie.table.partial.update.mode"] = facts["partial"]
    if "marker" in facts:
        expected[f"{PROPERTY}hoodie.payload.delete.field"], expected[f"{PROPERTY}hoodie.payload.delete.marker"] = facts[
            "marker"
        ]
    if "unavailable" in facts:
        expected[f"{PROPERTY}hoodie.write.partial.update.unavailable.value"] = facts["unavailable"]
    assert stored(config) == expected


@pytest.mark.parametrize("version", [6, 8])
@pytest.mark.parametrize("payload", list(NEWEST))
def test_older_versions_store_the_class_and_mean_the_same(payload: str | None, version: int) -> None:
    facts = NEWEST[payload]
    name = payload or "DefaultHoodieRecordPayload"
    ordering = {PG: "_event_lsn", MYSQL: "_event_seq"}.get(name, "ts")
    config = new(version, ordering, **({} if payload is None else {"payload": MODELS + payload}))
    plain = name in list(NEWEST)[1:4]
    mode = facts["mode"] if plain else CUSTOM
    expected = {
        "hoodie.compaction.payload.class": MODELS + name,
        "hoodie.record.merge.strategy.id": {EVENT: EVENT_ID, COMMIT: COMMIT_ID, CUSTOM: PAYLOAD_ID}[mode],
        "hoodie.table.ordering.fields": ordering,
        "hoodie.table.precombine.field": ordering,
    }
    assert stored(config) == (expected if version == 6 else {**expected, "hoodie.record.merge.mode": mode})
    merges = merge_semantics(config)
    assert (merges.mode, merges.partial_update) == (facts["mode"], facts.get("partial"))
    assert merges.ordering_fields == (ordering,)
    assert merges.binlog is (payload == MYSQL)
    assert merges.unavailable == facts.get("unavailable")
    assert config.delete_marker == facts.get("marker")
    check_mergeable(config, "t")


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        (9, {"hoodie.record.merge.mode": CUSTOM, "hoodie.record.merge.strategy.id": OWN}),
        (
            8,
            {
                "hoodie.record.merge.mode": CUSTOM,
                "hoodie.record.merge.strategy.id": OWN,
                "hoodie.compaction.payload.class": f"{MODELS}DefaultHoodieRecordPayload",
                "hoodie.table.precombine.field": "ts",
            },
        ),
    ],
)
def test_a_merger_of_the_user_s_is_stored_by_id(version: int, expected: dict[str, str]) -> None:
    for given in ({"strategy": OWN}, {"strategy": OWN, "mode": CUSTOM}):
        config = new(version, **given)
        assert stored(config) == {**expected, "hoodie.table.ordering.fields": "ts"}
        merges = merge_semantics(config)
        assert (merges.mode, merges.strategy_id, merges.is_known) == (CUSTOM, OWN, True)
        check_consistent(config, resolve({"hoodie.write.record.merge.strategy.id": OWN.upper()}), "t")
        with pytest.raises(InvalidArgumentError, match="contradicts"):
            check_consistent(config, resolve({"hoodie.write.record.merge.strategy.id": EVENT_ID}), "t")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mode": CUSTOM}, "CUSTOM needs"),
        ({"mode": COMMIT, "strategy": EVENT_ID}, "contradict"),
        ({"mode": COMMIT, "payload": MODELS + PARTIAL}, "contradict"),
        ({"strategy": "keep-highest"}, "no UUID"),
        ({"strategy": OWN, "payload": MODELS + "DefaultHoodieRecordPayload"}, "contradict"),
        ({"strategy": OWN, "payload": MODELS + PARTIAL}, "contradict"),
        ({"payload": MODELS + PARTIAL, "ordering": ""}, "needs an ordering"),
        ({"payload": MODELS + PG}, "orders by _event_lsn"),
    ],
)
def test_options_that_contradict_each_other(given: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=words):
        new(9, **given)


@pytest.mark.parametrize(
    ("version", "given", "words"),
    [
        (9, {"payload": "com.example.Own"}, "com.example.Own"),
        (9, {"strategy": "1897ef5f-18bc-4557-939c-9d6a8afd1519"}, "Hudi's own"),
        (9, {"strategy": PAYLOAD_ID}, "Hudi's own"),
        (6, {"strategy": OWN}, "version 6"),
    ],
)
def test_what_no_merger_can_be_found_for(version: int, given: dict[str, str], words: str) -> None:
    with pytest.raises(NotSupportedError, match=words):
        new(version, **given)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_class_that_is_not_known_is_not_merged(version: int) -> None:
    properties = new(version).to_properties() | {
        "hoodie.record.merge.mode": CUSTOM,
        "hoodie.compaction.payload.class": "com.example.Own",
        "hoodie.record.merge.strategy.id": PAYLOAD_ID,
    }
    config = TableConfig.parse(properties, table="t")
    with pytest.raises(NotSupportedError, match=r"com\.example\.Own"):
        check_mergeable(config, "t")


def test_an_upgraded_table_keeps_its_merger_s_place() -> None:
    """The upgrade from version 8 leaves the strategy id of the mode beside the legacy class."""
    upgraded = new(9, payload=MODELS + PARTIAL).to_properties() | {"hoodie.record.merge.strategy.id": EVENT_ID}
    merges = merge_semantics(TableConfig.parse(upgraded, table="t"))
    assert (merges.mode, merges.partial_update, merges.strategy_id) == (EVENT, "IGNORE_DEFAULTS", None)


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_job_s_payload_class_agrees_with_the_table(version: int) -> None:
    config = new(version, payload=MODELS + PARTIAL)
    check_consistent(config, resolve({"hoodie.datasource.write.payload.class": MODELS + PARTIAL}), "t")
    for other in (NON_DEFAULTS, "DefaultHoodieRecordPayload", "OverwriteWithLatestAvroPayload"):
        with pytest.raises(InvalidArgumentError, match="contradicts"):
            check_consistent(config, resolve({"hoodie.datasource.write.payload.class": MODELS + other}), "t")
