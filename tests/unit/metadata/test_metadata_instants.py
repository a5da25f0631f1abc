"""Which instants of the metadata table count, whether it has kept up, and which file group holds a key."""

from __future__ import annotations

import pyarrow as pa
import pytest

from pudi.context import FileInfo
from pudi.errors import CorruptError
from pudi.filegroup import FileSlice, LogFile
from pudi.metadata.keys import Shards
from pudi.metadata.validity import is_known_to, missing, scope_of
from pudi.timeline import Timeline

A, B, C = "20260101000000001", "20260101000000002", "20260101000000003"
SOLO = "00000000000000000"


def completed(requested: str, after: int = 10, action: str = "deltacommit") -> str:
    return f"{requested}_{int(requested) + after:017d}.{action}"


def metadata(*names: str) -> Timeline:
    return Timeline.from_names([f"{SOLO}_20251231000000000.deltacommit", *names])


def test_a_commit_that_is_pending_on_the_table_does_not_count() -> None:
    data = Timeline.from_names([completed(A, action="commit"), f"{B}.commit.requested", f"{B}.inflight"])
    scope = scope_of(data, metadata(completed(A), completed(B)))
    assert [scope.sees(each) for each in (SOLO, A, B, C)] == [True, True, False, False]


def test_commits_of_the_metadata_table_that_are_pending_do_not_count() -> None:
    data = Timeline.from_names([completed(A, action="commit")])
    scope = scope_of(data, metadata(completed(A), f"{B}.deltacommit.requested", f"{B}.deltacommit.inflight"))
    assert not scope.sees(B)


def test_the_metadata_table_has_kept_up_or_not() -> None:
    data = Timeline.from_names([completed(A, action="commit"), completed(B, action="commit")])
    assert missing(data, metadata(completed(A), completed(B))) is None
    behind = missing(data, metadata(completed(A)))
    assert behind is not None
    assert behind.requested == B


def test_what_completed_before_the_metadata_table_was_made_is_in_it() -> None:
    data = Timeline.from_names([completed(A, action="commit"), completed(B, action="commit")])
    made = f"{SOLO}_{int(A) + 10:017d}.deltacommit"
    assert missing(data, Timeline.from_names([made, completed(B)])) is None


def test_after_archiving_the_oldest_commit_says_where_it_begins() -> None:
    data = Timeline.from_names([completed(each, action="commit") for each in (A, B, C)])
    assert missing(data, Timeline.from_names([completed(B), completed(C)])) is None
    behind = missing(data, Timeline.from_names([completed(A), completed(C)]))
    assert behind is not None
    assert behind.requested == B


def test_it_may_tell_of_a_commit_that_a_reader_does_not_see() -> None:
    data = Timeline.from_names([completed(A, action="commit")])
    for names, expected in (([completed(A)], True), ([completed(A), completed(B)], False)):
        known = metadata(*names)
        assert is_known_to(scope_of(data, known), known, data) is expected


def file_slice(file_id: str) -> FileSlice:
    log = LogFile.of("p", FileInfo(f"p/.{file_id}_{A}.log.1_0-0-0", 1, 0))
    assert log is not None
    return FileSlice("p", file_id, None, (log,))


def test_keys_go_to_the_file_group_of_their_number() -> None:
    shards = Shards.of("record_index", [file_slice(f"record-index-{number:04}-0") for number in (2, 0, 1)])
    assert [each.file_id[-6:-2] for each in shards.all] == ["0000", "0001", "0002"]
    found = shards.holding(pa.array(["a", "b", "c", "d"]), whole_key=False)
    assert {each.file_id[-6:-2]: keys.to_pylist() for each, keys in found} == {
        "0001": ["a", "d"],
        "0002": ["b"],
        "0000": ["c"],
    }


def test_a_record_index_may_be_kept_for_each_partition() -> None:
    names = ["record-index-nyc-0000-0", "record-index-sao%5Fpaulo-0000-0", "record-index-sao%5Fpaulo-0001-0"]
    shards = Shards.of("record_index", list(map(file_slice, names)))
    assert shards.partitioned
    assert {owner: len(groups) for owner, groups in shards.by_owner.items()} == {"nyc": 1, "sao_paulo": 2}
    assert [each.file_id for each, _ in shards.holding(pa.array(["a"]), whole_key=False, owner="nyc")] == names[:1]
    assert shards.holding(pa.array(["a"]), whole_key=False, owner="elsewhere") == []
    assert len(shards.holding(pa.array(["a"]), whole_key=False)) == 2


def test_an_older_plan_completes_after_the_metadata_table_was_made() -> None:
    """Below version 8: what it was built from isn't missing, what came later is."""
    data = Timeline.from_names([f"{A}.replacecommit", f"{B}.deltacommit", f"{C}.deltacommit"], 1)
    made = [f"{A}.deltacommit", f"{B}010.deltacommit"]
    assert missing(data, Timeline.from_names([*made, f"{C}.deltacommit"], 1)) is None
    behind = missing(data, Timeline.from_names(made, 1))
    assert behind is not None
    assert behind.requested == C


@pytest.mark.parametrize(
    "names", [[], ["files-0001-0"], ["record-index-0000-0"], ["files-xyz-0"], ["files-0000-0", "files-0002-0"]]
)
def test_file_groups_that_are_missing_or_strange(names: list[str]) -> None:
    with pytest.raises(CorruptError):
        Shards.of("files", list(map(file_slice, names)))
