"""Files that would hang a reader, fill its memory or can't be opened: an error that names the file, and soon."""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import pudi
from pudi.format import MaxBytes
from pudi.storage import open_storage
from support.disk import base_files
from support.engines import Engine, LocalEngine
from support.pudi_table import PudiTable
from support.trips import SCHEMA, table, trip

_NOBODY = 65534
_WITH_METADATA = pytest.mark.parametrize("metadata", ["true", "false"], ids=["listed", "folders"])


def _made(folder: Path, *, mor: bool = False, metadata: str = "true") -> Path:
    """Six trips, on merge-on-read with log files; cities are partitions."""
    options = {"hoodie.metadata.enable": metadata}
    kind = "mor" if mor else "cow"
    made = pudi.create(
        folder / "trips",
        SCHEMA,
        record_key="uuid",
        partition_by="city",
        ordering="ts",
        table_type=kind,
        options=options,
    )
    made.bulk_insert(table([trip(number, 10) for number in range(6)]))
    if mor:
        made.upsert(table([trip(number, 20) for number in range(6)]))
    return Path(made.path)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    try:
        os.mknod(path, 0o020666, os.makedev(1, 5))  # /dev/zero, which never ends
    except PermissionError:
        pytest.skip("making a device needs rights")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound, tempfile.TemporaryDirectory() as short:
        bound.bind(f"{short}/s")  # names of sockets are short
        Path(short, "s").rename(path)


def _replace(path: Path, by: Callable[[Path], None]) -> None:
    path.unlink()
    by(path)


@_WITH_METADATA
@pytest.mark.parametrize("by", [_fifo, _device, _socket], ids=["fifo", "device", "socket"])
def test_what_is_no_regular_file_is_an_error_in_place_of_data(
    tmp_path: Path, metadata: str, by: Callable[[Path], None]
) -> None:
    path = _made(tmp_path, metadata=metadata)
    victim = base_files(path)[0]
    _replace(victim, by)
    made = pudi.Table(path)
    for read in (lambda: made.scan().to_arrow(), lambda: made.upsert(table([trip(n, 30) for n in range(6)]))):
        with pytest.raises(pudi.CorruptError, match="where a file of the table must be") as caught:
            read()
        assert caught.value.path == str(victim.relative_to(path))


@_WITH_METADATA
def test_a_fifo_in_place_of_a_log_file(tmp_path: Path, metadata: str) -> None:
    path = _made(tmp_path, mor=True, metadata=metadata)
    victim = next(path.glob("*/.*.log.*"))
    _replace(victim, _fifo)
    with pytest.raises(pudi.CorruptError, match="FIFO"):
        pudi.Table(path).scan().to_arrow()


@pytest.mark.parametrize("name", ["hoodie.properties", "timeline/*.commit", "timeline/*.requested"])
def test_a_fifo_in_place_of_a_file_of_hudi(tmp_path: Path, name: str) -> None:
    """A commit whose file were passed over would be a table without its rows."""
    path = _made(tmp_path)
    victim = next((path / ".hoodie").glob(name))
    _replace(victim, _fifo)
    if name.endswith("requested"):
        assert pudi.Table(path).scan().to_arrow().num_rows == 6
        return
    with pytest.raises(pudi.CorruptError, match="FIFO") as caught:
        pudi.Table(path).scan().to_arrow()
    assert caught.value.path == str(victim.relative_to(path))


def test_what_no_file_of_the_table_is_called_doesnt_matter(tmp_path: Path) -> None:
    path = _made(tmp_path, metadata="false")
    _fifo(path / "nyc" / "pipe")
    assert pudi.Table(path).scan().to_arrow().num_rows == 6


@pytest.mark.spark
@pytest.mark.parametrize("engine", ["spark"], indirect=True)
@pytest.mark.parametrize("by", [_fifo, Path.touch], ids=["fifo", "empty"])
def test_spark_reads_no_fifo_and_no_empty_file(tmp_path: Path, engine: Engine, by: Callable[[Path], None]) -> None:
    """Spark's own listing passes over them: the table would silently have fewer rows."""
    path = _made(tmp_path)
    _replace(base_files(path)[0], by)
    with pytest.raises(pudi.CorruptError, match=r"FIFO|empty"):
        PudiTable(engine, path).snapshot()


