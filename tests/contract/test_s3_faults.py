"""S3 over HTTP when answers are late, lost or wrong: what a writer may believe."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pudi.context import Context, ManualClock, Storage
from pudi.errors import (
    ConflictError,
    CorruptError,
    InvalidArgumentError,
    NotFoundError,
    RefusedError,
    TableExistsError,
    UnavailableError,
)
from pudi.storage import open_input, open_storage, prefetch, replacing

BUCKET = "lake-of-tests"
LOST = None


@pytest.fixture
def storage(s3: Any) -> Storage:
    return open_storage(s3.new_root(), s3.options(), context=Context(ManualClock(), seed=1))


@pytest.mark.parametrize("content", [b"", b"content"])
@pytest.mark.parametrize("faults", [[LOST], [503, LOST], [500, 500], [LOST, 503, 500]])
def test_create_whose_answer_was_lost_succeeds(s3: Any, storage: Storage, content: bytes, faults: list[Any]) -> None:
    s3.faults += [("PUT", "/file", status) for status in faults]
    storage.create("file", content)
    assert storage.read("file") == content
    assert s3.faults == []


@pytest.mark.parametrize("content", [b"", b"content"])
def test_an_equal_file_of_another_is_not_mine_after_a_failure(s3: Any, storage: Storage, content: bytes) -> None:
    """The failed attempt wrote nothing; meanwhile another wrote the same bytes."""
    copy = pickle.loads(pickle.dumps(storage))
    copy.create("file", content)
    s3.faults.append(("PUT", "/file", 503))
    with pytest.raises(TableExistsError):
        storage.create("file", content)


def test_an_equal_empty_file_of_hudi_is_not_mine_after_a_failure(s3: Any, storage: Storage) -> None:
    key = f"{storage.root.removeprefix(f's3://{BUCKET}/')}/file"
    s3.client().put_object(Bucket=BUCKET, Key=key, Body=b"")
    s3.faults.append(("PUT", "/file", 503))
    with pytest.raises(TableExistsError):
        storage.create("file", b"")


def test_a_busy_conditional_write_is_tried_again(s3: Any, storage: Storage) -> None:
    """S3 answers 409 while another's write of the key is under way, whether that one succeeds or not."""
    s3.faults += [("PUT", "/file", 409), ("PUT", "/file", 409)]
    storage.create("file", b"1")
    assert storage.read("file") == b"1"


def test_what_stays_unknown_is_said_to_be(s3: Any, storage: Storage) -> None:
    s3.faults += [("PUT", "/file", 503)] * 6
    with pytest.raises(UnavailableError, match="unknown") as raised:
        storage.create("file", b"1")
    assert raised.value.path == "file"


def test_retries_wait_longer_each_time_on_the_clock_given(s3: Any) -> None:
    clock = ManualClock(0)
    storage = open_storage(s3.new_root(), s3.options(), context=Context(clock, seed=1))
    s3.faults += [("GET", "/file", 503)] * 6
    with pytest.raises(UnavailableError, match="503"):
        storage.read("file")
    assert s3.faults == []
    assert 3.1 <= clock.monotonic() <= 6.2  # the sum of 0.2 to 3.2 s, each at least half


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_reads_are_tried_again(s3: Any, storage: Storage, method: str) -> None:
    storage.create("file", b"0123456789")
    for read in (storage.read, storage.head, lambda p: storage.read_ranges(p, [(1, 2)])):
        s3.faults += [(method, "/file", 500), (method, "/file", 429)]
        read("file")
        s3.faults.clear()


def test_a_refusal_is_not_tried_again(s3: Any, storage: Storage) -> None:
    s3.faults += [("GET", "/file", 403)]
    with pytest.raises(RefusedError, match="credentials"):
        storage.read("file")
    assert s3.faults == []


def test_puts_deletes_and_lists_are_tried_again(s3: Any, storage: Storage) -> None:
    s3.faults += [("PUT", "/a", LOST), ("POST", "", LOST), ("GET", "", 503)]
    storage.put("a", b"1")
    storage.put("b", b"2")
    storage.delete(["a"])
    assert [info.path for info in storage.list()] == ["b"]
    assert s3.faults == []


@pytest.mark.parametrize("code", ["SlowDown", "InternalError"])
def test_keys_that_a_deletion_leaves_are_tried_again(s3: Any, storage: Storage, code: str) -> None:
    """S3 answers with success, and says in the body which keys it was too busy for."""
    names = [f"file {number}" for number in range(12)]
    for name in names:
        storage.put(name, b"1")
    s3.faults += [("POST", "", code), ("POST", "", 503), ("POST", "", code)]
    storage.delete(names)
    assert list(storage.list()) == []
    assert s3.faults == []


