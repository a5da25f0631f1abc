"""Versions folded and applied to a base, against the rules of merging applied record by record."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.config import MergeMode, PartialUpdate
from pudi.merge import (
    DELETED,
    MergeContext,
    MergeRule,
    RecordMerger,
    Versions,
    apply_updates,
    fold,
    latest_per_key,
)

MARKER = "?"
KINDS = {"t": pa.int64(), "u": pa.float64(), "a": pa.string(), "b": pa.int64(), "c": pa.list_(pa.int32())}


class KeepHighest(RecordMerger):
    """Keeps the version with the greater `b`; a delete goes before all that follows it."""

    strategy_id = "6f0f6d2e-1111-4444-8888-123456789abc"

    def merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, context: MergeContext) -> pa.RecordBatch:
        assert context.properties == {"from": "table"}
        value = [pc.fill_null(side["b"], -99) if "b" in side.schema.names else None for side in (older, newer)]
        bids = [pa.array([-99] * older.num_rows) if v is None else v for v in value]
        stays = pc.or_(older[DELETED], pc.and_(pc.invert(newer[DELETED]), pc.greater(*bids)))
        names = [n for n in context.schema.names if n in older.schema.names or n in newer.schema.names]
        kinds = {f.name: f.type for side in (older, newer) for f in side.schema}
        columns = []
        for name in [*names, DELETED]:
            sides = [s[name] if name in s.schema.names else pa.nulls(len(stays), kinds[name]) for s in (older, newer)]
            columns.append(pc.if_else(stays, *sides))
        return pa.RecordBatch.from_arrays(columns, names=[*names, DELETED])

    def partial_merge(self, older: pa.RecordBatch, newer: pa.RecordBatch, context: MergeContext) -> pa.RecordBatch:
        return self.merge(older, newer, context)


RULES = {
    "commit": MergeRule(MergeMode.COMMIT_TIME),
    "event": MergeRule(MergeMode.EVENT_TIME, ("t",)),
    "several": MergeRule(MergeMode.EVENT_TIME, ("t", "u")),
    "ignore": MergeRule(MergeMode.EVENT_TIME, ("t",), partial_update=PartialUpdate.IGNORE_DEFAULTS),
    "ignore-older": MergeRule(
        MergeMode.EVENT_TIME, ("t",), partial_update=PartialUpdate.IGNORE_DEFAULTS, deletes_win=True
    ),
    "ignore-late": MergeRule(MergeMode.COMMIT_TIME, partial_update=PartialUpdate.IGNORE_DEFAULTS),
    "unavailable": MergeRule(
        MergeMode.EVENT_TIME, ("t",), partial_update=PartialUpdate.FILL_UNAVAILABLE, unavailable=MARKER
    ),
    "defaults": MergeRule(MergeMode.EVENT_TIME, ("t",), partial_update=PartialUpdate.FILL_DEFAULTS),
    "custom": MergeRule(MergeMode.CUSTOM, ("t",), merger=KeepHighest(), properties={"from": "table"}),
}


@dataclass(frozen=True)
class Record:
    """One version: the values that it has, by column."""

    values: Mapping[str, Any]
    deleted: bool = False
    unconditional: bool = False


def rank(value: float | None) -> tuple[int, float]:
    if value is None:
        return (0, 0.0)
    return (2, 0.0) if math.isnan(value) else (1, value)


def newer_wins(old: Record, new: Record, rule: MergeRule) -> bool:
    if rule.mode is MergeMode.COMMIT_TIME or new.unconditional:
        return True
    if old.unconditional:  # any later record wins; a later delete finds it deleted already
        return not new.deleted
    order = [tuple(rank(r.values.get(name)) for name in rule.ordering_fields) for r in (old, new)]
    return order[1] >= order[0]


def merged(old: Record, new: Record, rule: MergeRule, partial: bool) -> Record:
    if rule.mode is MergeMode.CUSTOM:
        return by_merger(old, new, partial)
    high, low = (new, old) if newer_wins(old, new, rule) else (old, new)
    if old.deleted or new.deleted:
        return high
    if partial:
        return replace(high, values={**low.values, **high.values})
    gaps = {PartialUpdate.IGNORE_DEFAULTS: None, PartialUpdate.FILL_UNAVAILABLE: MARKER}
    if rule.partial_update not in gaps:
        return high
    gap = gaps[rule.partial_update]
    return replace(high, values={n: low.values.get(n) if v == gap else v for n, v in high.values.items()})


def by_merger(old: Record, new: Record, partial: bool) -> Record:
    if new.unconditional or old.unconditional:
        return new
    bids = [-99 if r.values.get("b") is None else r.values["b"] for r in (old, new)]
    chosen = old if old.deleted or (not new.deleted and bids[0] > bids[1]) else new
    gone = [n for n in KINDS if n in old.values or n in new.values]
    full = gone if partial and not chosen.deleted else chosen.values
    return replace(chosen, values={n: chosen.values.get(n) for n in full})


keys = st.sampled_from([f"k{n}" for n in range(5)])
values = {
    "t": st.one_of(st.none(), st.integers(-2, 2)),
    "u": st.one_of(st.none(), st.sampled_from([0.5, math.nan])),
    "a": st.sampled_from([None, "x", "y", MARKER]),
    "b": st.one_of(st.none(), st.integers(0, 3)),
    "c": st.one_of(st.none(), st.lists(st.one_of(st.none(), st.integers(0, 1)), max_size=2)),
}
rows = st.lists(st.tuples(keys, st.fixed_dictionaries(values), st.sampled_from([False, False, True])), max_size=6)


@dataclass(frozen=True)
class Run:
    """A block of a log: its columns, and whether it holds deletes alone."""

    rows: list[tuple[str, dict[str, Any], bool]]
    columns: tuple[str, ...] = tuple(KINDS)
    partial: bool = False
    deletes: bool = False

    def records(self, rule: MergeRule) -> list[tuple[str, Record]]:
        made = []
        for key, given_values, flag in self.rows:
            deleted = flag or self.deletes
            held = {n: given_values[n] for n in self.columns}
            if self.deletes:
                held = dict.fromkeys(KINDS) | {n: given_values[n] for n in ("t", "u")}
            unconditional = rule.merger is None and deleted and len(rule.ordering_fields) < 2
            unconditional = unconditional and (not rule.ordering_fields or held["t"] is None or rule.deletes_win)
            made.append((key, Record(held, deleted, unconditional)))
        return made

    def versions(self, rule: MergeRule) -> Versions:
        columns = ("t", "u") if self.deletes else self.columns
        table = pa.table(
            {
                "_hoodie_record_key": pa.array([key for key, _, _ in self.rows], pa.string()),
                **{n: pa.array([v[n] for _, v, _ in self.rows], KINDS[n]) for n in columns},
            }
        )
        if self.deletes:
            every = np.ones(len(self.rows), dtype=bool)
            return Versions(table, every, rule.unconditional(table, every))
        flags = pa.array([flag for _, _, flag in self.rows], pa.bool_())
        made = Versions.of(table.append_column(DELETED, flags), rule, partial=self.partial)
        return replace(made, rows=table)


def run_of(given_rows: list[Any], kind: str, columns: set[str]) -> Run:
    if kind == "partial":
        return Run(given_rows, tuple(n for n in KINDS if n in columns | {"t", "u"}), partial=True)
    return Run(given_rows, deletes=kind == "deletes")


runs = st.lists(
    st.builds(
        run_of,
        rows,
        st.sampled_from(["whole", "whole", "deletes", "partial"]),
        st.sets(st.sampled_from(["a", "b", "c"])),
    ),
    min_size=1,
    max_size=4,
)


def model(logs: list[Run], base: list[tuple[str, dict[str, Any]]], rule: MergeRule) -> tuple[Any, Any]:
    """The log's versions merged among themselves by key, and the table that they make of the base."""
    fills_defaults = rule.partial_update is PartialUpdate.FILL_DEFAULTS
    buffer: dict[str, Record] = {}
    partial = False
    for log in logs:
        partial |= log.partial and not fills_defaults and bool(log.rows)
        for key, record in log.records(rule):
            new = replace(record, values={**dict.fromkeys(KINDS), **record.values}) if fills_defaults else record
            buffer[key] = merged(buffer[key], new, rule, partial) if key in buffer else new
    left, table = dict(buffer), []
    for key, held in base:
        old = Record(held)
        newer = left.pop(key, None)
        result = old if newer is None else merged(old, newer, rule, partial)
        if not result.deleted:
            table.append((key, {n: result.values.get(n) for n in KINDS}))
    table += [(k, {n: r.values.get(n) for n in KINDS}) for k, r in left.items() if not r.deleted]
    return buffer, table


