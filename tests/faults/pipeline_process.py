"""A pipeline of three tables, raw → cleaned → totals, in one process; run and killed by test_killed_streams.py.

Both steps are streams of change data. The second one adds differences, so that a batch that counts twice, or not at
all, changes its result for good. Batches come as Arrow tables: no JVM has to start.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

import pudi
from pudi.scan.cdc_feed import ChangeFeed
from pudi.spark.streaming.runner import ChangeStream, stream_changes
from pudi.spark.streaming.sink import make_writer, query_of

ROWS = pa.schema([("id", pa.int64()), ("team", pa.string()), ("points", pa.int64())])
TOTALS = pa.schema([("team", pa.string()), ("points", pa.int64()), ("players", pa.int64())])
KEEPS_ALL = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
IDENTIFIER = "hoodie.datasource.write.streaming.checkpoint.identifier"


class Spark:
    """Stands in for a session."""

    version = "3.5.8"


def _images(batch: pa.Table, side: str) -> list[dict[str, Any]]:
    return [json.loads(text) for text in batch[side].to_pylist() if text is not None]


def _writer(path: Path, **options: str) -> Any:
    return make_writer(path, {**KEEPS_ALL, **options}, None)


def clean(folder: Path) -> Any:
    """The function of the first stream: rows without points are left out, deletes are passed on."""
    puts = _writer(folder / "cleaned", **{IDENTIFIER: "puts"})
    deletes = _writer(folder / "cleaned", **{IDENTIFIER: "deletes", "hoodie.datasource.write.operation": "delete"})

    def run(batch: pa.Table, number: int) -> None:
        last = {}  # a record may change in several commits of a batch, whose rows come in their order
        for before, after in zip(batch["before"].to_pylist(), batch["after"].to_pylist(), strict=True):
            row = json.loads(before if after is None else after)
            last[row["id"]] = None if after is None else row
        kept = [row for row in last.values() if row is not None and row["points"] > 0]
        gone = set(last) - {row["id"] for row in kept}
        query = query_of(batch)
        puts.write_rows(lambda: pa.Table.from_pylist(kept, ROWS), number, query)
        dead = [{"id": each, "team": "", "points": 0} for each in gone]
        deletes.write_rows(lambda: pa.Table.from_pylist(dead, ROWS), number, query)

    return run


def add_up(folder: Path) -> Any:
    """The function of the second stream: points and players of each team, by differences."""
    writer = _writer(folder / "totals")

    def run(batch: pa.Table, number: int) -> None:
        def totals() -> pa.Table:
            found = {
                row["team"]: row for row in pudi.Table(folder / "totals").scan(TOTALS.names).to_arrow().to_pylist()
            }
            for side, sign in (("before", -1), ("after", 1)):
                for row in _images(batch, side):
                    total = found.setdefault(row["team"], {"team": row["team"], "points": 0, "players": 0})
                    total["points"] += sign * row["points"]
                    total["players"] += sign
            return pa.Table.from_pylist(list(found.values()), TOTALS)

        writer.write_rows(totals, number, query_of(batch))

    return run


def stream(folder: Path, source: str, function: Any, *, available_now: bool) -> ChangeStream:
    return stream_changes(
        Spark(),
        folder / source,
        function,
        checkpoint=folder / f"checkpoint-{source}",
        format="cdc",
        meta_fields=False,
        interval=0.02,
        max_commits=3,
        available_now=available_now,
    )


def main(folder: Path, *, available_now: bool) -> None:
    ChangeFeed.to_spark = lambda self, spark: self.to_arrow()  # type: ignore[method-assign]
    first = stream(folder, "raw", clean(folder), available_now=available_now)
    if available_now:
        first.awaitTermination()
    second = stream(folder, "cleaned", add_up(folder), available_now=available_now)
    print("ready", flush=True)
    for each in (second, first):
        each.awaitTermination()


if __name__ == "__main__":
    main(Path(sys.argv[1]), available_now=sys.argv[2:] == ["now"])
