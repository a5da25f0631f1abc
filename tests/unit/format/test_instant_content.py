from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import fastavro
import pytest
from golden_files import table_files, timeline_files
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError, NotSupportedError
from pudi.format import (
    CommitMetadata,
    InstantInfo,
    RequestedReplaceMetadata,
    RollbackMetadata,
    RollbackPartitionMetadata,
    RollbackPlan,
    RollbackRequest,
    RuntimeStats,
    WriteStat,
    decode_avro,
    decode_commit_metadata,
    decode_requested_replace_metadata,
    decode_rollback_metadata,
    decode_rollback_plan,
    encode_commit_metadata,
    encode_requested_replace_metadata,
    encode_rollback_metadata,
    encode_rollback_plan,
)

Decoder = Callable[..., Any]

CODECS: dict[str, tuple[Decoder, Callable[[Any], bytes]]] = {
    "HoodieCommitMetadata": (decode_commit_metadata, encode_commit_metadata),
    "HoodieReplaceCommitMetadata": (decode_commit_metadata, encode_commit_metadata),
    "HoodieRequestedReplaceMetadata": (decode_requested_replace_metadata, encode_requested_replace_metadata),
    "HoodieRollbackPlan": (decode_rollback_plan, encode_rollback_plan),
    "HoodieRollbackMetadata": (decode_rollback_metadata, encode_rollback_metadata),
}


def avro_files() -> dict[str, tuple[str, bytes]]:
    """Record name and content by path of the timeline files that hold Avro."""
    found = {path: data for path, data in timeline_files().items() if data}
    return {path: (_reader(data).writer_schema["name"].rpartition(".")[2], data) for path, data in found.items()}


def _reader(data: bytes) -> Any:
    return fastavro.reader(io.BytesIO(data))


SAMPLES = sorted(dict(avro_files().values()).items())


def test_all_kinds_of_instants_are_among_the_golden_ones() -> None:
    assert {name for name, _ in SAMPLES} == set(CODECS) | {
        "HoodieCleanerPlan",
        "HoodieCleanMetadata",
        "HoodieCompactionPlan",
        "HoodieSavepointMetadata",
        "HoodieRestorePlan",
        "HoodieRestoreMetadata",
        "HoodieIndexPlan",
        "HoodieIndexCommitMetadata",
    }


def test_every_avro_file_reads_as_fastavro_reads_it() -> None:
    files = avro_files()
    assert len(files) > 150
    for path, (_, data) in files.items():
        assert [decode_avro(data, path=path)] == list(_reader(data)), path


def test_what_pudi_writes_is_byte_for_byte_what_hudi_wrote_but_for_the_random_marker() -> None:
    for path, (name, data) in avro_files().items():
        if name in CODECS:
            decode, encode = CODECS[name]
            again = encode(decode(data, path=path))
            assert again[-16:] != data[-16:]
            assert again.replace(again[-16:], data[-16:]) == data, path


def test_a_commit_of_hudi() -> None:
    files = {path: data for path, data in table_files().items() if path.startswith("cow_v9_basic/.hoodie/timeline/")}
    commit = decode_commit_metadata(files["cow_v9_basic/.hoodie/timeline/20261121075945967_20261121075948677.commit"])
    assert commit.operation_type == "UPSERT"
    assert commit.compacted is False
    assert commit.partition_to_replace_file_ids is None
    assert json.loads(commit.extra_metadata["schema"])["name"] == "cow_v9_basic_record"
    assert set(commit.partition_to_write_stats) == {"nyc", "sao_paulo", "chennai"}
    assert commit.partition_to_write_stats["chennai"] == (
        WriteStat(
            file_id="74074f81-c645-459a-89c7-f189d875a5e4-1",
            path="chennai/74074f81-c645-459a-89c7-f189d875a5e4-1_2-774-1227_20261121075945967.parquet",
            prev_commit="20261121075942805",
            num_writes=12,
            num_update_writes=4,
            num_inserts=2,
            total_write_bytes=435964,
            file_size_in_bytes=435964,
            partition_path="chennai",
            prev_base_file="74074f81-c645-459a-89c7-f189d875a5e4-1_0-750-1174_20261121075942805.parquet",
            runtime_stats=RuntimeStats(0, 0, 105),
        ),
    )


def test_a_replacecommit_of_hudi() -> None:
    data = table_files()["cow_v9_replace/.hoodie/timeline/20261121080748860_20261121080750143.replacecommit"]
    assert decode_commit_metadata(data).partition_to_replace_file_ids == {
        "nyc": ("f2733c31-4208-4788-a594-6e5277792287-2",)
    }
    requested = table_files()["cow_v9_replace/.hoodie/timeline/20261121080748860.replacecommit.requested"]
    assert decode_requested_replace_metadata(requested) == RequestedReplaceMetadata()


