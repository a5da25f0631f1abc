"""Local disks: what stands there, byte for byte, and what a killed writer leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from pudi.errors import CorruptError, InvalidArgumentError, RefusedError
from pudi.storage import CountingStorage, delete_folder, local_path, open_input, open_storage, replacing
from pudi.testing.storages import NAMES


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "table"


def _names(folder: Path) -> list[str]:
    return sorted(found.name for found in folder.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_names_on_disk_are_the_names_given(table: Path, name: str) -> None:
    open_storage(table).create(f"{name}/{name}", b"1")
    assert [os.fsencode(found) for found in _names(table)] == [name.encode()]
    assert [os.fsencode(found) for found in _names(table / name)] == [name.encode()]


def test_nothing_else_is_left_on_disk(table: Path) -> None:
    storage = open_storage(table)
    storage.create("p/a", b"1")
    storage.put("p/a", b"2")
    storage.put("p/b", b"3")
    assert _names(table / "p") == ["a", "b"]


def test_files_get_the_usual_permissions(table: Path) -> None:
    storage = open_storage(table)
    storage.create("created", b"")
    storage.put("put", b"")
    (table / "plain").write_bytes(b"")
    usual = (table / "plain").stat().st_mode
    assert [(table / name).stat().st_mode for name in ("created", "put")] == [usual, usual]


def test_relative_roots_and_trailing_slashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    storage = open_storage("trips/")
    monkeypatch.chdir("/")
    storage.create("a", b"1")
    assert (tmp_path / "trips" / "a").read_bytes() == b"1"
    assert storage.root == str(tmp_path / "trips")
    assert open_storage(f"file://{tmp_path}/trips/").root == f"file://{tmp_path}/trips"
    assert open_storage(f"file://{tmp_path}/trips").read("a") == b"1"
    assert open_storage(f"file:{tmp_path}/trips").read("a") == b"1"


def test_a_symlink_out_of_the_root_is_refused(table: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    table.mkdir()
    (table / "folder").symlink_to(outside)
    (table / "sub").mkdir()
    (table / "sub" / "file").symlink_to(outside / "secret")
    storage = open_storage(table)
    for path in ("folder/secret", "sub/file"):
        for call in (storage.read, storage.head, lambda p: open_input(storage, p), lambda p: local_path(storage, p)):
            with pytest.raises(InvalidArgumentError, match="symlink"):
                call(path)
    for write in (storage.create, storage.put):
        with pytest.raises(InvalidArgumentError, match="symlink"):
            write("folder/new", b"")
    with pytest.raises(InvalidArgumentError, match="symlink"):
        storage.delete(["folder/secret"])
    assert [info.path for info in storage.list_dir()[0]] == ["folder"]
    assert list(storage.list_dir()[1]) == ["sub"]
    for prefix in ("folder", "sub"):
        with pytest.raises(InvalidArgumentError, match="symlink"):
            storage.list_dir(prefix)
        with pytest.raises(InvalidArgumentError, match="symlink"):
            list(storage.list(prefix))
    storage.delete(["folder"])
    assert _names(outside) == ["secret"]


def test_a_symlink_inside_the_root_is_followed(table: Path) -> None:
    storage = open_storage(table)
    storage.create("real/file", b"1")
    (table / "link").symlink_to("real")
    (table / "real" / "same").symlink_to("file")
    assert storage.read("link/file") == storage.read("real/same") == b"1"
    assert storage.head("real/same").size == 1
    assert {info.path for info in storage.list()} == {"real/file", "real/same", "link"}


def test_listings_enter_no_folder_by_a_symlink(table: Path) -> None:
    storage = open_storage(table)
    storage.create("a/file", b"1")
    (table / "a" / "again").symlink_to(table / "a")
    assert {info.path for info in storage.list()} == {"a/file", "a/again"}
    assert list(storage.list("a/again")) == []
    assert storage.list_dir("a/again") == ([], [])
    assert delete_folder(storage, "") == 2


def test_the_root_may_be_a_symlink(table: Path, tmp_path: Path) -> None:
    open_storage(table).create("a/b", b"1")
    (tmp_path / "alias").symlink_to(table)
    storage = open_storage(tmp_path / "alias")
    assert storage.read("a/b") == b"1"
    assert [info.path for info in storage.list()] == ["a/b"]


def test_a_fifo_is_listed_and_no_trap(table: Path) -> None:
    table.mkdir()
    os.mkfifo(table / "pipe")
    storage = open_storage(table)
    for call in (storage.read, storage.head, lambda p: open_input(storage, p)):
        with pytest.raises(CorruptError, match="FIFO"):
            call("pipe")
    assert [info.path for info in storage.list()] == ["pipe"]
    assert delete_folder(storage, "") == 1


def test_an_opened_file_stays_what_it_was(table: Path) -> None:
    """A name that comes to mean something else between the check and the reading."""
    storage = open_storage(table)
    storage.create("file", b"content")
    file = open_input(storage, "file")
    (table / "file").unlink()
    os.mkfifo(table / "file")
    assert file.read() == b"content"


def test_hadoops_checksums_go_with_the_bytes_they_are_of(table: Path) -> None:
    """Hadoop's local file system checks a file against `.name.crc` beside it, if there is one, and lists none."""
    storage = open_storage(table)
    names = ("replaced", "deleted", "created")
    for name in names[:2]:
        storage.create(f"p/{name}", b"old")
    for name in names:
        (table / "p" / f".{name}.crc").write_bytes(b"crc of old bytes")
    (table / "p" / "kept").write_bytes(b"")
    (table / "p" / ".kept.crc").write_bytes(b"crc")
    assert {info.path for info in storage.list()} == {"p/replaced", "p/deleted", "p/kept"}
    storage.put("p/replaced", b"new")
    storage.delete(["p/deleted"])
    storage.create("p/created", b"new")
    assert _names(table / "p") == [".kept.crc", "created", "kept", "replaced"]


