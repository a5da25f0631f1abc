"""Mergers of the user's: which are taken, what they see, and what happens to answers that aren't what they must be."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pudi import InvalidArgumentError, MergerError
from pudi.config import MergeMode, TableConfig, resolve
from pudi.config.new_table import NewTable
from pudi.merge import (
    DELETED,
    MergeContext,
    MergeRule,
    RecordMerger,
    Versions,
    apply_updates,
    fold,
    merge_rule,
    register_merger,
    registered_merger,
)

ID = "7d1c2a52-0d3a-4e0c-9d8e-2c1b8a4a5f10"
KEY = "_hoodie_record_key"


class Asked(RecordMerger):
    """Answers what it was made with, and remembers what it was asked."""

    strategy_id = ID

    def __init__(self, answer: Callable[[pa.RecordBatch, pa.RecordBatch], Any]) -> None:
        self.answer = answer
        self.seen: list[tuple[pa.RecordBatch, pa.RecordBatch, MergeContext]] = []

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, context: MergeContext) -> pa.RecordBatch:
        self.seen.append((older, newer, context))
        return self.answer(older, newer)


class Newest(RecordMerger):
    """The newer version, always."""

    strategy_id = ID

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, context: MergeContext) -> pa.RecordBatch:
        return newer


SCHEMA = pa.schema(
    [
        pa.field(KEY, pa.string()),
        pa.field("_hoodie_commit_time", pa.string()),
        pa.field("id", pa.string()),
        pa.field("n", pa.int64(), nullable=False),
        pa.field("s", pa.struct([("l", pa.list_(pa.float64())), ("m", pa.map_(pa.string(), pa.int32()))])),
    ]
)


def table(*rows: tuple[str, int, Any], time: str = "1") -> pa.Table:
    return pa.Table.from_pylist(
        [{KEY: i, "_hoodie_commit_time": time, "id": i, "n": n, "s": {"l": s, "m": [("k", 1)]}} for i, n, s in rows],
        SCHEMA,
    )


BASE = table(("a", 5, [1.0, None]), ("b", 1, []), ("c", 2, None))
NEWER = table(("b", 3, [2.0]), ("a", 4, None), ("d", 1, [1.0]), time="2")


def lay(answer: Callable[[pa.RecordBatch, pa.RecordBatch], Any]) -> tuple[Any, Asked]:
    merger = Asked(answer)
    rule = MergeRule(MergeMode.CUSTOM, ("n",), merger=merger, key_fields=("id",), properties={"p": "q"})
    return apply_updates(BASE, Versions.of(NEWER, rule), KEY, rule), merger


def test_what_a_merger_is_asked() -> None:
    laid, merger = lay(lambda older, newer: newer)
    ((older, newer, context),) = merger.seen
    assert older.schema.names == newer.schema.names == ["id", "n", "s", DELETED]
    assert older["id"].to_pylist() == newer["id"].to_pylist() == ["a", "b"]
    assert context == MergeContext(older.schema.remove(3), ("n",), {"p": "q"})
    assert not older[DELETED].true_count
    assert laid.taken.tolist() == [1, 0, -1]
    assert laid.inserted.tolist() == [2]


def test_an_answer_that_is_the_older_version_leaves_the_row_as_it_is() -> None:
    laid, _ = lay(lambda older, newer: older)
    assert laid.taken.tolist() == [-1, -1, -1]
    assert (laid.deleted, laid.matched) == (0, 2)


def test_an_answer_that_is_neither_is_written_with_the_newer_one_s_meta_fields() -> None:
    def both(older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
        return older.set_column(1, older.schema.field("n"), pc.add(older["n"], newer["n"]))

    laid, _ = lay(both)
    made = laid.rows.take(pa.array(laid.taken[:2])).to_pylist()
    assert [(row["n"], row["_hoodie_commit_time"], row["s"]["l"]) for row in made] == [
        (9, "2", [1.0, None]),
        (4, "2", []),
    ]


def test_deletes_go_through_a_merger() -> None:
    def drop_a(older: pa.RecordBatch, newer: pa.RecordBatch) -> pa.RecordBatch:
        return newer.set_column(3, DELETED, pc.equal(newer["id"], "a"))

    laid, _ = lay(drop_a)
    assert (laid.base_rows.tolist(), laid.deleted) == ([1, 2], 1)
    rule = MergeRule(MergeMode.CUSTOM, merger=Asked(drop_a))
    folded = fold([Versions.of(BASE, rule), Versions.of(NEWER, rule)], KEY, rule)
    assert folded.rows[KEY].to_pylist() == ["a", "b", "c", "d"]
    assert folded.deleted.tolist() == [True, False, False, False]
    assert folded.rows["_hoodie_commit_time"].to_pylist()[1:] == ["2", "1", "2"]


def raising(older: pa.RecordBatch, newer: pa.RecordBatch) -> Any:
    raise KeyError("no such bid")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (raising, "raised KeyError.*no such bid"),
        (lambda older, newer: None, "answered with a NoneType"),
        (lambda older, newer: newer.to_pylist(), "answered with a list"),
        (lambda older, newer: newer.slice(1), "answered 1 rows where it was given 2"),
        (lambda older, newer: newer.drop_columns([DELETED]), "other columns"),
        (lambda older, newer: newer.append_column("x", newer["n"]), "other columns.*x int64"),
        (lambda older, newer: newer.set_column(1, "n", newer["n"].cast(pa.int32())), "n int32.*must be.*n int64"),
        (lambda older, newer: newer.select(["n", "id", "s", DELETED]), "another order"),
        (lambda older, newer: newer.set_column(1, "n", pa.nulls(2, pa.int64())), "null in column n"),
        (lambda older, newer: newer.set_column(0, "id", pa.array(["a", "x"])), "changed column id"),
    ],
)
def test_a_wrong_answer_names_the_merger(answer: Callable[[Any, Any], Any], words: str) -> None:
    with pytest.raises(MergerError, match=rf"(?s)Asked \({ID}\).*{words}"):
        lay(answer)


def test_partial_updates_need_a_partial_merge() -> None:
    rule = MergeRule(MergeMode.CUSTOM, merger=Newest())
    part = Versions.of(NEWER.select([KEY, "id", "n"]), rule, partial=True)
    with pytest.raises(MergerError, match="no partial_merge"):
        apply_updates(BASE, part, KEY, rule)


class OfNoId(Newest):
    strategy_id = "keep-highest"


class OfHudi(Newest):
    strategy_id = "EEB8D96F-b1e4-49fd-bbf8-28ac514178e5"


def test_registering() -> None:
    merger = Newest()
    register_merger(merger)
    assert registered_merger(ID.upper()) is merger
    for wrong, words in ((OfNoId(), "UUID"), (OfHudi(), "Hudi's own"), (Newest, "no pudi.RecordMerger")):
        with pytest.raises(InvalidArgumentError, match=words):
            register_merger(wrong)  # type: ignore[arg-type]


CREATED = '{"type":"record","name":"r","fields":[{"name":"id","type":"string"},{"name":"n","type":["null","long"]}]}'


def made(version: int, identifier: str) -> TableConfig:
    options = {"hoodie.write.table.version": str(version), "hoodie.write.record.merge.strategy.id": identifier}
    more = {"hoodie.record.merge.property.floor": "3"}
    new = NewTable(name="t", create_schema=CREATED, record_key=["id"])
    return TableConfig.new(new, resolve({**options, **more}), table="t")


@pytest.mark.parametrize("version", [8, 9])
def test_the_rule_of_a_table_with_a_merger(version: int) -> None:
    register_merger(Newest())
    rule = pickle.loads(pickle.dumps(merge_rule(made(version, ID))))
    assert isinstance(rule.merger, Newest)
    assert (rule.mode, rule.mixes, rule.key_fields) == (MergeMode.CUSTOM, True, ("id",))
    assert rule.columns is not None and rule.columns.names == ["id", "n"]
    assert rule.context(pa.schema([])).properties == {"floor": "3"}
    unknown = "7d1c2a52-0d3a-4e0c-9d8e-000000000000"
    with pytest.raises(MergerError, match=f"{unknown}.*register_merger"):
        merge_rule(made(version, unknown), table="t")
