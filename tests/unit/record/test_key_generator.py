"""Keys and paths against what Apache Hudi 1.2.0 wrote for the same rows, by upsert and by bulk_insert."""

from __future__ import annotations

import datetime as dt
import pickle
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import InvalidArgumentError, NotSupportedError, SchemaError
from pudi.record import KeyGenerator, check_key_types, partition_values

D = Decimal
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("s", pa.string()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("dec", pa.decimal128(18, 4)),
        ("dec2", pa.decimal128(38, 10)),
        ("dec0", pa.decimal128(5, 0)),
        ("b", pa.bool_()),
        ("dt", pa.date32()),
        ("ntz", pa.timestamp("us")),
    ]
)
ROWS = [
    ("r0", "plain", 5, 7, D("1.5000"), D("3.14"), D(12), True, dt.date(2026, 1, 2), 1767323045123456),
    ("r1", None, None, None, None, None, None, None, None, None),
    ("r2", "", -5, -7, D("-0.0001"), D(0), D(0), False, dt.date(1969, 12, 31), -1),
    (
        *("r3", "zażółć ü 漢 😀", 2147483647, 9223372036854775807),
        *(D("99999999999999.9999"), D("1e-10"), D(-3), True, dt.date(1, 1, 1), 1767312000000000),
    ),
    (
        *("r4", "a,b:c d/e", -2147483648, -9223372036854775808),
        *(D(100), D("12345678901234567890"), D(99999), True, dt.date(9999, 12, 31), 1767323045000000),
    ),
]
HUDI_KEYS = [
    "id:r0,s:plain,i:5,l:7,dec:1.5000,dec2:3.1400000000,dec0:12,b:true,dt:2026-01-02,ntz:1767323045123456",
    "id:r1,s:__null__,i:__null__,l:__null__,dec:__null__,dec2:__null__,dec0:__null__,b:__null__,dt:__null__,ntz:__null__",
    "id:r2,s:__empty__,i:-5,l:-7,dec:-0.0001,dec2:0E-10,dec0:0,b:false,dt:1969-12-31,ntz:-1",
    "id:r3,s:zażółć ü 漢 😀,i:2147483647,l:9223372036854775807,dec:99999999999999.9999,dec2:1E-10,dec0:-3,b:true,"
    "dt:0001-01-01,ntz:1767312000000000",
    "id:r4,s:a,b:c d/e,i:-2147483648,l:-9223372036854775808,dec:100.0000,dec2:12345678901234567890.0000000000,"
    "dec0:99999,b:true,dt:9999-12-31,ntz:1767323045000000",
]
PARTITIONED = ("i", "l", "dec", "dec2", "dec0", "b", "dt")
HUDI_PATHS = [
    "5/7/1.5000/3.1400000000/12/true/2026-01-02",
    "/".join(["__HIVE_DEFAULT_PARTITION__"] * 7),
    "-5/-7/-0.0001/0E-10/0/false/1969-12-31",
    "2147483647/9223372036854775807/99999999999999.9999/1E-10/-3/true/0001-01-01",
    "-2147483648/-9223372036854775808/100.0000/12345678901234567890.0000000000/99999/true/9999-12-31",
]
HUDI_ENCODED = [
    "i=5/s=plain",
    "i=__HIVE_DEFAULT_PARTITION__/s=__HIVE_DEFAULT_PARTITION__",
    "i=-5/s=__HIVE_DEFAULT_PARTITION__",
    "i=2147483647/s=zażółć ü 漢 😀",
    "i=-2147483648/s=a,b%3Ac d%2Fe",
]


def rows(chunks: int = 1) -> pa.Table:
    columns = zip(*ROWS, strict=True)
    table = pa.table(
        [pa.array(values, field.type) for values, field in zip(columns, SCHEMA, strict=True)], schema=SCHEMA
    )
    return pa.concat_tables([table.slice(n, 1) for n in range(5)]) if chunks > 1 else table


@pytest.mark.parametrize("chunks", [1, 5])
@pytest.mark.parametrize("kind", ["COMPLEX", "NON_PARTITION"])
def test_keys_of_several_columns_are_hudis(kind: str, chunks: int) -> None:
    keys = KeyGenerator(kind, tuple(SCHEMA.names))
    assert keys.record_keys(rows(chunks)).to_pylist() == HUDI_KEYS
    assert keys.partition_paths(rows(chunks)).to_pylist() == [""] * 5


