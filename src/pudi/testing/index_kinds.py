"""The contract of an `IndexKind`, as tests: a new kind subclasses `IndexKindTests` and gives the fixtures."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pudi.client import MetaClient
from pudi.config import MetadataOptions
from pudi.context import Context
from pudi.format import HOODIE_DIR
from pudi.indexes import registry
from pudi.indexes.kind import IndexKind
from pudi.metadata_write.build import Building, IndexBuilder
from pudi.metadata_write.client import Stats
from pudi.storage import open_storage
from pudi.table import Table, create
from pudi.testing.faults import FaultStorage, SimulatedCrash

SCHEMA = pa.schema([("id", pa.string()), ("place", pa.string()), ("name", pa.string()), ("ts", pa.int64())])

_PLACES = ("north", "south", "east")
_COMPACTED = {MetadataOptions.max_delta_commits.key: "1"}
_CRASHES = 6
"""Moments at which a writer dies, spread evenly over its storage calls."""


class IndexKindTests:
    """Contract of every kind of index. Subclasses give the fixtures `kind`, `arguments` and `table_type`."""

    options: Mapping[str, str] = {}
    """Options of the tables, such as indexes that the kind requires."""

    @pytest.fixture
    def kind(self) -> IndexKind:
        """The kind, in the registry."""
        raise NotImplementedError("give a fixture `kind`")

    @pytest.fixture
    def arguments(self) -> Mapping[str, Any]:
        """Arguments of `Table.create_index`."""
        raise NotImplementedError("give a fixture `arguments`")

    @pytest.fixture(params=["cow", "mor"])
    def table_type(self, request: pytest.FixtureRequest) -> str:
        """Both types of tables."""
        return str(request.param)

    @pytest.fixture
    def filled(self, tmp_path: Path, table_type: str) -> Table:
        """A table with records and without the index."""
        path = tmp_path / "table"
        create(path, SCHEMA, record_key="id", partition_by="place", ordering="ts", table_type=table_type)
        table = Table(path, options=dict(self.options))
        table.upsert(_rows(range(12), 10))
        table.upsert(_rows(range(0, 12, 5), 11))
        return table

    @pytest.fixture
    def indexed(self, filled: Table, kind: IndexKind, arguments: Mapping[str, Any]) -> Table:
        """The same with the index."""
        filled.create_index(**arguments)
        return filled

    def test_it_is_built_of_what_is_there(self, indexed: Table, kind: IndexKind) -> None:
        """The table names it as ready, and a check finds no difference."""
        (name,) = self._names(indexed, kind)
        assert [each.state for each in indexed.indexes() if each.name == name] == ["ready"]
        self._assert_right(indexed)

    def test_every_verb_maintains_it(self, indexed: Table) -> None:
        """After each write, and after table services, a check finds no difference."""
        verbs: list[Callable[[], object]] = [
            lambda: indexed.insert(_rows(range(20, 30), 12)),
            lambda: indexed.upsert(_rows(range(0, 30, 3), 13)),
            lambda: indexed.bulk_insert(_rows(range(40, 50), 14)),
            lambda: indexed.delete(_rows(range(2, 8), 15)),
            lambda: indexed.upsert(_rows(range(4, 6), 16)),
            lambda: indexed.update({"name": "'changed'"}, "ts > 12"),
            lambda: indexed.delete(where="id = 'r0021'"),
            lambda: indexed.insert_overwrite(_rows(range(3, 9, 3), 17)),
            indexed.run_pending,
            lambda: indexed.delete_partitions(["south"]),
            lambda: indexed.cluster(order_by="ts"),
            indexed.clean,
            lambda: indexed.insert_overwrite_table(_rows(range(60, 70), 18)),
            lambda: indexed.upsert(_rows(range(60, 75), 19), options=_COMPACTED),
        ]
        for verb in verbs:
            verb()
            self._assert_right(indexed)

    def test_a_table_without_records_has_it(
        self, tmp_path: Path, table_type: str, kind: IndexKind, arguments: Mapping[str, Any]
    ) -> None:
        """Check that an index of an empty table gets what is written later."""
        path = tmp_path / "empty"
        create(path, SCHEMA, record_key="id", partition_by="place", table_type=table_type, options=dict(self.options))
        table = Table(path, options=dict(self.options))
        for name in kind.requires:
            table.create_index(name)
        if not self._names(table, kind):
            table.create_index(**arguments)
        table.upsert(_rows(range(5), 10))
        assert self._names(table, kind)
        self._assert_right(table)

    def test_it_is_dropped_and_made_again(self, indexed: Table, kind: IndexKind, arguments: Mapping[str, Any]) -> None:
        """Nothing is left of it in between."""
        (name,) = self._names(indexed, kind)
        indexed.drop_index(name)
        assert not self._names(indexed, kind)
        assert not (Path(indexed.path) / HOODIE_DIR / "metadata" / name).exists()
        indexed.upsert(_rows(range(3, 9), 20))
        indexed.create_index(**arguments)
        self._assert_right(indexed)

    def test_a_commit_beside_its_building_takes_part(
        self, filled: Table, kind: IndexKind, arguments: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another writer commits when the file groups exist and the base files don't."""
        beside = Table(filled.path, options=dict(self.options))
        build, commits = kind.builder, count()

        def built(work: Building) -> IndexBuilder:
            builder = build(work)
            if not work.requested:  # it only looks whether the table can have the index
                return builder
            fill = type(builder).fill

            def filled_beside(self: IndexBuilder) -> Stats:
                if next(commits) == 0:
                    beside.upsert(_rows(range(6, 18), 30))
                    beside.delete(_rows(range(2), 31))
                return fill(self)

            monkeypatch.setattr(type(builder), "fill", filled_beside)
            return builder

        monkeypatch.setattr(type(kind), "builder", lambda _, work: built(work))
        filled.create_index(**arguments)
        monkeypatch.undo()
        assert next(commits)
        assert Table(filled.path).scan().to_arrow().num_rows == 16
        self._assert_right(filled)

    def test_a_damaged_one_is_rebuilt(self, indexed: Table, kind: IndexKind) -> None:
        """A check finds that its files are gone, and a repair makes them."""
        (name,) = self._names(indexed, kind)
        folder = Path(indexed.path) / HOODIE_DIR / "metadata" / name
        for file in folder.iterdir():
            file.unlink()
        fresh = Table(indexed.path, options=dict(self.options))
        assert name in {each.index for each in fresh.check().differences}
        done = fresh.repair(confirm=lambda plan: True)
        assert name in done.built
        self._assert_right(fresh)

    def test_rollbacks_and_restores_leave_it_right(self, indexed: Table) -> None:
        """Check that an index follows rollbacks and restores, or is rebuilt after them."""
        indexed.savepoint()
        (saved,) = indexed.savepoints()
        done = indexed.upsert(_rows(range(4, 20), 20))
        assert done is not None
        indexed.rollback(done.instant)
        self._assert_right(indexed)
        indexed.upsert(_rows(range(6, 9), 21))
        indexed.delete(_rows(range(3), 22))
        indexed.restore(saved.instant)
        assert indexed.scan().to_arrow().num_rows == 12
        indexed.upsert(_rows(range(10, 14), 23))
        self._assert_right(indexed)

    def test_a_writer_that_dies_leaves_it_right(self, indexed: Table, tmp_path: Path) -> None:
        """Whatever a dead writer leaves, the next one repairs, and a check finds no difference."""
        whole = tmp_path / "whole"
        shutil.copytree(indexed.path, whole)
        calls = self._upsert_on(FaultStorage(open_storage(str(whole))))
        for number in sorted({1 + calls * moment // _CRASHES for moment in range(_CRASHES)}):
            copy = tmp_path / f"at{number}"
            shutil.copytree(indexed.path, copy)
            with pytest.raises(SimulatedCrash):
                self._upsert_on(FaultStorage(open_storage(str(copy)), fail_at=number, mode="crash"))
            table = Table(copy, options=dict(self.options))
            table.upsert(_rows(range(8, 14), 50))
            self._assert_right(table)

    def _upsert_on(self, storage: FaultStorage) -> int:
        meta = MetaClient.open(storage.root, None, {}, Context(), storage)
        Table.of(meta, dict(self.options)).upsert(_rows(range(5, 25), 40))
        return storage.calls

    def _names(self, table: Table, kind: IndexKind) -> list[str]:
        return [name for name in Table(table.path).config.metadata_partitions if kind.type.includes(name)]

    def _assert_right(self, table: Table) -> None:
        found = Table(table.path).check()
        assert found.ok, str(found)


def registered(kind: IndexKind) -> Iterator[IndexKind]:
    """Have a kind in the registry for as long as a fixture that yields from this lasts."""
    known = list(registry.KINDS)
    registry.KINDS.append(kind)
    try:
        yield kind
    finally:
        registry.KINDS[:] = known


def _rows(numbers: Any, time: int) -> pa.Table:
    rows = [
        {"id": f"r{number:04}", "place": _PLACES[number % 3], "name": f"n{number % 7}", "ts": time}
        for number in numbers
    ]
    return pa.Table.from_pylist(rows, SCHEMA)
