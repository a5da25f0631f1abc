"""Hudi 0.15, 1.0 and 1.1 and pudi take turns on tables of the versions that each release writes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from support.other_hudi import RELEASES, OtherHudi

pytestmark = [pytest.mark.interop, pytest.mark.slow]

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.string()), ("p", pa.string())])
CASES = [(release, version) for release, versions in RELEASES.items() for version in versions]
SMALL = {"hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4", "hoodie.clean.commits.retained": "2"}

Rows = dict[str, tuple[str, int, str, str]]


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, OtherHudi]]:
    """A process for each release that a test asked for; they stay, since tests come in any order."""
    running: dict[str, OtherHudi] = {}
    yield running
    for each in running.values():
        each.close()


def _hudi(running: dict[str, OtherHudi], release: str, tmp: pytest.TempPathFactory) -> OtherHudi:
    if release not in running:
        running[release] = OtherHudi(release, tmp.mktemp("session"))
    return running[release]


def _data(*rows: tuple[str, int, str, str]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)


@dataclass(frozen=True)
class _Sort:
    """A sort of table: arguments of `pudi.create`, options of the table, of pudi's jobs and of Hudi's."""

    arguments: dict[str, Any] = field(default_factory=dict)
    table: dict[str, str] = field(default_factory=dict)
    mine: dict[str, str] = field(default_factory=dict)
    theirs: dict[str, str] = field(default_factory=dict)
    metadata: bool = False
    upgrades: bool = False


_INDEXES = {
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
}
_BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
SORTS = {
    "indexes": _Sort(mine=_INDEXES, theirs={**_INDEXES, "hoodie.index.type": "RECORD_INDEX"}, metadata=True),
    "buckets": _Sort(mine=_BUCKETS, theirs=_BUCKETS),
    "changes": _Sort(table={"hoodie.table.cdc.enabled": "true"}),
    "hive style": _Sort(table={"hoodie.datasource.write.hive_style_partitioning": "true"}),
    "flat": _Sort(
        {"partition_by": None},
        theirs={
            "hoodie.datasource.write.partitionpath.field": "",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.NonpartitionedKeyGenerator",
        },
    ),
    "avro logs": _Sort(mine={"hoodie.logfile.data.block.format": "avro"}),
}


class _Turns:
    """One table, written by both, and what it must hold: a row for each key, the one with the greatest `ts`."""

    def __init__(
        self, hudi: OtherHudi, path: Path, version: int, kind: str, *, metadata: bool, sort: _Sort | None = None
    ) -> None:
        self.hudi, self.path, self.rows = hudi, path, Rows()
        sort = sort or _Sort()
        self._metadata = {"hoodie.metadata.enable": str(metadata).lower()}
        self._mine = {**self._metadata, **sort.mine}
        options = {"hoodie.write.table.version": str(version), **self._metadata, **sort.table, **sort.mine}
        arguments = {"partition_by": "p", "ordering": "ts", **sort.arguments}
        pudi.create(path, SCHEMA, record_key="id", table_type=kind, name="t", options=options, **arguments)
        self._options = {
            "hoodie.table.name": "t",
            **({} if sort.upgrades else {"hoodie.write.table.version": str(version)}),
            "hoodie.write.auto.upgrade": str(sort.upgrades).lower(),
            "hoodie.datasource.write.table.type": {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[kind],
            "hoodie.datasource.write.recordkey.field": "id",
            "hoodie.datasource.write.partitionpath.field": "p",
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
            **self._metadata,
            **sort.table,
            **sort.theirs,
        }

    @property
    def table(self) -> pudi.Table:
        return pudi.Table(self.path, options=self._mine)

    def upsert(self, *rows: tuple[str, int, str, str], by_hudi: bool = False, **options: str) -> None:
        if by_hudi:
            self.hudi.write(self.path, "upsert", _data(*rows), self._options)
        else:
            self.table.upsert(_data(*rows), options=options)
        for row in rows:
            if row[0] not in self.rows or row[1] >= self.rows[row[0]][1]:
                self.rows[row[0]] = row
        self.check("upsert by Hudi" if by_hudi else "upsert")

    def delete(self, *rows: tuple[str, int, str, str], by_hudi: bool = False) -> None:
        if by_hudi:
            self.hudi.write(self.path, "delete", _data(*rows), self._options)
        else:
            self.table.delete(_data(*rows))
        for row in rows:
            del self.rows[row[0]]
        self.check("delete by Hudi" if by_hudi else "delete")

    def check(self, after: str) -> None:
        expected = [dict(zip(SCHEMA.names, row, strict=True)) for _, row in sorted(self.rows.items())]
        assert self.hudi.read(self.path, **self._metadata) == expected, f"Hudi {self.hudi.release} after {after}"
        assert _sorted(self.table.scan(meta_fields=False).to_arrow().to_pylist()) == expected, f"pudi after {after}"


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(rows, key=lambda row: str(row["id"]))


@pytest.mark.parametrize("metadata", [True, False], ids=["metadata", "no-metadata"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize(("release", "version"), CASES)
def test_turns(
    releases: dict[str, OtherHudi],
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    release: str,
    version: int,
    kind: str,
    metadata: bool,
) -> None:
    """Falling ordering values, deletes and services; Hudi reads after each step and writes in between."""
    turns = _Turns(_hudi(releases, release, tmp_path_factory), tmp_path / "t", version, kind, metadata=metadata)
    turns.upsert(("a", 5, "a5", "x"), ("b", 5, "b5", "x"), ("c", 5, "c5", "y"), ("d", 5, "d5", "y"))
    turns.upsert(("a", 3, "late", "x"), ("b", 7, "b7", "x"))
    turns.delete(("c", 5, "", "y"), ("d", 9, "", "y"))
    turns.upsert(("d", 10, "again", "y"), ("e", 1, "e1", "x"))
    turns.upsert(("a", 4, "late", "x"), ("b", 9, "b9", "x"), ("f", 2, "f2", "y"), by_hudi=True)
    turns.delete(("e", 9, "", "x"), by_hudi=True)
    turns.upsert(("a", 1, "late", "x"), ("b", 10, "b10", "x"), ("g", 2, "g2", "y"))
    if kind == "mor":
        turns.table.compact()
        turns.check("compaction")
        turns.upsert(("a", 1, "late", "x"), ("b", 11, "b11", "x"))
    turns.table.cluster()
    turns.check("clustering")
    for number in range(8):
        turns.upsert(("a", 2, "late", "x"), ("b", 20 + number, f"b{number}", "x"), **SMALL)
    hidden = tmp_path / "t" / ".hoodie"
    assert [*hidden.rglob(".commits_.archive*"), *hidden.rglob("history/*.parquet")], "something is archived"
    turns.upsert(("a", 4, "late", "x"), ("b", 99, "b99", "x"), by_hudi=True)
    turns.delete(("b", 100, "", "x"))


@pytest.mark.parametrize(("release", "version"), [case for case in CASES if case[1] < 9])
def test_a_table_without_the_older_names_gets_them_by_a_write(
    releases: dict[str, OtherHudi],
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    release: str,
    version: int,
) -> None:
    """Hudi 1.2 makes such tables, and earlier releases misread them until pudi writes."""
    turns = _Turns(_hudi(releases, release, tmp_path_factory), tmp_path / "t", version, "mor", metadata=False)
    turns.upsert(("a", 5, "a5", "x"), ("b", 5, "b5", "x"))
    file = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    lines = file.read_text().splitlines(keepends=True)
    older = ("hoodie.table.precombine.field", "hoodie.table.keygenerator.class")
    file.write_text("".join(line for line in lines if not line.startswith(older)))
    turns.upsert(("a", 3, "late", "x"), ("b", 7, "b7", "x"))
    turns.delete(("b", 9, "", "x"))


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize(("release", "version"), CASES)
def test_sorts_of_tables(
    releases: dict[str, OtherHudi],
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    release: str,
    version: int,
    kind: str,
    sort: str,
) -> None:
    hudi, given = _hudi(releases, release, tmp_path_factory), SORTS[sort]
    turns = _Turns(hudi, tmp_path / "t", version, kind, metadata=given.metadata, sort=given)
    turns.upsert(("a", 5, "a5", "x"), ("b", 5, "b5", "x"), ("c", 5, "c5", "y"))
    turns.upsert(("a", 3, "late", "x"), ("b", 7, "b7", "x"))
    turns.delete(("c", 9, "", "y"))
    turns.upsert(("a", 4, "late", "x"), ("b", 9, "b9", "x"), ("f", 2, "f2", "y"), by_hudi=True)
    turns.delete(("f", 9, "", "y"), by_hudi=True)
    turns.upsert(("a", 1, "late", "x"), ("b", 10, "b10", "x"), ("g", 2, "g2", "y"))
    if kind == "mor":
        turns.table.compact()
        turns.check("compaction")


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize(("release", "version", "to"), [("1.0.2", 6, 8), ("1.1.1", 6, 9), ("1.1.1", 8, 9)])
def test_a_release_upgrades_a_table(
    releases: dict[str, OtherHudi],
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    release: str,
    version: int,
    to: int,
    kind: str,
) -> None:
    hudi = _hudi(releases, release, tmp_path_factory)
    turns = _Turns(hudi, tmp_path / "t", version, kind, metadata=True, sort=_Sort(upgrades=True))
    turns.upsert(("a", 5, "a5", "x"), ("b", 5, "b5", "x"))
    turns.upsert(("a", 3, "late", "x"), ("b", 7, "b7", "x"))
    turns.upsert(("a", 4, "late", "x"), ("c", 1, "c1", "x"), by_hudi=True)
    assert turns.table.config.version == to
    assert ("hoodie.table.precombine.field" in turns.table.config.raw) is (to < 9)
    turns.upsert(("a", 1, "late", "x"), ("b", 9, "b9", "x"))
