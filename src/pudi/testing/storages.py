"""The contract of a `Storage`, as tests: a new storage subclasses `StorageTests` and gives the fixture."""

from __future__ import annotations

import pickle
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pudi.context import FileInfo, Storage
from pudi.errors import ConflictError, CorruptError, InvalidArgumentError, NotFoundError, TableExistsError
from pudi.storage import CountingStorage, delete_folder, list_names, open_input, prefetch, read_tail, replacing
from pudi.testing.race import START_TIMEOUT, Barrier, race

NAMES = (
    "city=nyc", "a b", " lead", "trail ", "50%", "a%20b", "%2F", "h#1", "x#12", "p+q", "10:30", "q?r", "s*", "[b]",
    "{c}", "~t", "^u", "`v`", "|w", "<x>", '"y"', "'z'", "$d", "&e", ";f", "@g", "a=b=c", "..a", "b..", "é",
    "e\u0301", "日本", "🚕", "__HIVE_DEFAULT_PARTITION__", ".hidden", "_x",
)  # fmt: skip
"""Names that partition values bring into paths. A storage keeps each as it is."""

BAD_PATHS = ("/a", "a/", "a//b", "../a", "a/../b", "a/..", "./a", "a/.", ".", "..", "a\\b", "a\0b", "/", "//", "\\")
BIG = 3 << 20


def race_to_create(barrier: Barrier, number: int, storage: Storage, keys: int, same: bool) -> list[int]:
    """The keys that this racer created."""
    won = []
    for key in range(keys):
        barrier.wait(START_TIMEOUT)
        try:
            storage.create(f"race/{key}", b"" if same else f"racer {number}".encode())
            won.append(key)
        except TableExistsError:
            continue
    return won


def race_to_replace(barrier: Barrier, number: int, storage: Storage, rounds: int) -> int:
    """Count up a number in a file by replace-if-unchanged; how often this racer had to try again."""
    del number
    able = replacing(storage)
    assert able is not None
    barrier.wait(START_TIMEOUT)
    again = done = 0
    while done < rounds:
        data, version = able.read_version("counter")
        try:
            able.replace("counter", str(int(data) + 1).encode(), version)
            done += 1
        except ConflictError:
            again += 1
    return again


