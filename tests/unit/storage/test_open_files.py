"""Files that stay open for one write: they are opened once, and let go with their storage."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest

from pudi.errors import UnavailableError
from pudi.storage import CountingStorage, OpenFiles, open_input, open_storage


def kept(path: Path) -> OpenFiles:
    (path / "file").write_bytes(b"content")
    return OpenFiles(CountingStorage(open_storage(str(path))))


def descriptors() -> int:
    return sum(1 for _ in Path("/dev/fd").iterdir())


def test_a_file_is_opened_once_and_closed_with_its_storage(tmp_path: Path) -> None:
    storage, before = kept(tmp_path), descriptors()
    for _ in range(3):
        with open_input(storage, "file") as file:
            assert file.read() == b"content"
    assert isinstance(storage.inner, CountingStorage)
    assert storage.inner.calls == {"open_local": 1}
    assert descriptors() == before + 1
    del storage
    assert descriptors() == before


def test_readers_of_one_file_have_places_of_their_own(tmp_path: Path) -> None:
    storage = kept(tmp_path)
    with open_input(storage, "file") as one, open_input(storage, "file") as other:
        assert isinstance(one, pa.NativeFile)
        assert isinstance(other, pa.NativeFile)
        assert (one.read_at(4, 3), other.read_at(3, 0), one.read_at(3, 0)) == (b"tent", b"con", b"con")


def test_without_a_spare_descriptor_a_file_is_read_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int) -> int:
        raise OSError(errno.EMFILE, f"no copy of {descriptor}")

    storage, known = kept(tmp_path), kept(tmp_path)
    open_input(known, "file").close()
    monkeypatch.setattr(os, "dup", refuse)
    for each in (storage, storage, known):
        with open_input(each, "file") as file:
            assert file.read() == b"content"


def test_without_any_descriptor_the_error_names_table_and_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise OSError(errno.EMFILE, "too many open files")

    storage = kept(tmp_path)
    open_input(storage, "file").close()
    monkeypatch.setattr(os, "dup", refuse)
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UnavailableError) as caught:
        open_input(storage, "file")
    assert (caught.value.table, caught.value.path) == (str(tmp_path), "file")


def test_readers_have_places_of_their_own_where_descriptors_share_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS, and wherever a file is read through Python: what one reads must not move the other."""
    monkeypatch.setattr("pudi.storage.input._OPENS_ANEW", False)
    monkeypatch.setattr("pudi.storage.input._as_arrow_file", lambda descriptor: os.fdopen(os.dup(descriptor), "rb", 0))
    storage = kept(tmp_path)
    with open_input(storage, "file") as one, open_input(storage, "file") as other:
        assert one.read(3) == b"con"
        assert other.read(3) == b"con"
        assert one.read() == b"tent"