def test_a_rollback_of_hudi() -> None:
    plan = decode_rollback_plan(timeline_files()["20261121080842052.rollback.requested"])
    assert plan.instant_to_rollback == InstantInfo("20261121080839698", "deltacommit")
    assert [request.partition_path for request in plan.rollback_requests] == ["nyc", "chennai"]
    assert [len(request.files_to_be_deleted) for request in plan.rollback_requests] == [1, 1]
    done = decode_rollback_metadata(timeline_files()["20261121080842052_20261121080842477.rollback"])
    assert done.commits_rollback == ("20261121080839698",)
    assert done.total_files_deleted == 2
    assert done.partition_metadata["nyc"].success_delete_files == plan.rollback_requests[0].files_to_be_deleted


texts = st.text(max_size=8)
counts = st.integers(-(2**63), 2**63 - 1)
stats = st.builds(
    WriteStat,
    file_id=texts,
    num_writes=counts,
    log_version=st.none() | st.integers(-(2**31), 2**31 - 1),
    log_files=st.none() | st.lists(texts, max_size=2).map(tuple),
    cdc_stats=st.none() | st.dictionaries(texts, counts, max_size=2),
    runtime_stats=st.none() | st.builds(RuntimeStats, counts, counts, counts),
)
commits = st.builds(
    CommitMetadata,
    st.dictionaries(texts, st.lists(stats, max_size=2).map(tuple), max_size=2),
    st.booleans(),
    st.dictionaries(texts, texts, max_size=2),
    st.none() | texts,
    st.none() | st.dictionaries(texts, st.lists(texts, max_size=3).map(tuple), max_size=2),
)
texts_tuple = st.lists(texts, max_size=2).map(tuple)
sizes = st.none() | st.dictionaries(texts, counts, max_size=2)
instants = st.builds(InstantInfo, texts, texts)
requests = st.builds(RollbackRequest, texts, st.none() | texts, st.none() | texts, texts_tuple, sizes)
plans = st.builds(RollbackPlan, st.none() | instants, st.lists(requests, max_size=2).map(tuple))
partitions = st.builds(RollbackPartitionMetadata, texts, texts_tuple, texts_tuple, sizes, sizes)
rollbacks = st.builds(
    RollbackMetadata,
    texts,
    counts,
    st.integers(0, 2**31 - 1),
    texts_tuple,
    st.dictionaries(texts, partitions, max_size=2),
    st.just(1),
    st.lists(instants, max_size=2).map(tuple),
)


@given(commits)
def test_commits_come_back(metadata: CommitMetadata) -> None:
    assert decode_commit_metadata(encode_commit_metadata(metadata)) == metadata


@given(plans)
def test_rollback_plans_come_back(plan: RollbackPlan) -> None:
    assert decode_rollback_plan(encode_rollback_plan(plan)) == plan


@given(rollbacks)
def test_rollbacks_come_back(metadata: RollbackMetadata) -> None:
    assert decode_rollback_metadata(encode_rollback_metadata(metadata)) == metadata


def test_equal_content_gives_equal_bytes() -> None:
    assert encode_commit_metadata(CommitMetadata()) == encode_commit_metadata(CommitMetadata())


def test_empty_files_are_empty_metadata() -> None:
    assert decode_commit_metadata(b"") == CommitMetadata()
    assert decode_requested_replace_metadata(b"") == RequestedReplaceMetadata()
    assert decode_rollback_plan(b"").rollback_requests == ()
    assert decode_rollback_metadata(b"").total_files_deleted == 0
    assert decode_avro(b"") == {}


def test_a_file_of_another_kind_is_corrupt() -> None:
    with pytest.raises(CorruptError, match="HoodieRollbackPlan"):
        decode_commit_metadata(encode_rollback_plan(RollbackPlan(None)), path="x.commit")


def test_only_commits_are_ever_in_json() -> None:
    assert decode_commit_metadata(b'{"partitionToWriteStats": {}}') == CommitMetadata()
    with pytest.raises(CorruptError, match="JSON"):
        decode_rollback_plan(b"{}")


def test_fields_that_a_later_hudi_adds_are_skipped() -> None:
    schema = json.loads(_reader(encode_commit_metadata(CommitMetadata())).metadata["avro.schema"])
    schema["fields"].insert(0, {"name": "later", "type": ["null", "string"], "default": None})
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(schema), [{"later": "x", "operationType": "INSERT", "version": None}])
    assert decode_commit_metadata(out.getvalue()) == CommitMetadata(operation_type="INSERT")


@pytest.mark.parametrize(("name", "data"), SAMPLES)
def test_a_file_cut_off_anywhere_is_corrupt(name: str, data: bytes) -> None:
    for cut in range(1, len(data), max(1, len(data) // 200)):
        with pytest.raises(CorruptError):
            decode_avro(data[:cut], path="f")
    with pytest.raises(CorruptError):
        decode_avro(data + b"\0", path="f")


@given(st.sampled_from(SAMPLES), st.data())
def test_a_damaged_file_is_corrupt_or_still_a_record(sample: tuple[str, bytes], data: st.DataObject) -> None:
    name, content = sample
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content) - 1))
        damaged[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=10))
    for decode in (decode_avro, CODECS.get(name, (decode_avro,))[0]):
        try:
            decode(bytes(damaged))
        except (CorruptError, NotSupportedError):
            continue


