"""Partitions that are added before they hold records."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from support.layouts import Layout

LAYOUTS = [
    pytest.param(
        Layout(version=version, kind=kind), listed, id=f"{kind}, {version}, {'listed' if listed else 'folders'}"
    )
    for kind in ("cow", "mor")
    for version in (6, 8, 9)
    for listed in (False, True)
]
SCHEMA = pa.schema([("id", pa.int32()), ("day", pa.string())])


def rows(*days: str) -> pa.Table:
    return pa.table({"id": range(len(days)), "day": days}, schema=SCHEMA)


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("layout", "listed"), LAYOUTS)
def test_a_table_with_added_partitions_is_sound(layout: Layout, listed: bool, tmp_path: Path) -> None:
    options = {"hoodie.metadata.enable": str(listed).lower(), "hoodie.write.auto.upgrade": "false"}
    arguments = {**layout.create_arguments(), "partition_by": "day", "record_key": "id", "ordering": None}
    made = arguments.pop("options", None) or {}
    table = pudi.create(tmp_path / "t", SCHEMA, options={**made, **options}, **arguments)
    table.insert(rows("x", "y"))
    names = [table.partition_path({"day": day}) for day in ("x", "y", "z")]
    table.add_partitions(names[2:])
    assert table.partitions() == names[:2]
    assert table.partitions(empty=True) == (names[:2] if listed else names)
    assert table.scan().to_arrow().num_rows == 2
    table.maintain()
    assert table.check().differences == ()
    table.upsert(rows("z"))
    table.delete_partitions(names[2:])
    assert table.partitions(empty=True) == names[:2]
    assert table.check().differences == ()


def test_partitions_without_records_are_dropped(tmp_path: Path) -> None:
    table = pudi.create(tmp_path / "t", SCHEMA, partition_by="day")
    table.add_partitions(["x", "y"])
    assert table.partitions(empty=True) == ["x", "y"]
    assert table.delete_partitions(["x"]) is not None
    assert table.delete_partitions(["x", "z"]) is None
    assert table.timeline.commits[0].action.value == "replacecommit"


def test_an_added_partition_does_not_expire_at_once(tmp_path: Path) -> None:
    table = pudi.create(tmp_path / "t", SCHEMA, partition_by="day")
    table.add_partitions(["x"])
    table.insert(rows("x"))
    assert (
        table.run_ttl(
            options={
                "hoodie.partition.ttl.strategy.type": "KEEP_BY_CREATION_TIME",
                "hoodie.partition.ttl.strategy.days.retain": "1",
            }
        )
        is None
    )
    assert table.partitions() == ["x"]


@pytest.mark.parametrize(
    ("partitions", "error", "message"),
    [
        (["new", "x"], pudi.TableExistsError, "x already"),
        (["new", "../x"], pudi.InvalidArgumentError, "folder"),
        ("new", pudi.InvalidArgumentError, "one text"),
        (["new", ".hoodie/x"], pudi.InvalidArgumentError, "folder"),
    ],
)
def test_nothing_is_added_beside_a_wrong_one(
    partitions: list[str] | str, error: type[pudi.PudiError], message: str, tmp_path: Path
) -> None:
    table = pudi.create(tmp_path / "t", SCHEMA, partition_by="day")
    table.insert(rows("x"))
    with pytest.raises(error, match=message):
        table.add_partitions(partitions)
    assert not (tmp_path / "t" / "new").exists()


def test_what_is_there_may_be_named(tmp_path: Path) -> None:
    table = pudi.create(tmp_path / "t", SCHEMA, partition_by="day", options={"hoodie.metadata.enable": "false"})
    table.insert(rows("x"))
    before = (tmp_path / "t" / "x" / ".hoodie_partition_metadata").read_bytes()
    table.add_partitions(["x", "y"], exists_ok=True)
    assert (tmp_path / "t" / "x" / ".hoodie_partition_metadata").read_bytes() == before
    assert table.partitions(empty=True) == ["x", "y"]


def test_a_table_without_partitions_takes_none(tmp_path: Path) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match="isn't partitioned"):
        pudi.create(tmp_path / "t", SCHEMA).add_partitions(["x"])