def shown(values: Mapping[str, Any]) -> str:
    """Values as text, so that NaN equals NaN."""
    return repr([values[name] for name in sorted(values)])


@given(runs, st.dictionaries(keys, st.fixed_dictionaries(values), max_size=5), st.sampled_from(sorted(RULES)))
def test_logs_over_a_base(logs: list[Run], stored: dict[str, dict[str, Any]], name: str) -> None:
    rule = RULES[name]
    key = "_hoodie_record_key"
    logs = [log for log in logs if log.rows] or [Run([])]
    expected, table = model(logs, list(stored.items()), rule)
    folded = fold([log.versions(rule) for log in logs], key, rule)
    assert folded.rows[key].to_pylist() == list(expected)
    assert folded.deleted.tolist() == [r.deleted for r in expected.values()]
    for number, (row, record) in enumerate(zip(folded.rows.to_pylist(), expected.values(), strict=True)):
        if not record.deleted:
            held = {n: row[n] for n in KINDS if n in row and not folded.lacking(n)[number]}
            assert set(held) >= {n for n, value in record.values.items() if value is not None}
            assert shown(held) == shown({n: record.values.get(n) for n in held})

    columns = {n: pa.array([v[n] for v in stored.values()], kind) for n, kind in KINDS.items()}
    base = pa.table({key: pa.array(list(stored), pa.string()), **columns})
    merged = apply_updates(base, folded, key, rule)
    taken = pa.Table.from_pylist(merged.rows.to_pylist(), schema=merged.rows.schema)
    found = [
        (base if new < 0 else taken).slice(old if new < 0 else new, 1).to_pylist()[0]
        for old, new in zip(merged.base_rows.tolist(), merged.taken.tolist(), strict=True)
    ]
    found += taken.take(pa.array(merged.inserted)).to_pylist()
    assert [(row[key], shown({n: row.get(n) for n in KINDS})) for row in found] == [(k, shown(v)) for k, v in table]
    assert merged.matched == len(set(stored) & set(expected))
    assert merged.deleted == len(stored) - len(merged.base_rows)


