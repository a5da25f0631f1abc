"""A repair that dies at any of its changes leaves a table that reads right, and that the next write or repair mends."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.damage import forget_a_file, lose_a_key
from support.trips import SCHEMA, table, trip

ON = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.global.record.level.index.enable": "true",
    "hoodie.metadata.global.record.level.index.min.filegroup.count": "1",
    "hoodie.metadata.global.record.level.index.max.filegroup.count": "1",
}
DAMAGES = {"a key": lose_a_key, "a file": forget_a_file}


def _rows(path: Path) -> list[dict[str, object]]:
    return pudi.Table(path).scan(meta_fields=False).to_arrow().sort_by("uuid").to_pylist()


def _repair(path: Path, **fault: object) -> FaultStorage:
    storage = FaultStorage(open_storage(str(path)), **fault)  # type: ignore[arg-type]
    opened = pudi.Table.of(MetaClient.open(storage.root, None, {}, Context(), storage), {})
    opened.repair()
    return storage


SOME, EVERY = 11, 1


@pytest.mark.parametrize(
    ("damage", "step"),
    [
        ("a key", SOME),
        pytest.param("a key", EVERY, marks=pytest.mark.slow),
        pytest.param("a file", EVERY, marks=pytest.mark.slow),
    ],
)
def test_crash_points(tmp_path: Path, damage: str, step: int) -> None:
    template = tmp_path / "template"
    made = pudi.create(template, SCHEMA, record_key="uuid", partition_by="city", ordering="ts")
    made.insert(table([trip(number, 10) for number in range(6)]))
    pudi.Table(template, options=ON).upsert(table([trip(0, 20)]))
    rows = _rows(template)
    DAMAGES[damage](template)
    whole = Path(shutil.copytree(template, tmp_path / "whole"))
    log = _repair(whole).log
    calls = [number for number, (kind, _) in enumerate(log, 1) if kind in {"create", "put", "delete"}]
    assert len(calls) > 20
    assert pudi.Table(whole).check().ok
    for number in range(1, len(calls) + 1, step):
        path = Path(shutil.copytree(template, tmp_path / str(number)))
        with pytest.raises(SimulatedCrash):
            _repair(path, fail_at=calls[number - 1], mode="crash")
        if damage == "a key":  # what the list of files doesn't know isn't read before it's mended
            assert _rows(path) == rows
        if number % 2 or damage == "a file":  # writes refuse to go on without a file of the newest commit
            assert pudi.Table(path).repair().ok
        else:
            pudi.Table(path, options=ON).upsert(table([trip(0, 20)]))
            pudi.Table(path).repair()
            assert pudi.Table(path).check().ok
        assert _rows(path) == rows
        shutil.rmtree(path)