def test_keys_that_may_not_be_deleted_are_not_tried_again(s3: Any, storage: Storage) -> None:
    storage.put("file", b"1")
    s3.faults += [("POST", "", "AccessDenied")] * 2
    with pytest.raises(RefusedError, match="AccessDenied"):
        storage.delete(["file", "other"])
    assert len(s3.faults) == 1
    s3.faults.clear()


def test_replace_whose_answer_was_lost_succeeds(s3: Any, storage: Storage) -> None:
    able = replacing(storage)
    assert able is not None
    storage.create("file", b"1")
    _, version = able.read_version("file")
    s3.faults.append(("PUT", "/file", LOST))
    newer = able.replace("file", b"2", version)
    assert able.read_version("file") == (b"2", newer)
    with pytest.raises(ConflictError):
        able.replace("file", b"3", version)


def test_a_missing_bucket_is_no_empty_table(s3: Any) -> None:
    storage = open_storage("s3://no-such-bucket/t", s3.options())
    for call in (lambda: list(storage.list()), storage.list_dir, lambda: storage.create("a", b"")):
        with pytest.raises(NotFoundError):
            call()


def test_no_server_is_unavailable(s3: Any) -> None:
    options = {**s3.options(), "endpoint": "http://127.0.0.1:1"}
    storage = open_storage(s3.new_root(), options, context=Context(ManualClock()))
    for call in (lambda: storage.read("a"), lambda: storage.create("a", b""), lambda: list(storage.list())):
        with pytest.raises(UnavailableError):
            call()


def test_options_come_from_the_environment_too(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    root = s3.new_root()
    open_storage(root, s3.options()).create("file", b"1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    assert open_storage(root).read("file") == b"1"


def test_plain_http_must_be_allowed(s3: Any) -> None:
    options = {key: value for key, value in s3.options().items() if key != "allow_http"}
    with pytest.raises(InvalidArgumentError, match="allow_http"):
        open_storage(s3.new_root(), options).read("file")


def test_options_may_be_spelled_as_the_environment_spells_them(s3: Any) -> None:
    root = s3.new_root()
    open_storage(root, s3.options()).create("file", b"1")
    spelled = {f"AWS_{key.upper()}": value for key, value in s3.options().items()}
    storage = open_storage(root.replace("s3://", "s3a://"), spelled)
    assert storage.root.startswith("s3a://")
    assert storage.read("file") == b"1"


def test_keys_are_the_names_given(s3: Any, storage: Storage) -> None:
    storage.create("p=50%/a b+c#1/é", b"1")
    prefix = storage.root.removeprefix(f"s3://{BUCKET}/")
    found = s3.client().list_objects_v2(Bucket=BUCKET, Prefix=prefix)["Contents"]
    assert [each["Key"] for each in found] == [f"{prefix}/p=50%/a b+c#1/é"]


def test_hadoops_folder_objects_are_no_files(s3: Any, storage: Storage) -> None:
    prefix = storage.root.removeprefix(f"s3://{BUCKET}/")
    storage.create("p/q/file", b"")
    for folder in ("", "p/", "p/q/"):
        s3.client().put_object(Bucket=BUCKET, Key=f"{prefix}/{folder}", Body=b"")
    assert [info.path for info in storage.list()] == ["p/q/file"]
    assert [info.path for info in storage.list("p")] == ["p/q/file"]
    assert storage.list_dir("") == ([], ["p"])
    assert storage.list_dir("p") == ([], ["q"])
    assert [info.path for info in storage.list_dir("p/q")[0]] == ["p/q/file"]


def test_a_base_file_costs_two_requests(s3: Any, storage: Storage) -> None:
    table = pa.table({f"c{n}": pa.array(range(n, n + 60_000)) for n in range(8)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, compression="none", use_dictionary=False)
    storage.create("f.parquet", sink.getvalue().to_pybytes())
    s3.requests.clear()
    file = open_input(storage, "f.parquet")
    metadata = pq.read_metadata(file)
    chunks = [metadata.row_group(0).column(n) for n in (1, 2)]
    prefetch(file, [(chunk.data_page_offset, chunk.total_compressed_size) for chunk in chunks])
    found = pq.ParquetFile(file, metadata=metadata, pre_buffer=True).read(columns=["c1", "c2"])
    assert found == table.select(["c1", "c2"])
    assert [method for method, _ in s3.requests] == ["GET", "GET"]


def test_a_file_cut_short_is_corrupt(storage: Storage) -> None:
    storage.create("file", b"x" * 100)
    file = open_input(storage, "file", 5 << 20)
    with pytest.raises(CorruptError):
        prefetch(file, [(50, 100)])


def test_a_bad_option_value_is_refused(s3: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="maybe"):
        open_storage(s3.new_root(), {**s3.options(), "allow_http": "maybe"})
