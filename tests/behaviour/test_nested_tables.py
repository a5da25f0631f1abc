"""Other tables below a table's root, and links: nothing of them is read, swept up or rebuilt as the table's own."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pudi
from pudi.ingest import FileSource, Ingestion
from support.layouts import Layout
from support.rows import assert_same, from_arrow
from support.trips import SCHEMA, table, trip

LAYOUTS = [Layout(version=version, kind=kind) for version in (6, 8, 9) for kind in ("cow", "mor")]
NESTED = ["hudi", "hudi, partitioned", "hudi, two folders deep", "delta", "iceberg", "link"]
HASTY = {
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.clean.failed.writes.policy": "EAGER",
}


def content(folder: Path) -> dict[str, bytes]:
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def nest(outer: Path, what: str, apart: Path) -> Path:
    """Put another table below a table, as another program could; return the folder of its files."""
    partitions = {"partition_by": "city"} if what == "hudi, partitioned" else {}
    inner = pudi.create(apart / "inner", SCHEMA, record_key="uuid", **partitions)
    for ts in (1, 2):
        inner.upsert(table(trip(number, ts) for number in range(100, 104)))
    place = outer / ("city=x/orders" if "deep" in what else "orders")
    if what == "link":
        place.symlink_to(apart / "inner", target_is_directory=True)
        return apart / "inner"
    shutil.copytree(apart / "inner", place)
    if not what.startswith("hudi"):  # files that have Hudi's names, for the hardest case
        shutil.rmtree(place / ".hoodie")
        described = {"delta": f"_delta_log/{0:020}.json", "iceberg": "metadata/v1.metadata.json"}[what]
        (place / described).parent.mkdir()
        (place / described).write_text("{}")
    return place


@pytest.mark.metadata_by_default
@pytest.mark.sampled(14)
@pytest.mark.parametrize("metadata", [True, False], ids=["metadata", "folders"])
@pytest.mark.parametrize("what", NESTED)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_another_table_below_is_left_alone(tmp_path: Path, layout: Layout, what: str, metadata: bool) -> None:
    path = tmp_path / "lake"
    options = HASTY | {"hoodie.metadata.enable": str(metadata).lower()}
    pudi.create(path, SCHEMA, **layout.create_arguments())
    mine = pudi.Table(path, options=options)
    mine.upsert(table(trip(number, 0) for number in range(6)))
    place = nest(path, what, tmp_path)
    before = content(place)
    for ts in range(1, 5):
        mine.upsert(table(trip(number, ts) for number in range(6)))
    assert mine.check().ok, str(mine.check())
    partitions = mine.partitions()
    mine.delete_partitions([partitions[0]])
    assert mine.maintain(options=options).ok
    mine.repair()
    shutil.rmtree(path / ".hoodie" / "metadata", ignore_errors=True)
    mine.repair()
    mine.upsert(table([trip(1, 9)]))
    assert content(place) == before
    assert mine.check().ok, str(mine.check())
    kept = [trip(number, 4) for number in range(6)]
    kept = [row for row in kept if row["city"] not in partitions[0] and row["uuid"] != trip(1, 9)["uuid"]]
    assert_same(from_arrow(mine.scan(meta_fields=False).to_arrow()), [*kept, trip(1, 9)])
    assert not [each for each in mine.partitions() if "orders" in each]


@pytest.mark.parametrize("what", [each for each in NESTED if each != "link"])
def test_a_partition_that_is_another_table_is_refused(tmp_path: Path, what: str) -> None:
    mine = pudi.create(tmp_path / "lake", SCHEMA, record_key="uuid", partition_by="city")
    mine.insert(table([trip(1, 0)]))
    place = nest(tmp_path / "lake", what, tmp_path)
    before, named = content(place), str(place.relative_to(tmp_path / "lake"))
    for partition in (named, f"{named}/sf"):
        with pytest.raises(pudi.InvalidArgumentError, match="root of another table"):
            mine.delete_partitions([partition])
        with pytest.raises(pudi.InvalidArgumentError, match="root of another table"):
            mine.insert_overwrite(table([]), partitions=[partition])
    assert content(place) == before
    assert len(mine.timeline.commits) == 1


@pytest.mark.parametrize("what", ["hudi", "delta", "iceberg"])
@pytest.mark.parametrize("below", ["orders", "a/b/orders"])
def test_no_table_is_made_inside_or_above_another(tmp_path: Path, what: str, below: str) -> None:
    path = tmp_path / "lake"
    path.mkdir()
    place = nest(path, what, tmp_path)
    before = content(place)
    for root, why in ((place / below, "inside of another table"), (path, "another table below")):
        with pytest.raises(pudi.InvalidArgumentError, match=why):
            pudi.create(root, SCHEMA, record_key="uuid")
        assert not (root / ".hoodie" / "hoodie.properties").exists() or root == place
    assert content(place) == before
    pudi.create(path / "beside", SCHEMA, record_key="uuid")
    with pytest.raises(pudi.TableExistsError):
        pudi.create(path / "beside", SCHEMA, record_key="uuid")


@pytest.mark.parametrize("what", ["hudi", "hudi, two folders deep", "delta", "iceberg", "link"])
def test_a_folder_with_a_table_is_no_folder_of_files(tmp_path: Path, what: str) -> None:
    source = tmp_path / "source"
    (source / "city=x").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), source / "city=x" / "a.parquet")
    place = nest(source, what, tmp_path)
    before = content(place)
    with pytest.raises(pudi.PudiError, match=r"\borders\b"):
        pudi.import_table(source, tmp_path / "t", record_key="id")
    with pytest.raises(pudi.PudiError, match=r"\borders\b"):
        Ingestion(FileSource(source, "parquet"), tmp_path / "u", record_key="id").run()
    assert content(place) == before
    assert not (tmp_path / "t").exists()


def test_dropping_a_table_spares_those_below(tmp_path: Path) -> None:
    mine = pudi.create(tmp_path / "lake", SCHEMA, record_key="uuid")
    place = nest(tmp_path / "lake", "hudi", tmp_path)
    before = content(place)
    with pytest.raises(pudi.PudiError, match="another table below"):
        pudi.sql(f"DROP TABLE hudi.`{mine.path}` PURGE")
    assert content(place) == before
