"""Every kind of index keeps the contract, and so does a toy one that is a module beside the tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from pudi.indexes import registry
from pudi.indexes.kind import IndexKind
from pudi.testing import IndexKindTests
from pudi.testing.index_kinds import registered
from support.toy_index import RowCounts

pytestmark = pytest.mark.metadata_by_default

ARGUMENTS: dict[str, dict[str, Any]] = {
    "record_index": {"kind": "record_index"},
    "column_stats": {"kind": "column_stats", "columns": ["name", "ts"]},
    "bloom_filters": {"kind": "bloom_filters"},
    "secondary_index_name": {"kind": "secondary_index", "columns": "name"},
    "expr_index_by_name": {"kind": "column_stats", "columns": "name", "name": "by_name", "expr": "upper"},
}
NEEDED = {"hoodie.metadata.index.column.stats.enable": "false"}


class TestRowCounts(IndexKindTests):
    """The toy."""

    @pytest.fixture
    def kind(self) -> Iterator[IndexKind]:
        yield from registered(RowCounts())

    @pytest.fixture
    def arguments(self) -> Mapping[str, Any]:
        return {"kind": "row_counts"}

    def test_the_command_line_knows_it(self, filled: pudi.Table, kind: IndexKind) -> None:
        run = CliRunner()
        assert run.invoke(app, ["index", filled.path, "create", "row_counts"]).exit_code == 0
        assert "row_counts" in run.invoke(app, ["index", filled.path]).output
        assert run.invoke(app, ["check", filled.path]).exit_code == 0
        assert run.invoke(app, ["index", filled.path, "drop", "row_counts"]).exit_code == 0
        assert "row_counts" not in run.invoke(app, ["index", filled.path]).output


@pytest.mark.sampled(4)
class TestKindsOfHudi(IndexKindTests):
    """Hudi's."""

    @pytest.fixture(params=ARGUMENTS)
    def name(self, request: pytest.FixtureRequest) -> str:
        return str(request.param)

    @pytest.fixture
    def kind(self, name: str) -> IndexKind:
        return registry.kind_of(name)

    @pytest.fixture
    def arguments(self, name: str) -> Mapping[str, Any]:
        return ARGUMENTS[name]

    @pytest.fixture
    def filled(self, tmp_path: Path, table_type: str, kind: IndexKind) -> pudi.Table:
        made = _filled(self, tmp_path, table_type)
        if "column_stats" in made.config.metadata_partitions and kind.type.name == "column_stats":
            made.drop_index("column_stats")
        for needed in kind.requires:
            made.create_index(needed)
        return made

    @pytest.mark.sampled(3)
    def test_rollbacks_and_restores_leave_it_right(self, indexed: pudi.Table) -> None:
        super().test_rollbacks_and_restores_leave_it_right(indexed)


def _filled(tests: IndexKindTests, tmp_path: Path, table_type: str) -> pudi.Table:
    function: Any = IndexKindTests.filled
    return getattr(function, "__wrapped__", function)(tests, tmp_path, table_type)  # type: ignore[no-any-return]
