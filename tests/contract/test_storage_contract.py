"""Every storage keeps the contract."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from pudi.context import Storage
from pudi.storage import CountingStorage, open_storage
from pudi.testing import FaultStorage, StorageTests

_numbers = itertools.count()


class TestLocal(StorageTests):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return open_storage(tmp_path / "table")


class TestLocalWithHiddenStaging(StorageTests):
    """File systems without nameless files (NFS, macOS)."""

    @pytest.fixture
    def storage(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Storage:
        monkeypatch.setattr("pudi.storage.staging._NAMELESS", 0)
        return open_storage(tmp_path / "table")


class TestMemory(StorageTests):
    processes = False

    @pytest.fixture
    def storage(self) -> Storage:
        return open_storage(f"memory://contract-{next(_numbers)}/table")


class TestS3(StorageTests):
    @pytest.fixture
    def storage(self, s3: Any) -> Storage:
        return open_storage(s3.new_root(), s3.options())


class TestAzure(StorageTests):
    """Azurite, where npm has installed it."""

    @pytest.fixture
    def storage(self, azure: Any) -> Storage:
        return open_storage(azure.new_root(), azure.options())


class TestGoogle(StorageTests):
    @pytest.fixture
    def storage(self, gcs: Any) -> Storage:
        return open_storage(gcs.new_root(), gcs.options())


class TestCounting(StorageTests):
    processes = False

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return CountingStorage(open_storage(tmp_path / "table"))


class TestFaultsThatNeverCome(StorageTests):
    processes = False

    @pytest.fixture
    def storage(self) -> Storage:
        return FaultStorage(open_storage(f"memory://contract-{next(_numbers)}/table"))

    def test_a_copy_sees_the_same_files(self, storage: Storage) -> None:
        """A storage that counts down to a fault is one object."""

    def test_calls_are_counted(self, storage: Storage) -> None:
        assert isinstance(storage, FaultStorage)
        storage.create("a", b"")
        storage.read("a")
        assert (storage.calls, storage.log) == (2, (("create", "a"), ("read", "a")))