@pytest.mark.parametrize("name", ["hoodie.properties", "timeline/*.commit", "metadata/.hoodie/hoodie.properties"])
def test_a_huge_file_is_refused_by_its_size(tmp_path: Path, name: str) -> None:
    path = _made(tmp_path)
    victim = next((path / ".hoodie").glob(name))
    os.truncate(victim, 20 << 30)  # nothing of it is on the disk
    made = PudiTable(LocalEngine(), path)
    with pytest.raises(pudi.CorruptError, match="has 21474836480 bytes, and files of its kind have at most") as caught:
        made.write("upsert", table([trip(1, 30)]))
    assert (caught.value.path or "").endswith(victim.name)


def test_a_huge_lock_file_and_huge_index_definitions(tmp_path: Path) -> None:
    path = _made(tmp_path)
    made = pudi.Table(path, options={"hoodie.write.lock.provider": "FileSystemBasedLockProvider"})
    lock = path / ".hoodie" / "lock"
    lock.touch()
    os.truncate(lock, MaxBytes.NOTE + 1)
    with pytest.raises(pudi.CorruptError, match="bytes") as caught:
        made.upsert(table([trip(1, 30)]))
    assert caught.value.path == ".hoodie/lock"
    lock.unlink()
    made.create_index("record_index")
    made.create_index("secondary_index", ["rider"])
    definitions = path / ".hoodie" / ".index_defs" / "index.json"
    os.truncate(definitions, MaxBytes.DEFINITIONS + 1)
    with pytest.raises(pudi.CorruptError, match="bytes"):
        made.upsert(table([trip(1, 30)]))


@pytest.mark.parametrize("most", [3, 4])
def test_memory_holds_to_the_bound_too(most: int) -> None:
    storage = open_storage(f"memory://bounded-{most}")
    storage.put("file", b"1234")
    if most == 4:
        assert storage.read("file", most) == b"1234"
        return
    with pytest.raises(pudi.CorruptError, match="has 4 bytes") as caught:
        storage.read("file", most)
    assert caught.value.path == "file"


def test_a_damaged_instant_is_told_in_few_words(tmp_path: Path) -> None:
    path = _made(tmp_path)
    commit = next((path / ".hoodie" / "timeline").glob("*.commit"))
    content = commit.read_bytes()
    at = content.rindex(b"nyc/")  # a path among the statistics
    commit.write_bytes(content[:at] + b"\xff" + content[at + 1 :])
    with pytest.raises(pudi.CorruptError) as caught:
        pudi.Table(path).scan().to_arrow()
    assert len(str(caught.value)) < 1000
    assert "\\x" not in str(caught.value)


def test_no_message_is_longer_than_a_screen_or_two() -> None:
    error = pudi.CorruptError("begin " + "x" * 100_000 + " end")
    assert len(str(error)) < 5000
    assert str(error).startswith("begin ")
    assert str(error).endswith(" end")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user of this machine can enter."""
    made = Path(tempfile.mkdtemp())
    made.chmod(0o777)
    yield made
    shutil.rmtree(made)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
@_WITH_METADATA
@pytest.mark.parametrize("mode", [0o000, 0o444], ids=["closed", "listed"])
def test_a_folder_that_may_not_be_read(open_folder: Path, metadata: str, mode: int) -> None:
    path = _made(open_folder, metadata=metadata)
    (path / "nyc").chmod(mode)
    os.seteuid(_NOBODY)
    try:
        with pytest.raises(pudi.PudiError) as caught:
            pudi.Table(path).scan().to_arrow()
    finally:
        os.seteuid(0)
    assert "Permission denied" in str(caught.value)
    assert (caught.value.path or "").startswith("nyc")
