"""What is brought to the disk, and in which order: contents before names, files before folders, up to the root."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pudi.errors import UnavailableError
from pudi.storage import LocalStorage, StorageBelow, UnsyncedStorage, delete_for_good, open_storage, synced


class Log:
    """Notes what is flushed: folders by path, files by content, and whether a file had its name by then."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def __call__(self, descriptor: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}")
        if path.is_dir():
            self.seen.append(str(path.readlink()))
        else:
            self.seen.append((path.read_bytes(), os.fstat(descriptor).st_nlink > 0))

    def taken(self) -> list[object]:
        seen, self.seen = self.seen, []
        return seen


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "table"


@pytest.fixture
def storage(root: Path, log: Log) -> LocalStorage:
    root.mkdir()
    made = LocalStorage(str(root), flush=log)
    made.create("first", b"", durable=True)
    above = [str(parent) for parent in root.parents if parent.stat().st_dev == root.stat().st_dev]
    assert log.taken() == [str(root), *above]
    return made


def test_content_comes_before_the_name_and_the_name_before_the_answer(
    root: Path, storage: LocalStorage, log: Log
) -> None:
    storage.create("a/b/file", b"new", durable=True)
    assert log.taken()[0] == (b"new", False)
    storage.put("a/b/file", b"newer", durable=True)
    assert log.taken() == [(b"newer", True), str(root / "a" / "b")]  # by its hidden name
    storage.create("a/b/empty", b"", durable=True)
    assert log.taken() == [str(root / "a" / "b")]


def test_folders_are_safe_up_to_the_root_once(root: Path, storage: LocalStorage, log: Log) -> None:
    storage.create("a/b/file", b"1", durable=True)
    assert set(log.taken()[1:]) == {str(root / "a" / "b"), str(root / "a"), str(root)}
    storage.create("a/b/other", b"2")
    storage.sync(["a/b/other"])
    assert set(log.taken()) == {(b"2", True), str(root / "a" / "b")}
    shutil.rmtree(root / "a")
    storage.create("a/b/again", b"3")
    storage.sync(["a/b/again"])
    assert set(log.taken()) == {(b"3", True), str(root / "a" / "b"), str(root / "a"), str(root)}


def test_one_pass_over_many(root: Path, storage: LocalStorage, log: Log) -> None:
    for n in range(40):
        storage.create(f"p{n % 2}/{n}", str(n).encode())
    assert log.taken() == []
    storage.sync([f"p{n % 2}/{n}" for n in range(40)])
    seen = log.taken()
    folders = {str(root), str(root / "p0"), str(root / "p1")}
    assert set(seen) == folders | {(str(n).encode(), True) for n in range(40)}
    assert len(seen) == 43


def test_what_is_gone_and_what_is_a_folder(root: Path, storage: LocalStorage, log: Log) -> None:
    storage.create("p/1", b"1")
    storage.create("p/q/2", b"2")
    storage.sync(["p"])
    assert set(log.taken()) == {(b"1", True), str(root / "p"), str(root)}
    delete_for_good(storage, ["p/1", "none/none/3"])
    assert set(log.taken()) == {str(root / "p"), str(root)}
    delete_for_good(storage, [])
    assert log.taken() == []


def test_below_a_folder_names_are_safe_up_to_the_root_of_all(root: Path, storage: LocalStorage, log: Log) -> None:
    below = StorageBelow(storage, "m")
    below.create("p/1", b"1")
    below.sync(["p/1"])
    assert set(log.taken()) == {(b"1", True), str(root / "m" / "p"), str(root / "m"), str(root)}


def test_switched_off(storage: LocalStorage, log: Log) -> None:
    off = synced(synced(storage, False), False)
    assert isinstance(off, UnsyncedStorage)
    assert off.inner is storage
    off.create("a/1", b"1", durable=True)
    off.put("a/1", b"2", durable=True)
    off.sync(["a/1"])
    assert log.taken() == []
    assert off.read("a/1") == b"2"
    assert synced(off, True) is storage
    assert synced(storage, True) is storage


def failing(code: int, *, folders: bool) -> Callable[[int], None]:
    def flush(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").is_dir() is folders:
            raise OSError(code, os.strerror(code))

    return flush


def test_a_disk_that_fails_is_an_error(tmp_path: Path) -> None:
    for folders in (False, True):
        storage = LocalStorage(str(tmp_path), flush=failing(errno.EIO, folders=folders))
        storage.create("file", b"1")
        with pytest.raises(UnavailableError, match="loss of power") as raised:
            storage.sync(["file"])
        assert raised.value.path == "file"
        storage.delete(["file"])
    with pytest.raises(UnavailableError):  # its name was there before the folder could be flushed
        storage.create("named", b"1", durable=True)
    with pytest.raises(UnavailableError):
        LocalStorage(str(tmp_path), flush=failing(errno.EIO, folders=False)).create("unnamed", b"1", durable=True)
    assert sorted(info.path for info in open_storage(tmp_path).list()) == ["named"]


def test_a_file_system_that_cannot_flush_folders(tmp_path: Path) -> None:
    storage = LocalStorage(str(tmp_path), flush=failing(errno.EINVAL, folders=True))
    storage.create("a/file", b"1", durable=True)
    storage.sync(["a/file", "a"])
    assert storage.read("a/file") == b"1"
