"""Every lock keeps the contract."""

from __future__ import annotations

import itertools
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pudi.concurrency.locks import open_lock
from pudi.context import Context, Lock, Storage
from pudi.storage import open_storage
from pudi.testing import LockTests
from pudi.testing.locks import Opener

_numbers = itertools.count()
PATIENT = {"hoodie.write.lock.wait_time_ms": "60000", "hoodie.write.lock.wait_time_ms_between_retry": "10"}
IMPATIENT = {**PATIENT, "hoodie.write.lock.wait_time_ms": "60"}


def open_one(storage: Storage, provider: str | None, options: dict[str, str]) -> Lock:
    return open_lock(storage, provider, options, Context())


class Bound(LockTests):
    __test__ = False
    provider: str | None = None

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return open_storage(tmp_path / "table")

    @pytest.fixture
    def opener(self, storage: Storage) -> Opener:
        return partial(open_one, storage, self.provider, PATIENT)

    @pytest.fixture
    def impatient(self, storage: Storage) -> Opener:
        return partial(open_one, storage, self.provider, IMPATIENT)


class TestLocalDefault(Bound):
    __test__ = True


class TestFileSystem(Bound):
    __test__ = True
    provider = "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider"


class TestInProcess(Bound):
    """On a local disk it's the file lock, among all processes of the machine."""

    __test__ = True
    provider = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"


class TestMemoryDefault(Bound):
    __test__ = True
    processes = False

    @pytest.fixture
    def storage(self) -> Storage:
        return open_storage(f"memory://locks-{next(_numbers)}")


class TestStorageBasedInMemory(TestMemoryDefault):
    provider = "StorageBasedLockProvider"


class TestS3Default(Bound):
    """Hudi's storage-based lock."""

    __test__ = True

    @pytest.fixture
    def storage(self, s3: Any) -> Storage:
        return open_storage(s3.new_root(), s3.options())


class TestFileSystemOnS3(TestS3Default):
    provider = "FileSystemBasedLockProvider"


class TestStorageBasedOnAzure(Bound):
    """The default in an object store."""

    __test__ = True

    @pytest.fixture
    def storage(self, azure: Any) -> Storage:
        return open_storage(azure.new_root(), azure.options())


class TestStorageBasedOnGoogle(Bound):
    """The default in an object store."""

    __test__ = True

    @pytest.fixture
    def storage(self, gcs: Any) -> Storage:
        return open_storage(gcs.new_root(), gcs.options())