@given(st.sampled_from(SAMPLES), st.data())
def test_a_damaged_value_is_corrupt_or_still_a_record(sample: tuple[str, bytes], data: st.DataObject) -> None:
    name, content = sample
    start = content.index(content[-16:]) + 16
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 8))):
        place = data.draw(st.integers(start, len(content) - 17))
        damaged[place] ^= data.draw(st.integers(1, 255))
    for decode in (decode_avro, CODECS.get(name, (decode_avro,))[0]):
        try:
            decode(bytes(damaged))
        except CorruptError:
            continue


def container(schema: object, block: bytes, codec: bytes | None = None) -> bytes:
    """An Avro file with any schema, by hand."""
    text = schema if isinstance(schema, bytes) else json.dumps(schema).encode()
    meta = {"avro.schema": text} | ({} if codec is None else {"avro.codec": codec})
    out = io.BytesIO()
    fastavro.schemaless_writer(out, {"type": "map", "values": "bytes"}, meta)
    fields = io.BytesIO()
    fastavro.schemaless_writer(fields, "long", 1)
    fastavro.schemaless_writer(fields, "bytes", block)
    return b"Obj\x01" + out.getvalue() + b"s" * 16 + fields.getvalue() + b"s" * 16


def record(*types: object, name: str = "R") -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": f"f{i}", "type": t} for i, t in enumerate(types)]}


HUGE = b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"  # the long 2**63 - 1


def nested(depth: int) -> dict[str, Any]:
    return record("int", name="R0") if not depth else record(nested(depth - 1), name=f"R{depth}")


def chain(length: int) -> dict[str, Any]:
    """A record whose fields define R0, then R1 around R0, …: flat text, deep values."""
    return record(record("int", name="R0"), *(record(f"R{i}", name=f"R{i + 1}") for i in range(length)), name="Top")


@pytest.mark.parametrize(
    ("schema", "block"),
    [
        pytest.param(record({"type": "array", "items": "null"}), HUGE + b"\0", id="endless array of nothing"),
        pytest.param(
            record({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}),
            HUGE,
            id="of empty records",
        ),
        pytest.param(
            record({"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}),
            HUGE,
            id="of fixed of 0 bytes",
        ),
        pytest.param(record({"type": "fixed", "name": "F", "size": 2**62}), b"", id="endless fixed"),
        pytest.param(record({"type": "array", "items": "int"}), HUGE + b"\0", id="array longer than the file"),
        pytest.param(record({"type": "map", "values": "int"}), HUGE + b"\0", id="map longer than the file"),
        pytest.param(record("string"), HUGE + b"a", id="string longer than the file"),
        pytest.param(record("bytes"), b"\x01", id="bytes of negative length"),
        pytest.param(record("R"), b"", id="record that is its own field"),
        pytest.param(record(["null", "R"]), b"\x02" * 100_000, id="record that may be its own field"),
        pytest.param(nested(40), b"\0", id="deep schema"),
        pytest.param(chain(2000), b"\0" * 100, id="deep values"),
        pytest.param(b"[" * 100_000, b"", id="deep JSON"),
        pytest.param(b"", b"", id="no schema"),
        pytest.param(b"\xff", b"", id="schema that is no text"),
        pytest.param("int", b"\0", id="no record"),
        pytest.param(record("Unknown"), b"", id="unknown type"),
        pytest.param(record({"type": "enum", "name": "E", "symbols": ["A"]}), b"\x08", id="enum beyond its symbols"),
        pytest.param(record(["null", "int"]), b"\x08", id="union beyond its branches"),
        pytest.param(record({"type": "bytes", "logicalType": "decimal", "precision": 9**9}), b"\0", id="logical type"),
        pytest.param(record("string"), b"\x02\xff", id="string that is no UTF-8"),
        pytest.param({"type": "record", "name": "R", "fields": [{"name": "f"}]}, b"", id="field without a type"),
        pytest.param(b" " * (2 << 20), b"", id="endless schema"),
    ],
)
def test_hostile_files_are_corrupt_at_once(schema: object, block: bytes) -> None:
    with pytest.raises(CorruptError):
        decode_avro(container(schema, block), path="f")


def test_a_compressed_file_is_not_unpacked() -> None:
    with pytest.raises(CorruptError, match="codec"):
        decode_avro(container(record("int"), b"\0", codec=b"deflate"))


def test_errors_name_the_file() -> None:
    with pytest.raises(CorruptError) as caught:
        decode_commit_metadata(b"Obj\x01\x02", path=".hoodie/timeline/1_2.commit")
    assert caught.value.path == ".hoodie/timeline/1_2.commit"
    assert caught.value.offset is not None