@given(rows, st.sampled_from(sorted(RULES)))
def test_one_batch(batch: list[Any], name: str) -> None:
    rule = RULES[name]
    log = Run(batch)
    made = log.versions(rule)
    flagged = made.rows.append_column(DELETED, pa.array(made.deleted))
    expected, _ = model([log], [], rule)
    found = {row["_hoodie_record_key"]: row for row in latest_per_key(flagged, "_hoodie_record_key", rule).to_pylist()}
    assert {k: row[DELETED] for k, row in found.items()} == {k: r.deleted for k, r in expected.items()}
    stands = {k: {n: row[n] for n in KINDS} for k, row in found.items() if not row[DELETED]}
    assert {k: shown(v) for k, v in stands.items()} == {
        k: shown(dict(r.values)) for k, r in expected.items() if not r.deleted
    }


def test_a_key_of_many_versions() -> None:
    many = 2000
    table = pa.table(
        {"k": pa.array(["x"] * many + ["y"]), "t": pa.array([*range(many), 1]), "a": [*["z"] * many, None]}
    )
    rule = replace(RULES["ignore"], ordering_fields=("t",))
    folded = fold([Versions.of(table, rule)], "k", rule)
    assert folded.rows.to_pylist() == [{"k": "x", "t": many - 1, "a": "z"}, {"k": "y", "t": 1, "a": None}]


@pytest.mark.parametrize(
    ("kind", "value", "certain"),
    [
        (pa.int32(), 0, True),
        (pa.int32(), None, True),
        (pa.int64(), 0, False),
        (pa.int64(), None, True),
        (pa.string(), None, True),
        (pa.string(), "", False),
    ],
)
def test_deletes_without_an_order(kind: pa.DataType, value: object, certain: bool) -> None:
    rows_of = pa.table({"t": pa.array([value], kind), DELETED: [True]})
    assert Versions.of(rows_of, RULES["event"]).unconditional.tolist() == [certain]
    assert Versions.of(rows_of, RULES["several"]).unconditional.tolist() == [False]
    assert Versions.of(rows_of, RULES["commit"]).unconditional.tolist() == [True]
    assert Versions.of(rows_of, RULES["custom"]).unconditional.tolist() == [False]


def test_places_in_the_binary_log() -> None:
    rule = MergeRule(MergeMode.EVENT_TIME, ("seq",), binlog=True)
    older = pa.table({"seq": ["9.100", "9.100", None, "10.5"]})
    newer = pa.table({"seq": ["10.5", "9.99", "1.1", "10.5"]})
    assert rule.newer_wins(older, newer).tolist() == [True, False, True, True]


def test_payloads_that_go_by_order_within_a_batch() -> None:
    rule = MergeRule(
        MergeMode.COMMIT_TIME, ("t",), partial_update=PartialUpdate.IGNORE_DEFAULTS, batches_by_order=True
    ).in_batches
    assert rule == MergeRule(MergeMode.EVENT_TIME, ("t",))


@pytest.mark.parametrize("deletes_win", [False, True])
def test_a_late_record_that_fills_nothing(deletes_win: bool) -> None:
    rule = replace(RULES["ignore"], deletes_win=deletes_win)
    base = pa.table({"k": ["x", "y", "z"], "t": [5, 5, 5], "a": ["a", None, "b"]})
    late = pa.table({"k": ["x", "y", "z"], "t": [4, 4, 4], "a": [None, None, "c"], DELETED: [False, False, True]})
    merged = apply_updates(base, Versions.of(late, rule), "k", rule)
    stays = [number < 0 for number in merged.taken.tolist()]
    assert stays == ([False, False] if deletes_win else [True, False, True])  # null is a gap, filled or not
    assert merged.deleted == int(deletes_win)
    light, anew = (
        apply_updates(base.select(names), Versions.of(late.select([*names, DELETED]), rule), "k", rule, remixed=True)
        for names in (["k", "t"], ["k", "t", "a"])
    )
    assert light.base_rows.tolist() == anew.base_rows.tolist()
    assert (light.taken >= 0).all() and (anew.taken >= 0).all()
    assert anew.rows.take(pa.array(anew.taken))["t"].to_pylist() == [5] * len(anew.taken)
