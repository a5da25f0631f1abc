"""Merges that are upserts give what the join gives, or its error: random tables, sources and clauses (decision 50)."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.writes import merge_into as merge_action

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=True),
        pa.field("leg", pa.int32()),
        pa.field("place", pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("v", pa.float64()),
    ]
)
VALUES = {"leg": "source.leg", "place": "source.place", "ts": "source.ts", "v": "source.v * 2"}


def _rows(chance: random.Random, count: int, nulls: bool) -> pa.Table:
    def some(values: list[Any]) -> Any:
        return chance.choice([*values, None] if nulls else values)

    rows = [
        {
            "id": f"k{chance.randrange(12)}",
            "leg": some([0, 1]),
            "place": some(["a", "b"]),
            "ts": chance.randrange(5),
            "v": chance.random(),
        }
        for _ in range(count)
    ]
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def _merged(path: Path, seed: int) -> Any:
    """The rows after a merge, or its error."""
    chance = random.Random(seed)
    nulls = chance.random() < 0.3
    key = chance.choice([["id"], ["id"], ["id", "leg"]])
    placed = chance.random() < 0.7
    settings: dict[str, Any] = {"ordering": "ts"} if chance.random() < 0.5 else {}
    if placed:
        settings["partition_by"] = "place"
    if chance.random() < 0.3:
        settings["table_type"] = "MERGE_ON_READ"
    if chance.random() < 0.2:
        settings["options"] = {"hoodie.index.type": chance.choice(["GLOBAL_SIMPLE", "BLOOM", "RECORD_INDEX"])}
    made = pudi.create(path, SCHEMA, record_key=key, **settings)
    chance.choice([made.upsert, made.insert, made.upsert])(_rows(chance, 10, nulls))
    if chance.random() < 0.4:
        made.delete(made.scan(SCHEMA.names).to_arrow().slice(0, 3))
    source = _rows(chance, chance.randrange(1, 7), nulls)
    named = [*key, "place"] if placed and chance.random() < 0.5 else key
    merge = made.merge(source, on=None if chance.random() < 0.2 else named)
    clauses = chance.choice(["both", "both", "update", "insert", "named"])
    if clauses == "named":
        fixed = {*key, *(["place"] if placed else [])}
        values = {"id": "source.id", **VALUES}
        merge = merge.when_matched_update({name: value for name, value in values.items() if name not in fixed})
        merge = merge.when_not_matched_insert(values)
    if clauses in {"both", "update"}:
        merge = merge.when_matched_update()
    if clauses in {"both", "insert"}:
        merge = merge.when_not_matched_insert()
    try:
        merge.execute()
    except pudi.PudiError as error:
        return type(error), error.message
    rows = made.scan(SCHEMA.names).to_arrow().to_pylist()
    return sorted(rows, key=repr)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("seed", range(400))
def test_an_upsert_gives_what_the_join_gives(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = _merged(tmp_path / "upsert", seed)
    monkeypatch.setattr(merge_action, "upsert_of", lambda *_: None)
    assert found == _merged(tmp_path / "join", seed)
