"""What `IGNORE_DEFAULTS` takes for a default, as Java compares values in each version, and what marks deletes."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from pudi.config import MergeMode, PartialUpdate, TableConfig, resolve
from pudi.config.new_table import NewTable
from pudi.merge import MergeRule, Versions, latest_per_key, merge_rule

MODELS = "org.apache.hudi.common.model."
SCHEMA = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [
            {"name": "id", "type": "string"},
            {"name": "ts", "type": ["null", "long"], "default": None},
            {"name": "small", "type": ["int", "null"], "default": 7},
            {"name": "large", "type": ["long", "null"], "default": 1000},
            {"name": "flag", "type": "boolean", "default": False},
            {"name": "text", "type": "string", "default": "none"},
        ],
    }
)


@pytest.mark.parametrize(
    ("version", "payload", "defaults"),
    [
        (9, "OverwriteNonDefaultsWithLatestAvroPayload", {"small": 7, "flag": False}),
        (9, "PartialUpdateAvroPayload", {"small": 7, "flag": False}),
        (9, "DefaultHoodieRecordPayload", {}),
        (8, "OverwriteNonDefaultsWithLatestAvroPayload", {"small": 7, "large": 1000, "flag": False, "text": "none"}),
        (6, "PartialUpdateAvroPayload", {}),
    ],
)
def test_defaults(version: int, payload: str, defaults: dict[str, object]) -> None:
    options = {"hoodie.write.table.version": str(version), "hoodie.datasource.write.payload.class": MODELS + payload}
    new = NewTable(name="t", create_schema=SCHEMA, record_key=["id"], ordering=["ts"])
    config = TableConfig.new(new, resolve(options), table="t")
    assert dict(merge_rule(config).defaults) == defaults
    assert merge_rule(config, avro_schema=json.dumps({"type": "record", "name": "r", "fields": []})).defaults == ()


def test_defaults_are_filled() -> None:
    rule = MergeRule(
        MergeMode.COMMIT_TIME, partial_update=PartialUpdate.IGNORE_DEFAULTS, defaults=(("n", 7), ("b", False))
    )
    rows = pa.table({"k": ["x", "x"], "n": pa.array([1, 7], pa.int32()), "b": [True, False], "t": ["old", ""]})
    assert latest_per_key(rows, "k", rule).to_pylist() == [{"k": "x", "n": 1, "b": True, "t": ""}]


def test_flinks_operations_count_in_files_alone() -> None:
    rows = pa.table({"_hoodie_operation": ["I", "-U", "U", "D", None]})
    rule = MergeRule(MergeMode.COMMIT_TIME)
    stored = Versions.of(rows, rule, operations=rows["_hoodie_operation"])
    assert stored.deleted.tolist() == [False, True, False, True, False]
    assert not Versions.of(rows, rule).deleted.any()
