"""Every lock keeps the contract."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import pudi
from pudi.context import Storage
from pudi.locks.storage_lock import STORAGE_LOCK
from pudi.storage import open_storage
from pudi.testing import LockTests

_numbers = itertools.count()


class Bound(LockTests):
    __test__ = False


class OneFile(pudi.LockProvider):
    """A user's lock: a file beside the table, which holds the id of its holder."""

    def __init__(self, table: str, options: Mapping[str, str]) -> None:
        super().__init__(table, options)
        self._file = Path(f"{table}.{options.get('hoodie.write.lock.own.suffix', 'lock')}")
        self._id = str(uuid.uuid4())

    def try_lock(self, seconds: float) -> bool:
        try:
            with self._file.open("x") as file:
                file.write(self._id)
        except FileExistsError:
            return False
        return True

    def unlock(self) -> None:
        if self.holds():
            self._file.unlink()

    def holds(self) -> bool:
        try:
            return self._file.read_text() == self._id
        except FileNotFoundError:
            return False


class TestOneOfTheUsers(Bound):
    __test__ = True
    name = "one-file"
    provider = OneFile

    @pytest.fixture
    def steal(self, tmp_path: Path) -> Callable[[], None]:
        return lambda: (tmp_path / "table.lock").write_text("another's") and None


class TestLocalDefault(Bound):
    __test__ = True


class TestFileSystem(Bound):
    __test__ = True
    name = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"

    @pytest.fixture
    def steal(self, storage: Storage) -> Callable[[], None]:
        return partial(storage.put, ".hoodie/lock", b"another's")


class TestInProcess(Bound):
    """On a local disk it's the file lock, among all processes of the machine."""

    __test__ = True
    name = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"


class TestMemoryDefault(Bound):
    __test__ = True
    processes = False

    @pytest.fixture
    def storage(self) -> Storage:
        return open_storage(f"memory://locks-{next(_numbers)}")


class TestStorageBasedInMemory(TestMemoryDefault):
    name = "StorageBasedLockProvider"


class StealsStorageLock(Bound):
    __test__ = False

    @pytest.fixture
    def steal(self, storage: Storage) -> Callable[[], None]:
        return partial(storage.put, STORAGE_LOCK, b'{"expired":false,"validUntil":9999999999999,"owner":"another"}')


class TestS3Default(StealsStorageLock):
    """Hudi's storage-based lock."""

    __test__ = True

    @pytest.fixture
    def storage(self, s3: Any) -> Storage:
        return open_storage(s3.new_root(), s3.options())


class TestFileSystemOnS3(TestS3Default):
    name = "FileSystemBasedLockProvider"

    @pytest.fixture
    def steal(self, storage: Storage) -> Callable[[], None]:
        return partial(storage.put, ".hoodie/lock", b"another's")


class TestStorageBasedOnAzure(StealsStorageLock):
    """The default in an object store."""

    __test__ = True

    @pytest.fixture
    def storage(self, azure: Any) -> Storage:
        return open_storage(azure.new_root(), azure.options())


class TestStorageBasedOnGoogle(StealsStorageLock):
    """The default in an object store."""

    __test__ = True

    @pytest.fixture
    def storage(self, gcs: Any) -> Storage:
        return open_storage(gcs.new_root(), gcs.options())
