"""Choose and open a table's lock by the name of its provider and its storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pudi.config import LockSettings, WriteOptions, resolve_only
from pudi.context import Context, Storage
from pudi.errors import NotSupportedError
from pudi.format.hashes import path_hash
from pudi.locks.dynamodb_lock import DynamoDBLock, dynamodb_key
from pudi.locks.file_locks import FileSystemLock, LocalFileLock
from pudi.locks.hive_lock import HiveLock, hive_place
from pudi.locks.lock_provider import LockProvider, ProvidedLock, registered_provider
from pudi.locks.storage_lock import StorageBasedLock
from pudi.locks.table_lock import InProcessLock, LockSite, SingleWriterLock, TableLock
from pudi.locks.zookeeper_lock import ZookeeperLock, ZookeeperPlace, implicit_zookeeper_place, zookeeper_place
from pudi.storage import StorageKind, storage_kind

HUDI_PACKAGES = (
    "org.apache.hudi.client.transaction.lock.",
    "org.apache.hudi.aws.transaction.lock.",
    "org.apache.hudi.hive.transaction.lock.",
)

IN_PROCESS = "InProcessLockProvider"
SINGLE_WRITER = "SINGLE_WRITER"
"""The concurrency mode of a table that one process alone writes. It's Hudi's default: its absence says nothing."""


def _zookeeper(site: LockSite, place: ZookeeperPlace) -> LockProvider:
    return ZookeeperLock(site.table, place, site.settings, site.context)


def _dynamodb(site: LockSite, key: str) -> LockProvider:
    return DynamoDBLock(site.table, key, site.settings, site.context)


_SERVICES: dict[str, Callable[[LockSite], LockProvider]] = {
    "ZookeeperBasedLockProvider": lambda site: _zookeeper(site, zookeeper_place(site.settings, site.name)),
    "ZookeeperBasedImplicitBasePathLockProvider": lambda site: _zookeeper(
        site, implicit_zookeeper_place(site.settings, site.table)
    ),
    "DynamoDBBasedLockProvider": lambda site: _dynamodb(site, dynamodb_key(site.settings, site.name)),
    "DynamoDBBasedImplicitPartitionKeyLockProvider": lambda site: _dynamodb(site, path_hash(site.table)),
    "HiveMetastoreBasedLockProvider": lambda site: HiveLock(
        site.table, hive_place(site.settings), site.settings, site.context
    ),
}
_IN_TABLE: dict[str, Callable[[Storage, LockSettings, Context], TableLock]] = {
    "FileSystemBasedLockProvider": FileSystemLock,
    "StorageBasedLockProvider": StorageBasedLock,
    "LocalFileLock": LocalFileLock,
}
"""Locks by Hudi's class names, which never load a class; the last name is pudi's own."""
_DEFAULTS: dict[StorageKind, Callable[[Storage, LockSettings, Context], TableLock]] = {
    StorageKind.LOCAL: LocalFileLock,
    StorageKind.MEMORY: InProcessLock,
    StorageKind.OBJECTS: StorageBasedLock,
}


def open_lock(
    storage: Storage, provider: str | None, options: Mapping[str, str], context: Context, name: str = ""
) -> TableLock:
    """The lock of a table.

    On a local disk all pudi writers exclude each other, whatever the provider: each takes the file lock there, alone or
    before the provider's lock. InProcessLockProvider, which Hudi's jobs carry, excludes no other
    process; it maps to that file lock on a local disk and to a thread lock in memory. Object stores refuse it unless
    the user declares a single writer (`hoodie.write.concurrency.mode=single_writer`).

    Args:
        storage: the table's files.
        provider: value of `hoodie.write.lock.provider`: one of Hudi's class names, with or without its package,
            `LocalFileLock`, or a name given to `register_lock_provider`; None chooses by where the table is: the
            operating system's file lock on local disks, threads only in memory, Hudi's storage-based lock in object
            stores.
        options: the job's options, for `hoodie.write.lock.*`.
        context: clock and ids.
        name: the table's name.

    Raises:
        NotSupportedError: the provider is unknown, or can't guard this storage.
        InvalidArgumentError: an option's value is wrong.
    """
    settings = LockSettings.of(resolve_only(options, LockSettings.declared))
    site = LockSite(storage, name, settings, options, context)
    provider = (provider or "").strip()
    own = registered_provider(provider)
    if own is not None:
        return ProvidedLock(provider, own(site.table, options), site)
    bare, kind = _bare(provider), storage_kind(storage.root)
    if bare in _SERVICES:
        return ProvidedLock(bare, _SERVICES[bare](site), site)
    if bare == IN_PROCESS and kind is StorageKind.OBJECTS:
        _check_single_writer(site)
        made: Callable[[Storage, LockSettings, Context], TableLock] = SingleWriterLock
    elif bare in {"", IN_PROCESS}:
        made = _DEFAULTS[kind]
    elif bare in _IN_TABLE:
        made = _IN_TABLE[bare]
    else:
        raise NotSupportedError(
            f"{WriteOptions.lock_provider}={provider} is not supported; known are "
            f"{', '.join([IN_PROCESS, *_IN_TABLE, *_SERVICES])}, and classes given to pudi.register_lock_provider",
            table=storage.root,
        )
    return made(storage, settings, context)


def _bare(provider: str) -> str:
    """A provider's name without Hudi's package; the packages that differ don't share a name."""
    package, dot, name = provider.rpartition(".")
    return name if package + dot in HUDI_PACKAGES else provider


def _check_single_writer(site: LockSite) -> None:
    if str(site.options.get(WriteOptions.concurrency_mode.key, "")).strip().upper() != SINGLE_WRITER:
        raise NotSupportedError(
            f"{WriteOptions.lock_provider}={IN_PROCESS} keeps no other process out of an object store, where two "
            "writers would lose each other's updates: leave it out (pudi then takes Hudi's StorageBasedLockProvider), "
            "or, if no other process ever writes this table, say so by "
            f"{WriteOptions.concurrency_mode}={SINGLE_WRITER.lower()}",
            table=site.storage.root,
        )
