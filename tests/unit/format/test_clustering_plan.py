"""Plans of clusterings, as bytes: what is written is read back, Hudi's order of log files is understood."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pudi.errors import CorruptError, NotSupportedError
from pudi.format import (
    CompactionOperation,
    RequestedReplaceMetadata,
    decode_requested_replace_metadata,
    encode_requested_replace_metadata,
)
from pudi.format.plans import (
    ClusteringGroup,
    ClusteringPlan,
    decode_clustering_plan,
    encode_clustering_plan,
    group_sizes,
)

FILE = "8e5e4922-bf07-4aca-be0b-96df076b87ff-0"
BASE = f"{FILE}_2-586-1251_20261121092128547.parquet"
LOGS = (f".{FILE}_20261121092128548.log.1_0-1-2", f".{FILE}_20261121092128549.log.1_0-1-2")
SLICES = (
    CompactionOperation("nyc", FILE, "20261121092128547", BASE, LOGS),
    CompactionOperation("nyc", FILE, "20261121092128548", None, LOGS),
)
PLAN = ClusteringPlan((ClusteringGroup(SLICES, 3, {"TOTAL_LOG_FILES": 4.0}),), params={"a": "b"})


def test_a_plan_is_read_back() -> None:
    assert decode_clustering_plan(encode_clustering_plan(PLAN, "s3://lake/trips")) == PLAN


def test_files_are_named_by_whole_paths_the_newest_log_file_first() -> None:
    record = decode_requested_replace_metadata(encode_clustering_plan(PLAN, "/lake/trips"))
    assert record.operation_type == "CLUSTER"
    assert record.clustering_plan is not None
    first, second = record.clustering_plan["inputGroups"][0]["slices"]
    assert first["dataFilePath"] == f"/lake/trips/nyc/{BASE}"
    assert first["deltaFilePaths"] == [f"/lake/trips/nyc/{name}" for name in LOGS[::-1]]
    assert second["dataFilePath"] == ""


def test_metrics_are_sums() -> None:
    found = group_sizes([(3 << 20, 1 << 20, 2), (0, 100, 1)], 8 << 20)
    assert found == {"TOTAL_LOG_FILES": 3.0, "TOTAL_IO_MB": 15.0, "TOTAL_IO_READ_MB": 4.0,
                     "TOTAL_LOG_FILES_SIZE": (1 << 20) + 100.0, "TOTAL_IO_WRITE_MB": 11.0}  # fmt: skip


def test_a_plan_that_is_none_is_refused() -> None:
    with pytest.raises(CorruptError, match="without a plan"):
        decode_clustering_plan(b"")


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"fileId": None}, CorruptError, "without file group"),
        ({"dataFilePath": "/lake/trips/nyc/notes.txt"}, CorruptError, "names no data file"),
        ({"dataFilePath": "", "deltaFilePaths": []}, CorruptError, "names no data file"),
        ({"deltaFilePaths": ["x"]}, CorruptError, "names no data file"),
        ({"partitionPath": "sf"}, CorruptError, "several partitions"),
        ({"partitionPath": "../other"}, CorruptError, "can't be one"),
        ({"partitionPath": "/etc"}, CorruptError, "can't be one"),
        ({"bootstrapFilePath": "/old/file.parquet"}, NotSupportedError, "bootstrapped"),
    ],
)
def test_slices_that_name_no_files_are_refused(change: dict[str, object], error: type, message: str) -> None:
    record = decode_requested_replace_metadata(encode_clustering_plan(PLAN, "/lake/trips"))
    assert record.clustering_plan is not None
    record.clustering_plan["inputGroups"][0]["slices"][0].update(change)
    with pytest.raises(error, match=message):
        decode_clustering_plan(encode_requested_replace_metadata(record))


@pytest.mark.parametrize(
    ("change", "message"), [({"version": 2}, "version 2"), ({"preserveHoodieMetadata": False}, "new commit times")]
)
def test_plans_that_mean_something_else_are_refused(change: dict[str, object], message: str) -> None:
    record = decode_requested_replace_metadata(encode_clustering_plan(PLAN, "/lake/trips"))
    assert record.clustering_plan is not None
    changed = replace(record, clustering_plan={**record.clustering_plan, **change})
    assert isinstance(changed, RequestedReplaceMetadata)
    with pytest.raises(NotSupportedError, match=message):
        decode_clustering_plan(encode_requested_replace_metadata(changed))
