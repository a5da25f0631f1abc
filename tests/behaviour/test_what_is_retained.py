"""Readers that meet what a clean removed are told what they can still read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.layouts import Layout
from support.trips import SCHEMA, table, trip

OPTIONS = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}


def written(path: Path, layout: Layout) -> pudi.Table:
    pudi.create(path, SCHEMA, **layout.create_arguments())
    mine = pudi.Table(path, options=OPTIONS)
    for ts in range(1, 8):
        mine.upsert(table([trip(0, ts), trip(1, ts)]))
        mine.compact() if layout.kind == "mor" else None
    return mine


def commits(mine: pudi.Table) -> list[str]:
    return [each.requested for each in mine.timeline.commits]


@pytest.mark.parametrize(
    "layout", [Layout(), Layout(version=6), Layout(kind="mor"), Layout(version=6, kind="mor")], ids=str
)
def test_by_commits(tmp_path: Path, layout: Layout) -> None:
    """Time travel, changes, and scans that were made before the clean."""
    mine = written(tmp_path / "trips", layout)
    done = commits(mine)
    saved, kept = done[0], done[-2]
    since, old_one, until = done[1:4] if layout.kind == "cow" else done[5:8]
    mine.savepoint(saved)
    old, feed = mine.scan(as_of=old_one), mine.changes(since=since, until=until, format="cdc")
    assert old.plan.slices
    assert mine.clean(options={"hoodie.clean.commits.retained": "2"})
    told = f"the earliest commit that cleans kept is {kept}; savepoints keep {saved}"
    reads: dict[str, Callable[[], object]] = {
        "time travel": lambda: mine.scan(as_of=old_one),
        "an older scan": old.to_arrow,
        "changes": lambda: mine.changes(since=since, until=until).to_arrow(),
        "change data": lambda: mine.changes(since=since, until=until, format="cdc"),
        "an older feed": feed.to_arrow,
    }
    for name, read in reads.items():
        with pytest.raises(pudi.NotFoundError) as caught:
            read()
        assert told in str(caught.value), f"{name}: {caught.value}"
    for instant in (saved, kept, done[-1]):
        assert mine.scan(as_of=instant).to_arrow().num_rows == 2


def test_by_slices(tmp_path: Path) -> None:
    mine = written(tmp_path / "trips", Layout())
    done = commits(mine)
    mine.insert_overwrite(table([trip(0, 9)]))
    cleaned = mine.clean(options={"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS"})
    assert cleaned is not None
    with pytest.raises(pudi.NotFoundError, match=f"the last clean, {cleaned.instant}, kept some slices"):
        mine.scan(as_of=done[-1])
    with pytest.raises(pudi.NotFoundError, match=f"the last clean, {cleaned.instant}, kept some slices"):
        mine.changes(since=done[0], format="cdc")


def test_a_lost_file_is_not_said_to_be_cleaned(tmp_path: Path) -> None:
    mine = written(tmp_path / "trips", Layout())
    scan = mine.scan()
    (tmp_path / "trips" / scan.plan.slices[0].path).unlink()
    with pytest.raises(pudi.NotFoundError) as caught:
        mine.scan().to_arrow()
    assert "kept" not in str(caught.value)


@pytest.mark.spark
def test_in_spark_workers(spark: Any, tmp_path: Path) -> None:
    """What Spark's own reader meets it says in its own words; here pudi's readers run in Python workers."""
    mine = written(tmp_path / "trips", Layout(kind="mor"))
    done = commits(mine)
    mine.upsert(table([trip(0, 9)]))
    frame = mine.changes(since=done[5], until=done[7], format="cdc").to_spark(spark)
    mine.clean(options={"hoodie.clean.commits.retained": "2"})
    with pytest.raises(Exception, match=f"NotFoundError.*the earliest commit that cleans kept is {commits(mine)[-2]}"):
        frame.collect()


@pytest.mark.parametrize("metadata", ["true", "false"])
@pytest.mark.parametrize("version", ["6", "8", "9"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_moment_of_which_some_slices_are_kept_is_refused(
    kind: str, version: str, metadata: str, tmp_path: Path
) -> None:
    """The commit that is asked for has its own file; another file group's slice of then is gone."""
    options = {"hoodie.write.table.version": version, "hoodie.metadata.enable": metadata}
    mine = pudi.create(
        tmp_path / "t", {"id": "string", "p": "string", "n": "int"}, record_key="id", partition_by="p",
        table_type=kind, options=options | {"hoodie.clean.automatic": "false"},
    )  # fmt: skip
    for number, part in enumerate("xyxxx"):
        mine.upsert(pa.table({"id": [part], "p": [part], "n": pa.array([number], pa.int32())}))
        if kind == "mor" and number == 3:
            mine.compact()
    moments = [each.requested for each in mine.timeline.commits]
    before = {each: mine.scan(["id", "n"], as_of=each).to_arrow().sort_by("id").to_pylist() for each in moments}
    one = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
    assert mine.clean(options=one) is not None
    refused = []
    for moment in moments:
        try:
            assert mine.scan(["id", "n"], as_of=moment).to_arrow().sort_by("id").to_pylist() == before[moment]
        except pudi.NotFoundError as error:
            assert "kept some slices" in str(error)
            refused.append(moment)
    assert moments[1] in refused
    assert moments[-1] not in refused


@pytest.mark.parametrize("metadata", ["true", "false"])
def test_a_moment_after_an_archived_clustering_is_whole(metadata: str, tmp_path: Path) -> None:
    """What the clustering had replaced by then was deleted after the moment, and isn't missing from it."""
    options = {
        **OPTIONS,
        "hoodie.metadata.enable": metadata,
        "hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.clean.fileversions.retained": "1",
        "hoodie.keep.min.commits": "5",
        "hoodie.keep.max.commits": "6",
        "hoodie.metadata.compact.max.delta.commits": "1",
    }
    pudi.create(tmp_path / "t", {"id": "string", "p": "string"}, record_key="id", partition_by="p", options=options)
    mine = pudi.Table(tmp_path / "t", options=options)
    for name in ("a1", "a2", "cluster", "b1", "c1", "d1", "clean", "e1", "f1", "g1"):
        if name == "cluster":
            clustered = mine.cluster(partitions="a")
            assert clustered is not None
        elif name == "clean":
            assert mine.clean() is not None
        else:
            mine.bulk_insert(pa.table({"id": [name], "p": [name[0]]}))
    moments = commits(mine)
    assert mine.archive()
    left = commits(mine)
    assert clustered.instant not in left
    kept = [moment for moment in moments if moment in left]
    found = [mine.scan(as_of=moment).to_arrow().num_rows for moment in kept]
    assert found == list(range(8 - len(kept) + 1, 9))
    assert len(kept) > 3, "the clean is newer than some of them"
