"""A key that was deleted and inserted again is in two file groups: no verb brings the deleted copy back."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from support.engines import Engine, per_engine

SCHEMA = pa.schema([("k", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("v", pa.int32())])
INDEXES = ("SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM", "RECORD_INDEX")
VERBS = ("upsert", "merge", "update", "delete", "upsert of deleted", "upsert elsewhere")
RECORDS = {"hoodie.metadata.global.record.level.index.enable": "true"}
PRODUCT = list(product(("mor", "cow"), (6, 8, 9), INDEXES, VERBS))


def rows(v: int, *keys: str, p: str = "a") -> pa.Table:
    return pa.table([keys, [p] * len(keys), [1] * len(keys), [v] * len(keys)], schema=SCHEMA)


def create(path: Path, kind: str, version: int, index: str, **described: str) -> pudi.Table:
    options = {"hoodie.write.table.version": str(version), "hoodie.index.type": index}
    options |= RECORDS if index == "RECORD_INDEX" else {}
    return pudi.create(path, SCHEMA, record_key="k", partition_by="p", table_type=kind, options=options, **described)


def found(engine: Engine, table: pudi.Table) -> list[tuple[str, str, int]]:
    return sorted((row["k"], row["p"], row["v"]) for row in engine.read(table.scan(columns=["k", "p", "v"])))


@pytest.mark.sampled(24)
@pytest.mark.parametrize(
    ("engine", "kind", "version", "index", "verb"),
    per_engine(PRODUCT, [("mor", 9, "SIMPLE", "merge"), ("mor", 6, "GLOBAL_BLOOM", "upsert elsewhere")]),
    indirect=["engine"],
)
def test_a_key_is_there_once(engine: Engine, tmp_path: Path, kind: str, version: int, index: str, verb: str) -> None:
    table = create(tmp_path / "t", kind, version, index)
    table.insert(rows(1, "x", "y", "z"))
    table.delete(where="k IN ('x', 'z')")
    table.insert(rows(2, "x", "z"))
    expected = {"x": ("a", 2), "y": ("a", 1), "z": ("a", 2)}
    if verb == "upsert of deleted":
        table.delete(engine.frame(rows(0, "x", "z")))
    if verb == "upsert elsewhere" and "GLOBAL" not in index and index != "RECORD_INDEX":
        verb = "upsert"
    if verb in {"upsert", "upsert of deleted"}:
        table.upsert(engine.frame(rows(3, "x", "y", "z", "new")))
        expected = dict.fromkeys(("x", "y", "z", "new"), ("a", 3))
    elif verb == "upsert elsewhere":
        table.upsert(engine.frame(rows(3, "x", p="b")))
        expected |= {"x": ("b", 3)}
    elif verb == "merge":
        table.merge(engine.frame(rows(3, "x", "new"))).when_matched_update_all().when_not_matched_insert_all().execute()
        expected |= {"x": ("a", 3), "new": ("a", 3)}
    elif verb == "update":
        table.update({"v": "3"}, where="k = 'x'")
        expected |= {"x": ("a", 3)}
    else:
        table.delete(engine.frame(rows(3, "x")))
        del expected["x"]
    listed = sorted((key, *place) for key, place in expected.items())
    assert found(engine, table) == listed
    table.upsert(engine.frame(rows(4, "z")))
    listed = sorted((key, *place) for key, place in (expected | {"z": ("a", 4)}).items())
    assert found(engine, table) == listed
    if kind == "mor":
        table.compact()
        assert found(engine, table) == listed
        table.upsert(engine.frame(rows(4, "z")))
        assert found(engine, table) == listed
    assert table.check().ok, table.check()
