"""Files skipped by the metadata table's statistics: never a row less, on either engine, and said by `explain`."""

from __future__ import annotations

import datetime as dt
import math
import random
import shutil
from contextlib import AbstractContextManager, nullcontext
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.types as pt
import pytest

import pudi
from pudi.metadata import MetadataWarning
from support.engines import Engine
from support.golden import Golden, tables
from support.rows import assert_same

OFF = {"hoodie.enable.data.skipping": "false"}
NOT_SKIPPED = {
    "cow_v9_schema_on_read": "old files may call columns otherwise",
    "cow_v9_orc": "no statistics of ORC files",
}
"""Tables of which no file is skipped, and why."""

INDEXED = [
    table
    for table in tables("")
    if table.name
    not in {
        "cow_v6_nonpart", "cow_v9_commit_time", "cow_v9_complexkey", "cow_v9_duplicates", "cow_v9_nonpart",
        "cow_v9_null_partition", "cow_v9_utc", "mor_v8_nonpart", "mor_v9_nonpart",
    }
]  # fmt: skip
SPARK = {"cow_v9_types", "mor_v9_types_avrolog", "mor_v6_types_parquetlog", "mor_v8_partial_update"}


@pytest.mark.sampled(17)
@pytest.mark.parametrize("table", INDEXED, ids=lambda table: table.name)
def test_no_row_is_lost(golden_folder: Path, table: Golden) -> None:
    path = str(table.unpack(golden_folder))
    skipped = sum(_same(path, where) for where in _predicates(path, 7))
    assert skipped == 0 or table.name not in NOT_SKIPPED


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark"], indirect=True)
@pytest.mark.parametrize("table", [t for t in INDEXED if t.name in SPARK], ids=lambda table: table.name)
def test_no_row_is_lost_on_spark(engine: Engine, golden_folder: Path, table: Golden) -> None:
    path = str(table.unpack(golden_folder))
    for where in _predicates(path, 3):
        rows = engine.read(pudi.Table(path).scan(where=where))
        assert_same(rows, engine.read(pudi.Table(path, options=OFF).scan(where=where)), about=where)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["cow_v6_basic", "mor_v8_basic", "mor_v9_basic", "cow_v9_types"])