@pytest.mark.parametrize("chunks", [1, 5])
def test_partition_paths_are_hudis(chunks: int) -> None:
    paths = KeyGenerator("COMPLEX", ("id",), PARTITIONED).partition_paths(rows(chunks))
    assert paths.to_pylist() == HUDI_PATHS
    encoded = KeyGenerator("COMPLEX", ("id",), ("i", "s"), hive_style=True, url_encode=True)
    assert encoded.partition_paths(rows(chunks)).to_pylist() == HUDI_ENCODED


def test_one_column_is_bare_except_for_complex() -> None:
    table = rows().slice(0, 1)
    assert KeyGenerator("SIMPLE", ("i",), ("s",)).record_keys(table).to_pylist() == ["5"]
    assert KeyGenerator("NON_PARTITION", ("dec",)).record_keys(table).to_pylist() == ["1.5000"]
    assert KeyGenerator("COMPLEX", ("i",), ("s",)).record_keys(table).to_pylist() == ["i:5"]


def test_hudis_own_url_encoded_table() -> None:
    # Folders of a table that Hudi wrote, and the values in it.
    folders = {"city=a%2Fb c": "a/b c", "city=50%25 off": "50% off", "city=x%3Dy": "x=y", "city=été": "été"}
    keys = KeyGenerator("SIMPLE", ("id",), ("city",), hive_style=True, url_encode=True)
    table = pa.table({"id": ["1", "2", "3", "4"], "city": list(folders.values())})
    assert keys.partition_paths(table).to_pylist() == list(folders)
    for folder, city in folders.items():
        assert partition_values(folder, keys, table.schema) == {"city": city}
    assert partition_values("city=__HIVE_DEFAULT_PARTITION__", keys, table.schema) == {}


def test_distinct_paths_are_a_dictionary_without_repeats() -> None:
    table = pa.table(
        {"id": ["a"] * 6, "p": ["x", None, "", "x", "y", None], "q": pa.array([1, 1, 1, 1, 2, 1], pa.int32())}
    )
    paths = KeyGenerator("COMPLEX", ("id",), ("p", "q")).partition_paths(table)
    assert paths.type == pa.dictionary(pa.int32(), pa.string())
    assert sorted(paths.dictionary.to_pylist()) == ["__HIVE_DEFAULT_PARTITION__/1", "x/1", "y/2"]
    assert paths.to_pylist()[0] == "x/1"
    assert paths.to_pylist()[1] == paths.to_pylist()[2] == "__HIVE_DEFAULT_PARTITION__/1"


def test_no_rows() -> None:
    for keys in (KeyGenerator("COMPLEX", ("id", "i"), ("s", "l")), KeyGenerator("SIMPLE", ("id",), ("s",))):
        assert keys.record_keys(SCHEMA.empty_table()).to_pylist() == []
        assert keys.partition_paths(SCHEMA.empty_table()).to_pylist() == []


@pytest.mark.parametrize("bad", [None, ""])
def test_null_and_empty_keys_are_refused_with_their_count(bad: str | None) -> None:
    table = pa.table({"id": ["a", bad, bad], "q": ["x", "", None], "p": ["x"] * 3})
    with pytest.raises(InvalidArgumentError, match=r"\(id\) is null or empty in 2 of 3 rows"):
        KeyGenerator("SIMPLE", ("id",), ("p",)).record_keys(table)
    with pytest.raises(InvalidArgumentError, match=r"\(id, q\) is null or empty in 2 of 3 rows"):
        KeyGenerator("COMPLEX", ("id", "q"), ("p",)).record_keys(table)


@pytest.mark.parametrize(
    "value",
    ["..", ".", "/a", "a/", "a//b", "a/../b", "a/./b", "/", ".hoodie", ".Hoodie", "x/.hoodie/timeline",
     ".hoodie_partition_metadata", "a\\b", "..\\a", "a\tb", "a\0b", "a\x7f", "a:b", "a:b/c"],
)  # fmt: skip
def test_values_that_are_no_folder_are_refused_unless_encoded(value: str) -> None:
    table = pa.table({"id": ["1", "2"], "p": ["fine", value]})
    with pytest.raises(InvalidArgumentError, match="urlencode") as caught:
        KeyGenerator("SIMPLE", ("id",), ("p",)).partition_paths(table)
    assert repr(value) in str(caught.value)
    encoded = KeyGenerator("SIMPLE", ("id",), ("p",), hive_style=True, url_encode=True)
    path = encoded.partition_paths(table).to_pylist()[1]
    assert "/" not in path
    assert partition_values(path, encoded, table.schema) == {"p": value}