class StorageTests:
    """Contract of every storage. Subclasses give the fixture `storage`: an empty one, new for each test."""

    processes = True
    """Whether other processes can reach the files."""

    @pytest.fixture
    def storage(self) -> Storage:
        """An empty storage."""
        raise NotImplementedError("give a fixture `storage`")

    def test_it_is_a_storage(self, storage: Storage) -> None:
        """The protocol's methods are there."""
        assert isinstance(storage, Storage)
        assert not storage.root.endswith("/")

    @pytest.mark.parametrize("content", [b"", b"x", bytes(range(256)) * 5000], ids=["empty", "byte", "large"])
    def test_what_is_created_is_read(self, storage: Storage, content: bytes) -> None:
        """Content comes back whole, with the right facts."""
        storage.create("a/b/file", content)
        assert storage.read("a/b/file") == content
        info = storage.head("a/b/file")
        assert (info.path, info.size) == ("a/b/file", len(content))
        assert 1_600_000_000_000 < info.modified_ms < 10_000_000_000_000

    def test_any_buffer_is_content(self, storage: Storage) -> None:
        """Arrow buffers and views are written without being copied to bytes first."""
        contents: tuple[Any, Any] = (pa.py_buffer(b"from arrow"), memoryview(b"from a view"))
        storage.create("arrow", contents[0])
        storage.put("view", contents[1])
        assert (storage.read("arrow"), storage.read("view")) == (b"from arrow", b"from a view")

    @pytest.mark.parametrize("content", [b"", b"first", b"second"])
    def test_create_never_replaces(self, storage: Storage, content: bytes) -> None:
        """A second create fails, with equal content too, and changes nothing."""
        storage.create("file", b"first")
        with pytest.raises(TableExistsError) as raised:
            storage.create("file", content)
        assert raised.value.path == "file"
        assert storage.read("file") == b"first"

    def test_an_equal_empty_file_is_not_mine(self, storage: Storage) -> None:
        """Two writers of an empty file: the second learns that it's the second."""
        storage.create("20261121075311237.commit.requested", b"")
        with pytest.raises(TableExistsError):
            storage.create("20261121075311237.commit.requested", b"")

    def test_a_deleted_file_can_be_created_again(self, storage: Storage) -> None:
        """Deleting frees the name."""
        storage.create("d/file", b"1")
        storage.delete(["d/file"])
        storage.create("d/file", b"2")
        assert storage.read("d/file") == b"2"

    def test_put_replaces(self, storage: Storage) -> None:
        """Longer and shorter content, both whole."""
        for content in (b"one", b"a longer content", b"", b"2"):
            storage.put("a/file", content)
            assert storage.read("a/file") == content
        assert [info.path for info in storage.list()] == ["a/file"]

    def test_a_missing_file_is_not_found(self, storage: Storage) -> None:
        """Check that every way of reading reports a missing file; a folder isn't a file either."""
        storage.create("folder/file", b"1")
        for path in ("none", "folder/none", "none/none", "folder"):
            for read in (storage.read, storage.head, lambda p: storage.read_ranges(p, [(0, 1)])):
                with pytest.raises(NotFoundError) as raised:
                    read(path)
                assert raised.value.path == path
            with pytest.raises(NotFoundError):
                read_tail(storage, path, 4)
            with pytest.raises(NotFoundError):
                open_input(storage, path)

    @pytest.mark.parametrize("path", BAD_PATHS)
    def test_no_path_leaves_the_root(self, storage: Storage, path: str) -> None:
        """Every operation on the path."""
        storage.create("a/b", b"")
        for call in (
            storage.head,
            storage.read,
            storage.list_dir,
            lambda p: list(storage.list(p)),
            lambda p: storage.read_ranges(p, [(0, 1)]),
            lambda p: storage.create(p, b"x"),
            lambda p: storage.put(p, b"x"),
            lambda p: storage.delete([p]),
            lambda p: storage.create(p, b"x", durable=True),
            lambda p: open_input(storage, p),
        ):
            with pytest.raises(InvalidArgumentError):
                call(path)
        assert [info.path for info in storage.list()] == ["a/b"]

    def test_the_empty_path_is_no_file(self, storage: Storage) -> None:
        """It's the root, which can be listed only."""
        for call in (storage.head, storage.read, lambda p: storage.put(p, b"x"), lambda p: storage.delete([p])):
            with pytest.raises(InvalidArgumentError):
                call("")

    @pytest.mark.parametrize("name", NAMES)
    def test_names_are_kept_as_they_are(self, storage: Storage, name: str) -> None:
        """Check that names stay as they are, for folders and files, in every call."""
        path = f"part/{name}/{name}"
        storage.create(path, name.encode())
        storage.put(f"{path}2", b"")
        assert storage.read(path) == name.encode()
        assert storage.head(path).path == path
        assert sorted(info.path for info in storage.list()) == [path, f"{path}2"]
        assert sorted(info.path for info in storage.list(f"part/{name}")) == [path, f"{path}2"]
        assert storage.list_dir("part")[1] == [name]
        assert [info.path for info in storage.list_dir(f"part/{name}")[0]] == [path, f"{path}2"]
        storage.delete([path, f"{path}2"])
        assert list(storage.list()) == []

    def test_listing(self, storage: Storage) -> None:
        """Check that listing takes whole folder names, is empty for a missing folder, and gives sizes."""
        for path, size in {"a/x": 1, "a/b/y": 2, "a/b/c/z": 3, "ab/w": 4, "top": 5}.items():
            storage.create(path, b"-" * size)
        assert _sizes(storage.list()) == {"a/x": 1, "a/b/y": 2, "a/b/c/z": 3, "ab/w": 4, "top": 5}
        assert _sizes(storage.list("a")) == {"a/x": 1, "a/b/y": 2, "a/b/c/z": 3}
        assert _sizes(storage.list("a/b/c")) == {"a/b/c/z": 3}
        assert list(storage.list("none")) == []
        assert list(storage.list("top")) == []
        files, folders = storage.list_dir("")
        assert (_sizes(iter(files)), list(folders)) == ({"top": 5}, ["a", "ab"])
        files, folders = storage.list_dir("a")
        assert (_sizes(iter(files)), list(folders)) == ({"a/x": 1}, ["b"])
        assert storage.list_dir("none") == ([], [])
        assert [sorted(names) for names in list_names(storage, "")] == [["top"], ["a", "ab"]]
        assert [list(names) for names in list_names(storage, "a")] == [["x"], ["b"]]
        assert [list(names) for names in list_names(storage, "none")] == [[], []]

    def test_delete(self, storage: Storage) -> None:
        """Check that a delete removes only the named files, and that missing ones are no error."""
        for path in ("a/1", "a/2", "a/3"):
            storage.create(path, b"")
        storage.delete(["a/1", "none", "none/none", "a/3"])
        storage.delete(["a/1"])
        storage.delete([])
        assert [info.path for info in storage.list()] == ["a/2"]

    def test_what_is_durable_is_a_file_like_any_other(self, storage: Storage) -> None:
        """Flush files during or after the write; deleted files and folders can be flushed too."""
        storage.create("a/new/1", b"1", durable=True)
        storage.put("a/2", b"two", durable=True)
        storage.put("a/2", b"2", durable=True)
        storage.create("empty", b"", durable=True)
        with pytest.raises(TableExistsError):
            storage.create("a/2", b"3", durable=True)
        storage.create("a/later", b"4")
        storage.create("gone/5", b"5")
        delete_folder(storage, "gone")
        storage.sync(["a/later", "gone/5", "none", "a/new", "a/later"])
        storage.sync([])
        assert {info.path: storage.read(info.path) for info in storage.list()} == {
            "a/new/1": b"1", "a/2": b"2", "empty": b"", "a/later": b"4",
        }  # fmt: skip

    def test_delete_folder(self, storage: Storage) -> None:
        """Goes with all that's in it; what only begins alike stays."""
        for path in ("a/b/1", "a/b/c/2", "a/bc/3"):
            storage.create(path, b"")
        assert delete_folder(storage, "a/b") == 2
        assert delete_folder(storage, "none") == 0
        assert [info.path for info in storage.list()] == ["a/bc/3"]
        assert storage.list_dir("a")[1] == ["bc"]

    def test_ranges(self, storage: Storage) -> None:
        """Check that ranges come in the requested order, overlapping or far apart."""
        content = bytes(range(256)) * (BIG // 256)
        storage.create("file", content)
        wanted = [(5, 3), (0, 10), (BIG - 4, 4), (2, 0), (BIG // 2, 1000), (0, 10), (BIG, 0)]
        assert list(storage.read_ranges("file", wanted)) == [content[s : s + n] for s, n in wanted]
        assert list(storage.read_ranges("file", [])) == []

    @pytest.mark.parametrize("bad", [(0, 11), (10, 1), (50, 2), (9, 1 << 40)])
    def test_ranges_past_the_end(self, storage: Storage, bad: tuple[int, int]) -> None:
        """Are an error, never short, never an allocation of what was asked for."""
        storage.create("file", b"0123456789")
        for ranges in ([bad], [(0, 1), bad]):
            with pytest.raises(CorruptError) as raised:
                storage.read_ranges("file", ranges)
            assert raised.value.path == "file"
        with pytest.raises(InvalidArgumentError):
            storage.read_ranges("file", [(-1, 2)])

    def test_tail(self, storage: Storage) -> None:
        """The end of a file and its size."""
        storage.create("file", b"0123456789")
        storage.create("empty", b"")
        assert read_tail(storage, "file", 3) == (b"789", 10)
        assert read_tail(storage, "file", 99) == (b"0123456789", 10)
        assert read_tail(storage, "empty", 3) == (b"", 0)

    @pytest.mark.parametrize("known", [True, False], ids=["size known", "size not known"])
    def test_a_parquet_file_is_read_by_columns(self, storage: Storage, known: bool) -> None:
        """Arrow reads through `open_input`, all or some columns."""
        table = pa.table({f"c{n}": pa.array(range(n, n + 20_000)) for n in range(8)})
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, row_group_size=5_000, compression="none", use_dictionary=False)
        storage.create("f.parquet", sink.getvalue().to_pybytes())
        size = storage.head("f.parquet").size if known else None
        assert pq.ParquetFile(open_input(storage, "f.parquet", size), pre_buffer=True).read() == table
        file = open_input(storage, "f.parquet", size)
        prefetch(file, [(4, 1000)])
        found = pq.ParquetFile(file, pre_buffer=True).read(columns=["c1", "c6"])
        assert found == table.select(["c1", "c6"])

    def test_a_copy_sees_the_same_files(self, storage: Storage) -> None:
        """Pickling, as tasks are sent to other processes."""
        storage.create("file", b"1")
        copy = pickle.loads(pickle.dumps(storage))
        assert copy.root == storage.root
        assert copy.read("file") == b"1"
        copy.create("other", b"2")
        assert storage.read("other") == b"2"

    @pytest.mark.parametrize("same", [True, False], ids=["equal content", "own content"])
    def test_of_many_racers_one_creates(self, storage: Storage, same: bool) -> None:
        """Check that exactly one of many racers creates a file, and that its content stays."""
        keys = 40
        won = race(race_to_create, (storage, keys, same), processes=self.processes)
        assert sorted(key for each in won for key in each) == list(range(keys))
        for number, mine in enumerate(won):
            for key in mine:
                assert storage.read(f"race/{key}") == (b"" if same else f"racer {number}".encode())

    def test_replace_if_unchanged(self, storage: Storage) -> None:
        """Check that a replace succeeds only with the file's current version, where the store has it."""
        able = replacing(storage)
        if able is None:
            pytest.skip("this storage has no replace-if-unchanged")
        storage.create("file", b"1")
        content, version = able.read_version("file")
        assert content == b"1"
        newer = able.replace("file", b"2", version)
        assert able.read_version("file") == (b"2", newer)
        for stale in (version, '"never"'):
            with pytest.raises(ConflictError):
                able.replace("file", b"3", stale)
        with pytest.raises(ConflictError):
            able.replace("none", b"3", version)
        with pytest.raises(NotFoundError):
            able.read_version("none")
        assert [info.path for info in storage.list()] == ["file"]

    def test_racing_replacements_lose_nothing(self, storage: Storage) -> None:
        """A number counted up by several ends at the sum."""
        if replacing(storage) is None:
            pytest.skip("this storage has no replace-if-unchanged")
        storage.create("counter", b"0")
        race(race_to_replace, (storage, 10), processes=self.processes)
        assert storage.read("counter") == b"30"

    def test_calls_are_counted(self, storage: Storage) -> None:
        """Check that calls are counted by kind until a reset, and that a copy counts its own."""
        counting = CountingStorage(storage)
        counting.create("a", b"1")
        counting.create("b", b"1")
        counting.read("a")
        list(counting.list())
        with pytest.raises(NotFoundError):
            counting.head("none")
        assert counting.calls == {"create": 2, "read": 1, "list": 1, "head": 1}
        assert pickle.loads(pickle.dumps(counting)).calls == {}
        counting.reset()
        assert counting.calls == {}


def _sizes(infos: object) -> dict[str, int]:
    assert hasattr(infos, "__iter__")
    found: list[FileInfo] = list(infos)
    return {info.path: info.size for info in found}
