"""Pruning of all partitions in one go decides as pruning of each alone, by paths read in plain Python."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.expr import ColumnBounds, prune
from pudi.plan import ReadableTable, Selection, plan_read
from pudi.plan.read import ReadPlan
from pudi.record import KeyGenerator

SCHEMA = pa.schema(
    [
        ("k", pa.string()),
        ("s", pa.string()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("b", pa.bool_()),
        ("day", pa.date32()),
        ("m", pa.decimal128(6, 2)),
        ("v", pa.int64()),
    ]
)
FIELDS = ("s", "i", "l", "b", "day", "m")
ESCAPED = "".join(map(chr, range(0x20))) + "\x7f\"#%'*/:=?\\{[]^"


def typed(text: str, kind: pa.DataType, url_encode: bool) -> object | None:
    if url_encode:
        value = re.sub(r"%([0-9A-F]{2})", lambda found: chr(int(found[1], 16)), text)
        if "".join(f"%{ord(char):02X}" if char in ESCAPED else char for char in value) != text:
            return None
        text = value
    if text in {"", "__HIVE_DEFAULT_PARTITION__", "default"}:
        return None
    try:
        found = pa.array([text]).cast(kind)
    except pa.ArrowInvalid:
        return None
    return found[0].as_py() if found.cast(pa.string())[0].as_py() == text else None


def told(path: str, keys: KeyGenerator) -> dict[str, ColumnBounds]:
    folders, fields = path.split("/"), keys.partition_fields
    if "" in folders or (len(fields) > 1 and len(folders) != len(fields)):
        return {}
    texts = folders if len(fields) > 1 else [path]
    if keys.hive_style:
        if not all(text.startswith(f"{name}=") for name, text in zip(fields, texts, strict=True)):
            return {}
        texts = [text.partition("=")[2] for text in texts]
    values = {
        name: typed(text, SCHEMA.field(name).type, keys.url_encode) for name, text in zip(fields, texts, strict=True)
    }
    return {name: ColumnBounds(value, value) for name, value in values.items() if value is not None}


def read(where: str) -> ReadPlan:
    return plan_read(
        ReadableTable("t", SCHEMA, populated=True, history=None), Selection(where=where, meta_fields=False)
    )


INTEGERS = st.sampled_from([-3, 0, 5, 40_000, 2**31 - 1, -(2**31), 2**40, 2**63 - 1])
DAYS = st.sampled_from(["0001-01-01", "1969-12-31", "2024-02-29", "2026-11-22", "9999-12-31"])
TEXTS = st.sampled_from(["a", "b", "A", "ab", "é", "zürich", "%41", "a:b", "a b", "default", "x%2Fy", "a=b"])
AMOUNTS = st.sampled_from(["0.00", "12.50", "-3.10", "9999.99"])
OF_COLUMN = {
    "s": TEXTS,
    "i": INTEGERS.map(str),
    "l": INTEGERS.map(str),
    "b": st.sampled_from(["true", "false"]),
    "day": DAYS,
    "m": AMOUNTS,
}
ODD = st.sampled_from(["__HIVE_DEFAULT_PARTITION__", "default", "05", "+5", "1E2", "TRUE", "2026-02-30", "9" * 30, "é"])

COMPARISONS = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"])
LEAVES = st.one_of(
    st.builds("{} {} {}".format, st.sampled_from(["i", "l", "-l", "CAST(l AS INT)", "v"]), COMPARISONS, INTEGERS),
    st.builds("CAST(i AS SMALLINT) {} {}".format, COMPARISONS, st.integers(-9, 9)),
    st.builds("{} IN ({}, {})".format, st.sampled_from(["i", "l"]), INTEGERS, INTEGERS),
    st.builds("day {} DATE '{}'".format, COMPARISONS, DAYS),
    st.builds("year(day) {} {}".format, COMPARISONS, st.sampled_from([1, 1969, 2026])),
    st.builds("m {} {}".format, COMPARISONS, AMOUNTS),
    st.builds("{} {} '{}'".format, st.sampled_from(["s", "upper(s)", "substring(s, 1, 1)"]), COMPARISONS, TEXTS),
    st.builds("s LIKE '{}%'".format, st.sampled_from(["a", "z", "A"])),
    st.sampled_from(["b", "NOT b", "b = false", "s IS NULL", "i IS NOT NULL", "day IS NULL", "s IN ('a', NULL)"]),
)
WHERES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT ({})".format, inner),
    ),
    max_leaves=4,
)


@st.composite
def partitioned(draw: st.DrawFn) -> tuple[KeyGenerator, list[str]]:
    fields = tuple(draw(st.lists(st.sampled_from(FIELDS), min_size=1, max_size=3, unique=True)))
    hive, url = draw(st.booleans()), draw(st.booleans())
    kind = "SIMPLE" if len(fields) == 1 else "COMPLEX"
    folders = [st.builds("{}{}".format, st.just(f"{f}=" if hive else ""), OF_COLUMN[f] | ODD) for f in fields]
    path = st.tuples(*folders).map("/".join) | st.sampled_from(["", "a/b", "a//b", "/a", "s=a/i=5", "x/y/z/u", "a/"])
    return KeyGenerator(kind, ("k",), fields, hive, url), draw(st.lists(path, min_size=1, max_size=20, unique=True))


@given(partitioned(), WHERES)
def test_all_partitions_are_pruned_as_each_alone(data: tuple[KeyGenerator, list[str]], where: str) -> None:
    keys, paths = data
    plan = read(where)
    assert plan.where is not None
    assert plan.prune_partitions(paths, keys) == [path for path in paths if prune(plan.where, told(path, keys))]


def test_one_value_that_does_not_fit_keeps_no_other_partition() -> None:
    keys = KeyGenerator("SIMPLE", ("k",), ("l",))
    paths = [str(number) for number in range(1000)]
    paths.insert(300, str(2**40))
    assert read("CAST(l AS INT) = 7").prune_partitions(paths, keys) == ["7", str(2**40)]
    paths.insert(500, "no number")
    assert read("l = 7").prune_partitions(paths, keys) == ["7", "no number"]


@pytest.mark.parametrize("keys", [KeyGenerator("NON_PARTITION", ("k",)), KeyGenerator("GLOBAL_DELETE", ("k",), ("s",))])
def test_paths_that_tell_nothing_are_kept(keys: KeyGenerator) -> None:
    assert read("s = 'a'").prune_partitions(["a", "b", ""], keys) == ["a", "b", ""]
