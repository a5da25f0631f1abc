"""Options given to one verb hold for all that it does, its reading too."""

from __future__ import annotations

from pathlib import Path

import pudi
from pudi.format.metadata_partitions import FILES
from pudi.metadata.changes import files_changes
from support.damage import newest_slice, say
from support.trips import SCHEMA, table, trip


def test_a_compaction_that_is_told_not_to_ask_the_metadata_table_lists_folders(tmp_path: Path) -> None:
    """The metadata table has forgotten a log file, whose records a compaction by it would leave out."""
    made = pudi.create(
        tmp_path / "trips",
        SCHEMA,
        record_key="uuid",
        partition_by="city",
        ordering="ts",
        table_type="mor",
        options={"hoodie.metadata.enable": "true"},
    )
    made.bulk_insert(table([trip(number, 10) for number in range(6)]))
    for ts in (20, 30):
        made.upsert(table([trip(number, ts) for number in range(6)]))
    log = newest_slice(tmp_path / "trips").logs[-1]
    say(tmp_path / "trips", FILES, files_changes({log.partition: {log.name.name: None}}, partitions=["nyc"]))
    assert pudi.Table(made.path).compact(options={"hoodie.metadata.enable": "false"}) is not None
    assert pudi.Table(made.path).scan(read_optimized=True).to_arrow()["ts"].to_pylist() == [30] * 6
