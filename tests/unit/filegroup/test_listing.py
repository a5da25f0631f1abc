"""Listing of many folders, whether the storage answers at once or after a while."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pudi.context import FileInfo, Storage
from pudi.filegroup import StorageListing
from pudi.storage import StorageWrapper, open_storage

FOLDERS = [f"p{number:03}" for number in range(100)]


class Distant(StorageWrapper):
    """A storage whose folders take a moment, from the third on."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.listed: list[str] = []

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        self.listed.append(prefix)
        if len(self.listed) > 2:
            time.sleep(0.005)
        return self.inner.list(prefix)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in FOLDERS:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / ".hoodie_partition_metadata").touch()
        (tmp_path / folder / "file").write_text(folder)
    return tmp_path


@pytest.mark.parametrize("waits", [False, True])
def test_every_folder_is_listed_once(root: Path, waits: bool) -> None:
    storage = Distant(open_storage(str(root)))
    listing = StorageListing(storage if waits else storage.inner)
    found = listing.all_files()
    assert list(found) == FOLDERS
    assert {name: [info.path for info in files if info.path.endswith("file")] for name, files in found.items()} == {
        name: [f"{name}/file"] for name in FOLDERS
    }
    if waits:
        assert sorted(storage.listed) == FOLDERS


def test_an_error_in_one_folder_is_raised(root: Path) -> None:
    (root / "p099" / "loop").symlink_to("/etc/passwd")
    with pytest.raises(Exception, match="symlink leads out of the table"):
        StorageListing(open_storage(str(root))).all_files()
