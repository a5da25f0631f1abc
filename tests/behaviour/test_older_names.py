"""Tables of versions 6 and 8 state their properties also by the names that the releases of their version know."""

from __future__ import annotations

from pathlib import Path

import pytest

import pudi
from pudi.format import decode_table_properties, encode_table_properties
from support.disk import tree
from support.engines import Engine
from support.trips import SCHEMA, table, trip

PRECOMBINE = "hoodie.table.precombine.field"
GENERATOR = "hoodie.table.keygenerator.class"
ORDERING = "hoodie.table.ordering.fields"
SIMPLE = "org.apache.hudi.keygen.SimpleKeyGenerator"

WANTED = {6: {PRECOMBINE: "ts", GENERATOR: SIMPLE}, 8: {PRECOMBINE: "ts"}, 9: {}}
"""What Hudi 0.15 (6), 1.0 (8) and 1.1 (9) look up under these names in a table of trips by city, newest by ts."""


def _file(path: Path) -> Path:
    return path / ".hoodie" / "hoodie.properties"


def _properties(path: Path) -> dict[str, str]:
    return decode_table_properties(_file(path).read_bytes())


def _older(path: Path) -> dict[str, str]:
    return {key: value for key, value in _properties(path).items() if key in {PRECOMBINE, GENERATOR}}


def _created(path: Path, version: int, kind: str = "cow") -> pudi.Table:
    return pudi.create(
        path,
        SCHEMA,
        record_key="uuid",
        partition_by="city",
        ordering="ts",
        table_type=kind,
        options={"hoodie.write.table.version": str(version)},
    )


def _forget(path: Path) -> None:
    """Take the older names away: Hudi 1.2 makes such tables."""
    kept = {key: value for key, value in _properties(path).items() if key not in {PRECOMBINE, GENERATOR}}
    _file(path).write_bytes(encode_table_properties(kept, 0))


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_table_states_them_from_its_creation_or_from_the_first_write(
    engine: Engine, tmp_path: Path, version: int, kind: str
) -> None:
    made = _created(tmp_path / "t", version, kind)
    assert _older(tmp_path / "t") == WANTED[version]
    made.insert(engine.frame(table([trip(1, 5)])))
    _forget(tmp_path / "t")
    before = tree(tmp_path / "t")
    found = pudi.Table(tmp_path / "t")
    assert found.scan(["ts"]).to_arrow().to_pylist() == [{"ts": 5}]
    found.doctor()
    assert tree(tmp_path / "t") == before, "reading doesn't write"
    found.upsert(engine.frame(table([trip(1, 3)])))
    assert _older(tmp_path / "t") == WANTED[version]
    assert _properties(tmp_path / "t")[ORDERING] == "ts"
    assert found.scan(["ts"]).to_arrow().to_pylist() == [{"ts": 5}], "the late record loses"


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_each_version_has_its_own_after_upgrades_and_downgrades(tmp_path: Path, kind: str) -> None:
    made = _created(tmp_path / "t", 6, kind)
    made.insert(table([trip(1, 5)]))
    _forget(tmp_path / "t")
    for version in (8, 9, 8, 6):
        made = pudi.Table(tmp_path / "t")
        made.upgrade(version, accept_loss=True)
        older = _older(tmp_path / "t")
        assert {key: older.get(key) for key in WANTED[version]} == WANTED[version], version
        assert (PRECOMBINE in older) == (version < 9)
    assert pudi.Table(tmp_path / "t").config.ordering_fields == ("ts",)


def test_a_table_without_ordering_has_none(tmp_path: Path) -> None:
    options = {"hoodie.write.table.version": "6"}
    pudi.create(tmp_path / "t", SCHEMA, record_key="uuid", options=options)
    assert _older(tmp_path / "t") == {GENERATOR: "org.apache.hudi.keygen.NonpartitionedKeyGenerator"}


def test_a_change_of_the_properties_adds_them(tmp_path: Path) -> None:
    made = _created(tmp_path / "t", 8)
    made.insert(table([trip(1, 5)]))
    _forget(tmp_path / "t")
    pudi.Table(tmp_path / "t").create_index("record_index")
    assert _older(tmp_path / "t") == WANTED[8]
