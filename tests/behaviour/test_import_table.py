"""`pudi.import_table`: a folder of Parquet files becomes a table, by copies where that is possible."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pudi
from pudi.testing import SimulatedCrash
from support.disk import base_files

ROWS = 60
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
TYPES = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int32()),
        ("big", pa.int64()),
        ("f", pa.float64()),
        ("b", pa.bool_()),
        ("d", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("raw", pa.binary()),
        ("price", pa.decimal128(9, 2)),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("place", pa.struct([("x", pa.int32()), ("name", pa.string())])),
        ("more", pa.map_(pa.string(), pa.int64())),
    ]
)


def rows_of(first: int, count: int = ROWS) -> pa.Table:
    """Rows of all types, with nulls in all columns but the key."""
    return pa.Table.from_pylist(
        [
            {
                "id": f"k{n:05}",
                "n": None if n % 7 == 0 else n,
                "big": n * 10**10,
                "f": None if n % 5 == 0 else n / 3,
                "b": n % 2 == 0,
                "d": dt.date(2024, 1, 1) + dt.timedelta(days=n % 50),
                "at": dt.datetime(2024, 1, 1, tzinfo=dt.timezone.utc) + dt.timedelta(seconds=n),
                "raw": bytes([n % 256]),
                "price": Decimal(n) / 100,
                "tags": None if n % 3 == 0 else [f"t{n}", None],
                "place": {"x": n, "name": None},
                "more": [("a", n)],
            }
            for n in range(first, first + count)
        ],
        TYPES,
    )


def make(path: Path, rows: pa.Table, **settings: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, path, **settings)


def state(folder: Path) -> dict[str, str]:
    return {
        str(file.relative_to(folder)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in folder.rglob("*")
        if file.is_file()
    }


def read(table: pudi.Table, **options: Any) -> list[dict[str, Any]]:
    return sorted(table.scan(meta_fields=False, **options).to_arrow().to_pylist(), key=lambda row: str(row["id"]))


def codecs(table: pudi.Table, column: str) -> set[str]:
    """The codecs of a column's chunks: those of the source where chunks were copied."""
    found = set()
    for file in base_files(Path(table.path)):
        footer = pq.read_metadata(file)
        for group in range(footer.num_row_groups):
            chunks = (footer.row_group(group).column(n) for n in range(footer.num_columns))
            found |= {chunk.compression for chunk in chunks if chunk.path_in_schema == column}
    return found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Two Hive-style folders."""
    make(tmp_path / "src" / "city=nyc" / "a.parquet", rows_of(0), compression="snappy")
    make(tmp_path / "src" / "city=sf" / "b.parquet", rows_of(ROWS), compression="gzip")
    make(tmp_path / "src" / "city=__HIVE_DEFAULT_PARTITION__" / "c.parquet", rows_of(2 * ROWS))
    (tmp_path / "src" / "_SUCCESS").touch()
    return tmp_path / "src"


def expected() -> list[dict[str, Any]]:
    cities = ["nyc", "sf", None]
    return [{**row, "city": cities[n // ROWS]} for n, row in enumerate(rows_of(0, 3 * ROWS).to_pylist())]


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_chunks_are_copied_and_the_source_stays(source: Path, tmp_path: Path, table_type: str) -> None:
    before = state(source)
    options = {"hoodie.metadata.enable": "true", "hoodie.metadata.record.index.enable": "true"}
    options |= {"hoodie.metadata.index.column.stats.enable": "true"}
    table = pudi.import_table(
        source, tmp_path / "t", record_key="id", ordering="big", table_type=table_type, options=options
    )
    assert state(source) == before
    assert read(table) == expected()
    assert table.partitions() == ["city=__HIVE_DEFAULT_PARTITION__", "city=nyc", "city=sf"]
    assert codecs(table, "f") == {"SNAPPY", "GZIP"}
    assert codecs(table, "_hoodie_commit_time") == {"ZSTD"}
    assert table.check().ok
    assert [row["id"] for row in read(table, where="n = 65")] == ["k00065"]
    assert len(table.scan(where="big > 1000000000000").plan.slices) == 2  # statistics of copied chunks prune
    changed = rows_of(3, 2).append_column("city", pa.array(["nyc", "nyc"]))
    table.upsert(changed.set_column(1, "n", pa.array([-1, -2], pa.int32())))
    assert {row["id"]: row["n"] for row in read(table, where="n < 0")} == {"k00003": -1, "k00004": -2}
    assert table.check().ok
    [first, *_] = table.timeline.commits
    assert table.scan(as_of=first.requested).to_arrow().num_rows == 3 * ROWS


@pytest.mark.parametrize("copy", [True, False])
def test_copies_and_rewritten_files_hold_the_same(source: Path, tmp_path: Path, copy: bool) -> None:
    table = pudi.import_table(source, tmp_path / "t", record_key="id", copy=copy)
    assert read(table) == expected()
    assert ("SNAPPY" in codecs(table, "f")) == copy


def test_folders_without_partitions_and_keys_that_are_generated(tmp_path: Path) -> None:
    make(tmp_path / "src" / "one" / "a.parquet", rows_of(0))
    make(tmp_path / "src" / "two" / "b.parquet", rows_of(0))  # the same rows: there are no keys to be unique
    table = pudi.import_table(tmp_path / "src")
    assert table.path == f"{tmp_path / 'src'}_hudi"
    assert read(table) == sorted(rows_of(0).to_pylist() * 2, key=lambda row: str(row["id"]))
    keys = table.scan(columns=["_hoodie_record_key"]).to_arrow()["_hoodie_record_key"].to_pylist()
    assert len(set(keys)) == 2 * ROWS


def test_rows_decide_on_partitions_and_files_of_other_columns_are_fitted(tmp_path: Path) -> None:
    make(tmp_path / "src" / "a.parquet", pa.table({"id": pa.array([1, 2], pa.int32()), "day": ["x", "y"], "n": [1, 2]}))
    make(
        tmp_path / "src" / "b.parquet",
        pa.table(
            {"id": pa.array([3, 4], pa.int64()), "n": pa.array([3.5, 4.5]), "day": ["x", None], "new": ["p", "q"]}
        ),
    )
    table = pudi.import_table(tmp_path / "src", tmp_path / "t", record_key=["id"], partition_by="day", ordering="n")
    assert table.schema.field("n").type == pa.float64()
    assert table.schema.field("id").type == pa.int32()  # a key keeps its type
    assert [tuple(row.values()) for row in read(table)] == [
        (1, "x", 1.0, None),
        (2, "y", 2.0, None),
        (3, "x", 3.5, "p"),
        (4, None, 4.5, "q"),
    ]
    assert table.partitions() == ["__HIVE_DEFAULT_PARTITION__", "x", "y"]
    assert table.check().ok


def test_required_columns_nanoseconds_and_dictionaries(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("at", pa.timestamp("ns")), ("c", pa.string())])
    at = dt.datetime(2024, 5, 1, 12)
    rows = pa.table({"id": pa.array([1, 2]), "at": pa.array([at, None], pa.timestamp("ns")), "c": ["a", "a"]}, schema)
    make(tmp_path / "src" / "a.parquet", rows)
    make(tmp_path / "src2" / "a.parquet", rows.drop_columns(["at"]), compression="snappy")
    table = pudi.import_table(tmp_path / "src", tmp_path / "t", record_key="id")
    assert read(table) == [{"id": 1, "at": at, "c": "a"}, {"id": 2, "at": None, "c": "a"}]
    table = pudi.import_table(tmp_path / "src2", tmp_path / "t2", record_key="id")
    assert codecs(table, "id") == {"SNAPPY"}  # a required column is copied as such
    table.upsert(pa.table({"id": [2, 3], "c": ["b", "c"]}))
    assert read(table) == [{"id": 1, "c": "a"}, {"id": 2, "c": "b"}, {"id": 3, "c": "c"}]


def test_many_small_files_become_few_and_large_ones_are_divided(tmp_path: Path) -> None:
    for n in range(20):
        make(tmp_path / "src" / f"{n:02}.parquet", rows_of(n * 5, 5))
    table = pudi.import_table(tmp_path / "src", tmp_path / "t", record_key="id")
    assert len(table.file_slices()) == 1
    assert read(table) == rows_of(0, 100).to_pylist()
    rows = pa.table({"id": pa.array(range(60_000)), "v": [f"{n * 7919 % 60_013}" for n in range(60_000)]})
    make(tmp_path / "large" / "a.parquet", rows, row_group_size=15_000, compression="snappy")
    options = {"hoodie.parquet.max.file.size": "250000"}
    table = pudi.import_table(tmp_path / "large", tmp_path / "l", record_key="id", options=options)
    assert len(table.file_slices()) > 2
    assert codecs(table, "v") == {"SNAPPY"}
    assert table.scan(columns=["id", "v"]).to_arrow().sort_by("id") == rows
    assert table.check().ok


def refused(source: Path, target: Path, error: type[Exception], **settings: Any) -> str:
    """The message of an import that is refused, which leaves neither a table nor another source."""
    before = state(source)
    with pytest.raises(error) as raised:
        pudi.import_table(source, target, **{"record_key": "id", **settings})
    assert state(source) == before
    assert not target.exists() or not state(target), "something is left of the target"
    return str(raised.value)


def test_keys_are_checked_before_anything_is_committed(source: Path, tmp_path: Path) -> None:
    make(source / "city=sf" / "twice.parquet", rows_of(ROWS + 5, 2))
    text = refused(source, tmp_path / "t", pudi.InvalidArgumentError)
    assert "'k00065' in partition 'city=sf' 2 times" in text
    assert "city=sf/twice.parquet" in text and "city=sf/b.parquet" in text
    text = refused(source, tmp_path / "t", pudi.InvalidArgumentError, record_key="n")
    assert "record key (n) is null or empty in 8 of 60 rows" in text and "city=" in text
    assert "'zz'" in refused(source, tmp_path / "t", pudi.SchemaError, record_key="zz")
    (source / "city=sf" / "twice.parquet").unlink()
    make(source / "city=sf" / "other.parquet", rows_of(0, 3))  # known in another partition: that is another record
    assert pudi.import_table(source, tmp_path / "t", record_key="id").scan().to_arrow().num_rows == 3 * ROWS + 3
    text = refused(source, tmp_path / "g", pudi.InvalidArgumentError, options={"hoodie.index.type": "GLOBAL_BLOOM"})
    assert "'k0000" in text and "partition" not in text.split(";")[0]


def _truncated(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def _flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[60:90] = bytes(30)
    path.write_bytes(content)


@pytest.mark.parametrize("copy", [True, False])
@pytest.mark.parametrize(
    "damage", [_truncated, _flipped, lambda path: path.write_bytes(b""), lambda path: path.write_bytes(b"PAR1" * 9)]
)
def test_a_damaged_file_is_named_and_nothing_is_imported(source: Path, tmp_path: Path, damage: Any, copy: bool) -> None:
    damage(source / "city=sf" / "b.parquet")
    assert "city=sf/b.parquet" in refused(source, tmp_path / "t", pudi.CorruptError, copy=copy)


def test_what_is_no_import_is_refused_by_name(source: Path, tmp_path: Path) -> None:
    (source / "city=sf" / "notes.txt").write_text("x")
    assert "city=sf/notes.txt" in refused(source, tmp_path / "t", pudi.NotSupportedError)
    (source / "city=sf" / "notes.txt").unlink()
    assert "part of the source" in refused(source, source / "t", pudi.InvalidArgumentError)
    make(source / "day=1" / "d.parquet", rows_of(500, 1))
    assert "['day']" in refused(source, tmp_path / "t", pudi.InvalidArgumentError)
    (source / "day=1" / "d.parquet").unlink()
    make(source / "city=la" / "d.parquet", pa.table({"id": ["z"], "b": ["text"]}))
    text = refused(source, tmp_path / "t", pudi.SchemaError)
    assert "'b'" in text and ".parquet" in text
    (source / "city=la" / "d.parquet").unlink()
    text = refused(source, tmp_path / "t", pudi.NotSupportedError, options=BUCKETS)
    assert "bucket" in text
    (source / "city=la" / "link.parquet").symlink_to("/etc/passwd")
    refused(source, tmp_path / "t", pudi.PudiError)
    (source / "city=la" / "link.parquet").unlink()
    pudi.import_table(source, tmp_path / "t", record_key="id")
    with pytest.raises(pudi.TableExistsError, match="it has commits"):
        pudi.import_table(source, tmp_path / "t", record_key="id")
    with pytest.raises(pudi.NotSupportedError, match="Hudi table"):
        pudi.import_table(tmp_path / "t", tmp_path / "u", record_key="id")
    with pytest.raises(pudi.NotFoundError, match="no files"):
        pudi.import_table(tmp_path / "nothing", tmp_path / "u", record_key="id")


@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_of_two_imports_at_a_time_one_is_done(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_type: str
) -> None:
    from pudi.writes import import_files

    plan, begun = import_files.plan_import, []

    def planning(*args: Any) -> Any:
        if not begun:
            begun.append(True)
            pudi.import_table(source, tmp_path / "t", record_key="id", table_type=table_type)
        return plan(*args)

    monkeypatch.setattr(import_files, "plan_import", planning)
    with pytest.raises(pudi.ConflictError):
        pudi.import_table(source, tmp_path / "t", record_key="id", table_type=table_type)
    table = pudi.Table(tmp_path / "t")
    assert read(table) == expected()
    assert table.check().ok


@pytest.mark.parametrize("crash_after", [False, True], ids=["before", "after"])
def test_an_interrupted_import_is_taken_up_again(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, crash_after: bool
) -> None:
    from pudi.storage import open_storage
    from pudi.testing import FaultStorage

    used: list[FaultStorage] = []

    def run(target: Path, fault: Mapping[str, Any]) -> None:
        def faulty(*args: Any, **more: Any) -> FaultStorage:
            used.append(FaultStorage(open_storage(*args, **more), **fault))
            return used[-1]

        with monkeypatch.context() as during:
            during.setattr("pudi.writes.create.open_storage", faulty)
            pudi.import_table(source, target, record_key="id")

    before = state(source)
    run(tmp_path / "whole", {})
    outcomes = set()
    for number in range(1, used[0].calls + 1, 11):
        target = tmp_path / str(number)
        with pytest.raises(SimulatedCrash):
            run(target, {"fail_at": number, "mode": "crash", "crash_after": crash_after})
        assert state(source) == before
        try:
            table = pudi.import_table(source, target, record_key="id")
            outcomes.add("again")
        except pudi.TableExistsError:
            table = pudi.Table(target)
            outcomes.add("done")
        assert read(table) == expected(), number
        table.upsert(rows_of(0, 1).append_column("city", pa.array(["nyc"])))
        assert table.check().ok, number
    assert "again" in outcomes