def test_folders_named_like_checksums_are_folders(table: Path) -> None:
    storage = open_storage(table)
    hidden = [".x.crc", ".0b1f3f0e-0d3c-4f0a-9d4e-4be2f1b1f000.pudi-staged"]
    for folder in hidden:
        storage.create(f"{folder}/file", b"1")
        storage.create(f"p/{folder}/file", b"1")
    assert storage.list_dir("")[1] == sorted([*hidden, "p"])
    assert storage.list_dir("p") == ([], sorted(hidden))
    assert {info.path for info in storage.list()} == {
        f"{parent}{name}/file" for name in hidden for parent in ("", "p/")
    }
    storage.create("x", b"1")  # `.x.crc` would be its checksum
    assert delete_folder(storage, "p") == 2
    assert delete_folder(storage, "") == 3
    assert _names(table) == []


def test_a_file_where_a_folder_is_needed(table: Path) -> None:
    storage = open_storage(table)
    storage.create("a", b"")
    for write in (storage.create, storage.put):
        with pytest.raises(InvalidArgumentError) as raised:
            write("a/b", b"")
        assert raised.value.path == "a/b"


def test_a_name_too_long_is_the_callers_fault(table: Path) -> None:
    with pytest.raises(InvalidArgumentError):
        open_storage(table).create("x" * 300, b"")


@pytest.mark.parametrize("length", [250, 251, 255])
def test_the_longest_names_that_the_system_takes(table: Path, length: int) -> None:
    """Hadoop's checksum file of such a name, which is five characters longer, can't be there."""
    storage = open_storage(table)
    storage.create("x" * length, b"1")
    storage.put("x" * length, b"2", durable=True)
    assert storage.read("x" * length) == b"2"
    storage.delete(["x" * length])
    assert _names(table) == []


def test_the_root_of_the_disk_is_flushed_too(tmp_path: Path) -> None:
    name = f"{tmp_path}/file".lstrip("/")
    open_storage("/").put(name, b"1", durable=True)
    open_storage("/").sync([name])
    assert (tmp_path / "file").read_bytes() == b"1"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(table: Path) -> None:
    table.mkdir(mode=0o500)
    with pytest.raises(RefusedError, match=r"Permission.*no rights"):
        open_storage(table).create("a", b"")


def test_delete_folder_removes_empty_folders_and_staged_leftovers(table: Path) -> None:
    storage = open_storage(table)
    storage.create("t/1/a/marker", b"")
    storage.create("t/2/marker", b"")
    (table / "t/1/b/c").mkdir(parents=True)
    (table / "t/1/.0b1f3f0e-0d3c-4f0a-9d4e-4be2f1b1f000.pudi-staged").write_bytes(b"left by a dead writer")
    assert delete_folder(storage, "t/1") == 1
    assert _names(table / "t") == ["2"]
    delete_folder(storage, "")
    assert _names(table) == []


def test_local_files_are_opened_by_name(table: Path) -> None:
    storage = CountingStorage(open_storage(table))
    storage.create("p/file", b"content")
    assert local_path(storage, "p/file") == str(table / "p" / "file")
    storage.reset()
    assert open_input(storage, "p/file").read() == b"content"
    assert storage.calls == {"open_local": 1}
    assert replacing(storage) is None


def test_readers_see_old_or_new_whole(table: Path) -> None:
    storage = open_storage(table)
    contents = [bytes([n]) * (200_000 + n) for n in range(2)]
    storage.put("file", contents[0])

    def replace() -> None:
        for n in range(60):
            storage.put("file", contents[n % 2])

    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(replace)
        while not writing.done():
            assert storage.read("file") in contents
        writing.result()


WRITER = """
import itertools, sys
from pudi.storage import open_storage
storage = open_storage(sys.argv[1])
for n in itertools.count():
    getattr(storage, sys.argv[2])(f"p/{n if sys.argv[2] == 'create' else 0}", bytes([n % 251]) * 4_000_000)
    print(n, flush=True)
"""


@pytest.mark.parametrize("nameless", [True, False], ids=["nameless", "hidden name"])
@pytest.mark.parametrize("method", ["create", "put"])
def test_a_killed_writer_leaves_no_half_file(table: Path, method: str, nameless: bool) -> None:
    setup = "" if nameless else "import pudi.storage.staging as s; s._NAMELESS = 0\n"
    command = [sys.executable, "-c", setup + WRITER, str(table), method]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        for _ in range(5):
            assert writer.stdout.readline()
        writer.kill()
    storage = open_storage(table)
    files = list(storage.list())
    assert len(files) >= (5 if method == "create" else 1)
    for info in files:
        content = storage.read(info.path)
        assert len(content) == 4_000_000
        assert len(set(content)) == 1
    if nameless and method == "create":
        assert {f"p/{name}" for name in _names(table / "p")} == {info.path for info in files}