@pytest.mark.parametrize("value", ["..", ".", ".."])
def test_dots_stay_refused_when_encoding_leaves_them_alone(value: str) -> None:
    table = pa.table({"id": ["1"], "p": [value]})
    with pytest.raises(InvalidArgumentError):
        KeyGenerator("SIMPLE", ("id",), ("p",), url_encode=True).partition_paths(table)


def test_a_leading_slash_is_refused_behind_a_column_name_too() -> None:
    table = pa.table({"id": ["1"], "p": ["/a"]})
    with pytest.raises(InvalidArgumentError, match="'p'"):
        KeyGenerator("SIMPLE", ("id",), ("p",), hive_style=True).partition_paths(table)


@pytest.mark.parametrize("value", ["a/b", "a b", "%41", "a#b?*[]{}", "é", " a ", "a=b", "_a", ".a", "x/a:b", "..a"])
def test_values_that_hudi_stores_are_kept_as_they_are(value: str) -> None:
    table = pa.table({"id": ["1"], "p": [value]})
    assert KeyGenerator("SIMPLE", ("id",), ("p",)).partition_paths(table).to_pylist() == [value]
    assert partition_values(value, KeyGenerator("SIMPLE", ("id",), ("p",)), table.schema) == {"p": value}


def test_types_whose_text_hudi_does_not_agree_on_are_refused_with_advice() -> None:
    schema = pa.schema(
        [("k", pa.string()), ("f", pa.float32()), ("d", pa.float64()), ("ts", pa.timestamp("us", "UTC")),
         ("bin", pa.binary()), ("st", pa.struct([("x", pa.int32())])), ("ntz", pa.timestamp("us"))]
    )  # fmt: skip
    for name in ("f", "d", "ts", "bin", "st"):
        with pytest.raises(NotSupportedError, match=f"'{name}'.* record key .*use "):
            check_key_types(KeyGenerator("NON_PARTITION", (name,)), schema)
    for name in ("bin", "st"):
        with pytest.raises(NotSupportedError, match=f"'{name}'.* partition .*use "):
            check_key_types(KeyGenerator("SIMPLE", ("k",), (name,)), schema)
    for name in ("f", "d", "ts", "bin", "st"):
        with pytest.raises(NotSupportedError):
            KeyGenerator("NON_PARTITION", (name,)).record_keys(schema.empty_table())
    check_key_types(KeyGenerator("NON_PARTITION", ("ntz",)), schema)
    with pytest.raises(NotSupportedError, match="'ntz'"):
        check_key_types(KeyGenerator("SIMPLE", ("k",), ("ntz",)), schema)


def test_other_generators_can_be_held_but_not_written_by() -> None:
    schema = pa.schema([("k", pa.string()), ("p", pa.string())])
    for keys in (
        KeyGenerator("GLOBAL_DELETE", ("k",), ("p",)),
        KeyGenerator("SIMPLE", ("k",), ("p",), slash_dates=True),
    ):
        with pytest.raises(NotSupportedError, match="not supported"):
            keys.record_keys(schema.empty_table())
        with pytest.raises(NotSupportedError) as caught:
            check_key_types(keys, schema, table="file:///t")
        assert caught.value.table == "file:///t"
    assert partition_values("2026/01/02", KeyGenerator("GLOBAL_DELETE", ("k",), ("p",)), schema) is None
    assert partition_values("2026/01/02", KeyGenerator("SIMPLE", ("k",), ("p",), slash_dates=True), schema) is None


def test_columns_must_fit_the_kind_and_exist() -> None:
    schema = pa.schema([("k", pa.string()), ("p", pa.string())])
    for keys in (
        KeyGenerator("SIMPLE", ("k", "p"), ("p",)),
        KeyGenerator("SIMPLE", ("k",)),
        KeyGenerator("NON_PARTITION", ("k",), ("p",)),
    ):
        with pytest.raises(InvalidArgumentError):
            check_key_types(keys, schema)
    with pytest.raises(SchemaError, match=r"'K'.*k, p"):
        check_key_types(KeyGenerator("SIMPLE", ("K",), ("p",)), schema)
    with pytest.raises(SchemaError, match="'q'"):
        KeyGenerator("SIMPLE", ("k",), ("q",)).partition_paths(schema.empty_table())


