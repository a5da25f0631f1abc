"""What real Hudi says of a metadata table: its validation, and its reading of partitions held to its own scan."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.record_index import Place, _file_id


def assert_hudi_finds_no_difference(spark: Any, path: Path) -> None:
    """Hudi's own comparison of the metadata table's files with the folders, and its listing of them."""
    name = f"validated_{abs(hash(path))}"
    spark.sql(f"CREATE TABLE IF NOT EXISTS {name} USING hudi LOCATION '{path}'")
    try:
        rows = spark.sql(f"CALL validate_metadata_table_files(table => '{name}', verbose => true)").collect()
        partitions = spark.sql(f"CALL show_metadata_table_partitions(table => '{name}')").collect()
    finally:
        spark.sql(f"DROP TABLE {name}")
    assert rows, "the procedure compared nothing"
    wrong = [
        row for row in rows if not (row["is_present_in_fs"] and row["is_present_in_metadata"])
        or row["fs_size"] != row["metadata_size"]
    ]  # fmt: skip
    assert not wrong, wrong
    there = {str(marker.parent.relative_to(path)) for marker in _markers(path)}
    assert {row[0] or "." for row in partitions} >= there


def _markers(path: Path) -> list[Path]:
    found = path.rglob(".hoodie_partition_metadata")
    return [marker for marker in found if ".hoodie" not in marker.relative_to(path).parts[:-1]]


def assert_hudi_reads_the_record_index(spark: Any, path: Path) -> None:
    """Each key is where Hudi's own reading of the record index says, by Hudi's own scan of the table, and no other is.

    It's what HoodieMetadataTableValidator calls the content of the record index; the bundle for Spark doesn't have it.
    """
    records = spark.read.format("hudi").load(f"{path}/.hoodie/metadata").where("type = 5")
    by_index: dict[str, Place] = {}
    for row in records.select("key", "recordIndexMetadata").collect():
        info = row["recordIndexMetadata"].asDict()
        assert row["key"] not in by_index, row["key"]
        by_index[row["key"]] = (info["partitionName"], _file_id(info))
    table = spark.read.format("hudi").option("hoodie.metadata.enable", "false").load(str(path))
    rows = table.select("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name").collect()
    by_scan = {row[0]: (row[1], row[2].split("_")[0]) for row in rows}
    assert len(by_scan) == len(rows)
    assert by_index == by_scan


def files_read(frame: Any) -> int:
    """How many file slices Spark's scan of a frame read, by its own metric; the frame's rows are collected."""
    frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    leaves = plan.collectLeaves()
    assert leaves.size() == 1, plan.toString()
    return int(leaves.head().metrics().apply("numFiles").value())
