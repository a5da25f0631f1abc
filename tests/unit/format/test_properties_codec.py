from __future__ import annotations

import contextlib

import pytest
from golden_files import FORMAT, table_files
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError, InvalidArgumentError
from pudi.format import (
    PartitionMetadata,
    decode_partition_metadata,
    decode_properties,
    decode_table_properties,
    encode_partition_metadata,
    encode_properties,
    encode_table_properties,
    table_checksum,
)

MOMENT = 1_795_247_983_944  # 2026-11-21 07:59:43.944 UTC

texts = st.text(st.characters(codec="utf-8"), max_size=20)


@given(st.dictionaries(texts.filter(bool), texts, max_size=6))
def test_properties_come_back(properties: dict[str, str]) -> None:
    assert decode_properties(encode_properties(properties, "a comment", MOMENT)) == properties


@given(st.dictionaries(texts.filter(bool), texts, max_size=4))
def test_table_properties_come_back_with_their_checksum(properties: dict[str, str]) -> None:
    properties = {**properties, "hoodie.table.name": "trips"}  # hypothesis draws texts of our sources too
    content = encode_table_properties(properties, MOMENT)
    checksum = {"hoodie.table.checksum": str(table_checksum("trips", properties.get("hoodie.database.name", "")))}
    assert decode_table_properties(content) == properties | checksum


def test_table_properties_begin_as_hudis_do() -> None:
    lines = encode_table_properties({"hoodie.table.name": "trips", "a": "1"}, MOMENT).decode().splitlines()
    assert lines[:3] == ["#Updated at 2026-11-21T07:59:43.944Z", "#Sat Nov 21 07:59:43 UTC 2026", "a=1"]


def test_escapes_are_those_of_java() -> None:
    # As java.util.Properties.store writes them.
    content = b"#c\n\\ key\\:\\ 1=\\ a\\: \\=\\#\\!\\\\ b \\u00FC\\uD83D\\uDE00\\t\\n\n"
    assert decode_properties(content) == {" key: 1": " a: =#!\\ b \u00fc\U0001f600\t\n"}
    printed = encode_properties({" key: 1": " a: =#!\\ b \u00fc\U0001f600\t\n"}, "c", MOMENT)
    assert printed.splitlines()[2].lower() == content.splitlines()[1].lower()


def test_table_properties_of_hudi_pass_their_checksum() -> None:
    tables = {path: data for path, data in table_files().items() if path.endswith(".hoodie/hoodie.properties")}
    assert len(tables) > 15
    for data in tables.values():
        properties = decode_table_properties(data)
        assert properties["hoodie.table.version"] == "9"
        names = properties["hoodie.table.name"], properties.get("hoodie.database.name", "")
        assert int(properties["hoodie.table.checksum"]) == table_checksum(*names)


@pytest.mark.parametrize(
    ("table", "version", "layout"), [("cow_v6_basic", "6", "1"), ("mor_v8_basic", "8", "2"), ("mor_v9_types", "9", "2")]
)
def test_other_versions(table: str, version: str, layout: str) -> None:
    properties = decode_table_properties((FORMAT / "properties" / f"{table}.properties").read_bytes())
    assert properties["hoodie.table.version"] == version
    assert properties["hoodie.timeline.layout.version"] == layout
    assert properties["hoodie.table.name"] == table


def test_the_checksum_of_hudis_own_table() -> None:
    assert table_checksum("cow_v9_basic") == 2671086973


def test_the_database_is_part_of_the_checksum() -> None:
    good = encode_table_properties({"hoodie.table.name": "t", "hoodie.database.name": "d"}, MOMENT)
    assert decode_table_properties(good)["hoodie.table.checksum"] != str(table_checksum("t"))
    with pytest.raises(CorruptError, match="checksum"):
        decode_table_properties(good.replace(b"hoodie.database.name=d", b"hoodie.database.name=e"), path="p")


def test_without_a_checksum_a_name_is_enough() -> None:
    assert decode_table_properties(b"hoodie.table.name=t\n") == {"hoodie.table.name": "t"}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"hoodie.table.type=COPY_ON_WRITE\n",
        b"hoodie.table.name=t\nhoodie.table.checksum=1\n",
        b"hoodie.table.name=t\nhoodie.table.checksum=x\n",
        b"hoodie.table.name=t\nhoodie.table.version=",
        b"hoodie.table.name=\\u12\n",
        b"a\\\n" * 5000,
    ],
)
def test_bad_table_properties_are_corrupt(content: bytes) -> None:
    with pytest.raises(CorruptError) as caught:
        decode_table_properties(content, path=".hoodie/hoodie.properties")
    assert caught.value.path == ".hoodie/hoodie.properties"


def test_properties_that_were_cut_off_in_a_line_are_corrupt() -> None:
    content = table_files()["cow_v9_basic/.hoodie/hoodie.properties"]
    cuts = [cut for cut in range(1, len(content)) if content[cut - 1 : cut] != b"\n"]
    for cut in cuts:
        with pytest.raises(CorruptError):
            decode_table_properties(content[:cut])


@given(st.binary(max_size=200))
def test_any_bytes_are_properties_or_corrupt(content: bytes) -> None:
    with contextlib.suppress(CorruptError):
        decode_properties(content)


def test_a_table_without_a_name_is_not_written() -> None:
    with pytest.raises(InvalidArgumentError):
        encode_table_properties({"hoodie.table.type": "COPY_ON_WRITE"}, MOMENT)


def test_partition_metadata_is_what_hudi_writes() -> None:
    content = table_files()["cow_v9_basic/nyc/.hoodie_partition_metadata"]
    metadata = PartitionMetadata("20261121075942805", 1)
    assert decode_partition_metadata(content) == metadata
    assert b"#Sat Nov 21 07:59:44 UTC 2026\n" in content
    assert encode_partition_metadata(metadata, MOMENT + 500) == content


def test_depth_of_an_unpartitioned_table_is_0() -> None:
    content = table_files()["cow_v9_nonpart/.hoodie_partition_metadata"]
    assert decode_partition_metadata(content).partition_depth == 0


@pytest.mark.parametrize(
    "content", [b"", b"commitTime=1\n", b"partitionDepth=1\n", b"commitTime=1\npartitionDepth=x\n"]
)
def test_bad_partition_metadata_is_corrupt(content: bytes) -> None:
    with pytest.raises(CorruptError):
        decode_partition_metadata(content)