def test_years_beyond_four_digits_are_refused() -> None:
    table = pa.table({"d": pa.array([2932897, 0, -719163], pa.date32())})
    with pytest.raises(InvalidArgumentError, match="2 dates"):
        KeyGenerator("NON_PARTITION", ("d",)).record_keys(table)


def test_a_key_generator_travels() -> None:
    keys = KeyGenerator("COMPLEX", ("a", "b"), ("p",), hive_style=True)
    assert pickle.loads(pickle.dumps(keys)) == keys


def test_paths_are_read_back_typed() -> None:
    keys = KeyGenerator("COMPLEX", ("id",), PARTITIONED)
    for path, row in zip(HUDI_PATHS, ROWS, strict=True):
        values = dict(zip(SCHEMA.names, row, strict=True))
        expected = {name: values[name] for name in PARTITIONED if values[name] is not None}
        assert partition_values(path, keys, SCHEMA) == expected


def test_what_a_path_does_not_tell_for_sure_is_not_told() -> None:
    two = KeyGenerator("COMPLEX", ("id",), ("s", "i"))
    assert partition_values("a/b/5", two, SCHEMA) is None
    assert partition_values("5", two, SCHEMA) is None
    assert partition_values("a/b", two, SCHEMA) == {"s": "a"}
    assert partition_values("a/05", two, SCHEMA) == {"s": "a"}
    assert partition_values("a/+5", two, SCHEMA) == {"s": "a"}
    assert partition_values("a/99999999999", two, SCHEMA) == {"s": "a"}
    hive = KeyGenerator("COMPLEX", ("id",), ("s", "i"), hive_style=True)
    assert partition_values("s=a/i=5", hive, SCHEMA) == {"s": "a", "i": 5}
    assert partition_values("s=a/5", hive, SCHEMA) is None
    assert partition_values("i=5/s=a", hive, SCHEMA) is None
    encoded = KeyGenerator("SIMPLE", ("id",), ("s",), url_encode=True)
    assert partition_values("a:b", encoded, SCHEMA) == {}
    assert partition_values("a%2fb", encoded, SCHEMA) == {}
    assert partition_values("default", KeyGenerator("SIMPLE", ("id",), ("s",)), SCHEMA) == {}
    assert partition_values("1", KeyGenerator("SIMPLE", ("id",), ("b",)), SCHEMA) == {}
    assert partition_values("x", KeyGenerator("NON_PARTITION", ("id",)), SCHEMA) is None
    assert partition_values("", KeyGenerator("NON_PARTITION", ("id",)), SCHEMA) == {}
    assert partition_values("x", KeyGenerator("SIMPLE", ("id",), ("gone",)), SCHEMA) == {}


TEXT = st.none() | st.text(max_size=6) | st.sampled_from(["a/b", "..", "x", "default", "%2F", "a=b"])


@given(
    st.lists(st.tuples(TEXT, st.none() | st.integers(-(2**31), 2**31 - 1)), min_size=1, max_size=8),
    st.booleans(),
    st.booleans(),
)
def test_values_read_from_a_path_are_the_rows_own(
    data: list[tuple[str | None, int | None]], hive: bool, url: bool
) -> None:
    texts, numbers = zip(*data, strict=True)
    table = pa.table({"id": ["k"] * len(data), "s": pa.array(texts, pa.string()), "i": pa.array(numbers, pa.int32())})
    for fields in (("s",), ("s", "i"), ("i", "s")):
        keys = KeyGenerator("COMPLEX", ("id",), fields, hive, url)
        try:
            paths = keys.partition_paths(table).to_pylist()
        except InvalidArgumentError:
            continue
        for path, row in zip(paths, table.to_pylist(), strict=True):
            for name, value in (partition_values(path, keys, table.schema) or {}).items():
                assert value == row[name]


@given(st.text(max_size=10).filter(lambda text: text not in {"", "__HIVE_DEFAULT_PARTITION__", "default"}))
def test_encoded_paths_lose_nothing(text: str) -> None:
    table = pa.table({"id": ["k"], "s": [text]})
    keys = KeyGenerator("SIMPLE", ("id",), ("s",), hive_style=True, url_encode=True)
    assert partition_values(keys.partition_paths(table)[0].as_py(), keys, table.schema) == {"s": text}
