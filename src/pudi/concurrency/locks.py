"""Which lock a table is locked with: a provider's name and a storage go in, a `Lock` comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pudi.concurrency.file_locks import FileSystemLock, LocalFileLock
from pudi.concurrency.storage_lock import StorageBasedLock
from pudi.concurrency.table_lock import InProcessLock, SingleWriterLock, TableLock
from pudi.config import LockSettings, WriteOptions, resolve_only
from pudi.context import Context, Storage
from pudi.errors import NotSupportedError
from pudi.storage import StorageKind, canonical_root, storage_kind

Maker = Callable[[Storage, LockSettings, Context], TableLock]

HUDI_PACKAGE = "org.apache.hudi.client.transaction.lock."


IN_PROCESS = "InProcessLockProvider"
SINGLE_WRITER = "SINGLE_WRITER"
"""The concurrency mode of a table that one process alone writes. It's Hudi's default: its absence says nothing."""


def _in_process(storage: Storage, settings: LockSettings, context: Context) -> TableLock:
    return InProcessLock(canonical_root(storage.root), settings, context)


_MAKERS: dict[str, Maker] = {
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

    On a local disk all pudi writers exclude each other, whatever the provider: each takes the file lock there, alone or
    before the provider's lock. InProcessLockProvider, which Hudi's jobs carry, excludes no other process; it maps to
    that file lock on a local disk and to a thread lock in memory. Object stores refuse it unless the user declares a
    single writer (`hoodie.write.concurrency.mode=single_writer`).

    Args:
        storage: the table's files.
        provider: value of `hoodie.write.lock.provider`: one of Hudi's class names, with or without its package, or
            `LocalFileLock`; None chooses by where the table is: the operating system's file lock on local disks,
            threads only in memory, Hudi's storage-based lock in object stores.
        options: the job's options, for `hoodie.write.lock.*`.
        context: clock and ids.

    Raises:
        NotSupportedError: the provider is unknown (ZooKeeper, Hive, DynamoDB), or can't guard this storage.
        InvalidArgumentError: an option's value is wrong.
    """
    settings, kind = LockSettings.of(resolve_only(options, LockSettings.declared)), storage_kind(storage.root)
    name = (provider or "").strip().removeprefix(HUDI_PACKAGE)
    if not name or (name == IN_PROCESS and kind is not StorageKind.OBJECTS):
        return _DEFAULTS[kind](storage, settings, context)
    if name == IN_PROCESS:
        return _single_writer(storage, settings, options, context)
    maker = _MAKERS.get(name)
    if maker is None:
        raise NotSupportedError(
            f"{WriteOptions.lock_provider}={provider} is not supported; known are {', '.join([IN_PROCESS, *_MAKERS])}",
            table=storage.root,
        )
    return maker(storage, settings, context)


def _single_writer(storage: Storage, settings: LockSettings, options: Mapping[str, str], context: Context) -> TableLock:
    if str(options.get(WriteOptions.concurrency_mode.key, "")).strip().upper() != SINGLE_WRITER:
        raise NotSupportedError(
            f"{WriteOptions.lock_provider}={IN_PROCESS} keeps no other process out of an object store, where two "
            "writers would lose each other's updates: leave it out (pudi then takes Hudi's StorageBasedLockProvider), "
            "or, if no other process ever writes this table, say so by "
            f"{WriteOptions.concurrency_mode}={SINGLE_WRITER.lower()}",
            table=storage.root,
        )
    return SingleWriterLock(canonical_root(storage.root), settings, context)
