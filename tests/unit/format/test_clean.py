"""Plans of cleans: a file's own schema may say anything, and only texts get through."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import fastavro
import pytest

from pudi.errors import CorruptError
from pudi.format.plans import CleanPlan, decode_clean_plan, encode_clean_plan

ANY = ["null", "long", "string"]
PLAN = CleanPlan(("20260101000000000", "commit"), "20260102000000000", {"rome": ("/t/rome/a",)}, extra={"k": "v"})
RECORD = {
    "policy": "KEEP_LATEST_COMMITS",
    "lastCompletedCommitTimestamp": "20260102000000000",
    "earliestInstantToRetain": {"timestamp": "20260101000000000", "action": "commit"},
    "filePathsToBeDeletedPerPartition": {"rome": [{"filePath": "/t/rome/a", "isBootstrapBaseFile": False}]},
    "extraMetadata": {"k": "v"},
}


def encoded(record: dict[str, Any]) -> bytes:
    """A plan by a schema in which every text may be something else."""

    def made(name: str, **fields: Any) -> dict[str, Any]:
        return {"type": "record", "name": name, "fields": [{"name": f, "type": kind} for f, kind in fields.items()]}

    path = made("Path", filePath=ANY, isBootstrapBaseFile="boolean")
    files = {"type": "map", "values": {"type": "array", "items": path}}
    earliest = ["null", made("Earliest", timestamp=ANY, action=ANY)]
    extra = {"type": "map", "values": ANY}
    schema = made(
        "HoodieCleanerPlan",
        policy=ANY,
        lastCompletedCommitTimestamp=ANY,
        earliestInstantToRetain=earliest,
        filePathsToBeDeletedPerPartition=files,
        extraMetadata=extra,
    )
    content = BytesIO()
    fastavro.writer(content, schema, [record])
    return content.getvalue()


def test_a_plan_comes_back() -> None:
    assert decode_clean_plan(encode_clean_plan(PLAN)) == decode_clean_plan(encoded(RECORD)) == PLAN


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy": None},
        {"policy": 1},
        {"lastCompletedCommitTimestamp": 20260102000000000},
        {"earliestInstantToRetain": {"timestamp": None, "action": "commit"}},
        {"earliestInstantToRetain": {"timestamp": "20260101000000000", "action": 1}},
        {"filePathsToBeDeletedPerPartition": {"rome": [{"filePath": None, "isBootstrapBaseFile": False}]}},
        {"filePathsToBeDeletedPerPartition": {"rome": [{"filePath": 1, "isBootstrapBaseFile": False}]}},
        {"extraMetadata": {"k": None}},
    ],
    ids=str,
)
def test_what_is_no_text_is_refused_before_anything_is_deleted(wrong: dict[str, Any]) -> None:
    with pytest.raises(CorruptError, match="no plan of a clean"):
        decode_clean_plan(encoded(RECORD | wrong))