def test_no_row_is_lost_after_pudis_own_writes(golden_folder: Path, tmp_path: Path, name: str) -> None:
    source = next(table for table in INDEXED if table.name == name).unpack(golden_folder)
    path = str(tmp_path / name)
    shutil.copytree(source, path)
    chance = random.Random(name)
    for number in range(3):
        table = pudi.Table(path)
        rows = table.scan(meta_fields=False).to_arrow()
        rows = rows.sort_by(rows.column_names[0])  # files, whose names are random, decide on the order of a scan
        part = rows.take(sorted(chance.sample(range(rows.num_rows), rows.num_rows // 2)))
        table.upsert(part.set_column(0, part.schema.field(0), _moved(part.column(0), number)))
        table.delete(rows.slice(number, 1))
    assert sum(_same(path, where) for where in _predicates(path, 25)) > 0


def _moved(keys: pa.ChunkedArray, number: int) -> pa.Array:
    """Some keys made new ones."""
    values = keys.to_pylist()
    made = [
        (f"n{number}-{v}" if isinstance(v, str) else v + 1000 * number) if i % 3 == 0 else v
        for i, v in enumerate(values)
    ]
    return pa.array(made, keys.type)


def test_explain_says_which_index_kept_what(golden_folder: Path) -> None:
    path = str(Golden("cow_v9_basic").unpack(golden_folder))
    text = pudi.Table(path).scan(where="n > 1000000").explain()
    kept, of = (int(word) for word in text.split("column_stats kept ")[1].split("\n")[0].split(" of "))
    assert of > kept
    assert f"files       {kept} of {of}" in text
    assert "column_stats" not in pudi.Table(path, options=OFF).scan(where="n > 1000000").explain()
    without = pudi.Table(path, options={"hoodie.metadata.enable": "false"})
    assert "column_stats" not in without.scan(where="n > 1000000").explain()


def test_times_past_and_changes_are_skipped_right(golden_folder: Path) -> None:
    path = str(Golden("mor_v9_services").unpack(golden_folder))
    table = pudi.Table(path)
    instants, compared = [i for i in table.timeline.commits if not i.archived], 0
    for instant in instants[-4:]:
        for where in _predicates(path, 4):
            now = pudi.Table(path, options=OFF)
            try:
                whole = now.scan(where=where, as_of=instant.requested).to_arrow()
            except pudi.NotFoundError:
                continue
            assert _sorted(table.scan(where=where, as_of=instant.requested).to_arrow()) == _sorted(whole)
            since = instant.completion or instant.requested
            whole = now.changes(since, where=where).to_arrow()
            assert _sorted(table.changes(since, where=where).to_arrow()) == _sorted(whole)
            compared += 1
    assert compared >= 4, "a clean has left the last commit's state"


@pytest.mark.parametrize(
    ("gone", "told"),
    [
        ("column_stats", nullcontext()),
        (".hoodie", pytest.warns(MetadataWarning, match="folders are listed")),
    ],
)
def test_a_metadata_table_that_cant_be_read_skips_nothing(
    golden_folder: Path, tmp_path: Path, gone: str, told: AbstractContextManager[object]
) -> None:
    path = tmp_path / "t"
    shutil.copytree(Golden("cow_v9_basic").unpack(golden_folder), path)
    whole = pudi.Table(str(path), options=OFF).scan().to_arrow()
    shutil.rmtree(path / ".hoodie" / "metadata" / gone)
    with told:
        found = pudi.Table(str(path)).scan(where="fare > 10 OR fare <= 10 OR fare IS NULL").to_arrow()
    assert found.num_rows == whole.num_rows


def _same(path: str, where: str) -> int:
    """How many slices were skipped; the rows must be those of a scan that skips none."""
    scan = pudi.Table(path).scan(where=where)
    whole = pudi.Table(path, options=OFF).scan(where=where)
    assert _sorted(scan.to_arrow()) == _sorted(whole.to_arrow()), where
    return sum(count for _, count, _ in scan.plan.skipped)


def _sorted(rows: pa.Table) -> list[str]:
    return sorted(map(str, rows.to_pylist()))


def _predicates(path: str, count: int) -> list[str]:
    rows = pudi.Table(path, options=OFF).scan().to_arrow().sort_by("_hoodie_record_key")
    chance = random.Random(path.rpartition("/")[2])
    return [_predicate(rows, chance) for _ in range(count)]


def _predicate(rows: pa.Table, chance: random.Random) -> str:
    one = _condition(rows, chance)
    if chance.random() < 0.4:
        one = f"({one}) {chance.choice(['AND', 'OR'])} ({_condition(rows, chance)})"
    return f"NOT ({one})" if chance.random() < 0.2 else one


def _condition(rows: pa.Table, chance: random.Random) -> str:
    left_out = {"_hoodie_commit_seqno", "_hoodie_file_name"}
    fields = [
        f for f in rows.schema if not pt.is_nested(f.type) and not pt.is_binary(f.type) and f.name not in left_out
    ]
    field = chance.choice(fields)
    value = rows[field.name][chance.randrange(rows.num_rows)].as_py()
    if value is None or chance.random() < 0.15:
        return f"{field.name} IS {chance.choice(['', 'NOT '])}NULL"
    if pt.is_boolean(field.type):
        return f"{field.name} = {value}"
    return f"{field.name} {chance.choice(['=', '<', '>', '<=', '>=', '<>'])} {_literal(value)}"


def _literal(value: Any) -> str:
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, dt.datetime):
        zone = "+00:00" if value.tzinfo else ""
        return f"{'TIMESTAMP' if zone else 'TIMESTAMP_NTZ'} '{value:%Y-%m-%d %H:%M:%S.%f}{zone}'"
    if isinstance(value, dt.date):
        return f"DATE '{value}'"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else "CAST('NaN' AS DOUBLE)"
    assert isinstance(value, int | Decimal)
    return str(value)
