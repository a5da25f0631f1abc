"""Plans of compactions: those of Hudi's golden tables come back byte for byte; damaged ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError, NotSupportedError
from pudi.format import CompactionOperation, CompactionPlan, decode_compaction_plan, encode_compaction_plan
from pudi.format.avro_file import RecordSchema, encode_avro_file
from pudi.format.avro_schemas import COMPACTION_PLAN
from support.golden import Golden

_SYNC = 16
"""Bytes of the marker, random in Hudi's files, that ends the head of an Avro file and its block."""


@pytest.mark.parametrize(
    "name", ["mor_v9_services", "mor_v9_pending_compaction", "mor_v9_logcompact", "mor_v6_services"]
)
def test_plans_of_hudi_come_back_byte_for_byte(golden_folder: Path, name: str) -> None:
    table = Golden(name).unpack(golden_folder)
    found = sorted((table / ".hoodie").rglob("*compaction.requested"))
    found = [file for file in found if "metadata" not in file.parts]
    assert found
    for file in found:
        stored = file.read_bytes()
        plan = decode_compaction_plan(stored)
        made = encode_compaction_plan(plan)
        assert made.replace(made[-_SYNC:], b"") == stored.replace(stored[-_SYNC:], b"")
        assert plan.logs_only == ("logcompaction" in file.name)
        for operation in plan.operations:
            for log in operation.log_files:
                assert (table / operation.partition_path / log).exists() or name == "mor_v9_services"


_names = st.text("abc-019", min_size=1, max_size=12)
_operations = st.builds(
    CompactionOperation,
    _names,
    _names,
    st.just("20261121080143200"),
    st.none() | _names,
    st.lists(_names, max_size=3).map(tuple),
    st.dictionaries(_names, st.floats(allow_nan=False)),
)


@given(
    st.builds(
        CompactionPlan,
        st.lists(_operations, max_size=3).map(tuple),
        st.dictionaries(_names, _names),
        st.booleans(),
        st.lists(_names, max_size=2).map(tuple),
    )
)
def test_round_trip(plan: CompactionPlan) -> None:
    assert decode_compaction_plan(encode_compaction_plan(plan)) == plan


def test_damage_is_told() -> None:
    operation = CompactionOperation("nyc", "f-0", "20261121080143200", None, (".f-0_20261121080143200.log.1_0-0-0",))
    good = encode_compaction_plan(CompactionPlan((operation,)))
    for end in range(1, len(good)):
        with pytest.raises(CorruptError):
            decode_compaction_plan(good[:end], path="x.compaction.requested")
    with pytest.raises(CorruptError, match="file group"):
        decode_compaction_plan(encode_compaction_plan(CompactionPlan((CompactionOperation("", "", "", None, ()),))))
    assert decode_compaction_plan(b"") == CompactionPlan(())


def test_plans_of_a_later_hudi_are_refused() -> None:
    later = {"operations": [], "version": 3, "preserveHoodieMetadata": False}
    with pytest.raises(NotSupportedError, match="version 3"):
        decode_compaction_plan(encode_avro_file(RecordSchema.of(COMPACTION_PLAN), later))


def test_whole_paths_of_old_plans_become_names() -> None:
    old = {
        "operations": [
            {
                "baseInstantTime": "1",
                "fileId": "f",
                "partitionPath": "nyc",
                "dataFilePath": "s3://b/t/nyc/f_1-0-1_1.parquet",
                "deltaFilePaths": ["s3://b/t/nyc/.f_1.log.1_1-0-1"],
            }
        ],
        "version": 1,
    }
    [operation] = decode_compaction_plan(encode_avro_file(RecordSchema.of(COMPACTION_PLAN), old)).operations
    assert operation.base_file == "f_1-0-1_1.parquet"
    assert operation.log_files == (".f_1.log.1_1-0-1",)
