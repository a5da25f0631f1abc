"""Which lock a table is locked with: a provider's name and a storage go in, a `Lock` comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pudi.concurrency.file_locks import FileSystemLock, LocalFileLock
from pudi.concurrency.lock_settings import LockSettings
from pudi.concurrency.storage_lock import StorageBasedLock
from pudi.concurrency.table_lock import InProcessLock, TableLock
from pudi.context import Context, Storage
from pudi.errors import NotSupportedError
from pudi.storage import StorageKind, canonical_root, storage_kind

Maker = Callable[[Storage, LockSettings, Context], TableLock]

HUDI_PACKAGE = "org.apache.hudi.client.transaction.lock."


def _in_process(storage: Storage, settings: LockSettings, context: Context) -> TableLock:
    return InProcessLock(canonical_root(storage.root), settings, context)


_MAKERS: dict[str, Maker] = {
    "InProcessLockProvider": _in_process,
    "FileSystemBasedLockProvider": FileSystemLock,
    "StorageBasedLockProvider": StorageBasedLock,
    "LocalFileLock": LocalFileLock,
}
"""By Hudi's class names, which stand for known behaviour and never load a class; the last is pudi's own."""

_DEFAULTS: dict[StorageKind, Maker] = {
    StorageKind.LOCAL: LocalFileLock,
    StorageKind.MEMORY: _in_process,
    StorageKind.OBJECTS: StorageBasedLock,
}


def open_lock(storage: Storage, provider: str | None, options: Mapping[str, str], context: Context) -> TableLock:
    """The lock of a table.

    Args:
        storage: the table's files.
        provider: value of `hoodie.write.lock.provider`: one of Hudi's class names, with or without its package, or
            `LocalFileLock`; None chooses by where the table is: the operating system's file lock on local disks,
            threads only in memory, Hudi's storage-based lock in object stores.
        options: the job's options, for `hoodie.write.lock.*`.
        context: clock and ids.

    Raises:
        NotSupportedError: the provider is unknown (ZooKeeper, Hive, DynamoDB), or can't work on this storage.
        InvalidArgumentError: an option's value is wrong.
    """
    settings = LockSettings.from_options(options)
    if provider is None or not provider.strip():
        return _DEFAULTS[storage_kind(storage.root)](storage, settings, context)
    maker = _MAKERS.get(provider.strip().removeprefix(HUDI_PACKAGE))
    if maker is None:
        raise NotSupportedError(
            f"hoodie.write.lock.provider={provider} is not supported; known are {', '.join(_MAKERS)}",
            table=storage.root,
        )
    return maker(storage, settings, context)
