"""Choose and open a table's lock by the name of its provider and its storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pudi.config import LockSettings, WriteOptions, resolve_only
from pudi.context import Context, Storage
from pudi.errors import NotSupportedError
from pudi.locks.dynamodb_lock import DynamoDBLock, dynamodb_key, implicit_dynamodb_key
from pudi.locks.file_locks import FileSystemLock, LocalFileLock
from pudi.locks.hive_lock import HiveLock, hive_place
from pudi.locks.lock_provider import LockProvider, ProvidedLock, registered_provider
from pudi.locks.storage_lock import StorageBasedLock
from pudi.locks.table_lock import InProcessLock, LockSite, SingleWriterLock, TableLock
from pudi.locks.zookeeper_lock import ZookeeperLock, implicit_zookeeper_place, zookeeper_place
from pudi.storage import StorageKind, storage_kind

Maker = Callable[[LockSite], TableLock]

HUDI_PACKAGES = (
    "org.apache.hudi.client.transaction.lock.",
    "org.apache.hudi.aws.transaction.lock.",
    "org.apache.hudi.hive.transaction.lock.",
)

IN_PROCESS = "InProcessLockProvider"
SINGLE_WRITER = "SINGLE_WRITER"
"""The concurrency mode of a table that one process alone writes. It's Hudi's default: its absence says nothing."""


def _in_process(site: LockSite) -> TableLock:
    return InProcessLock(site.table, site.settings, site.context)


def _local_file(site: LockSite) -> TableLock:
    return site.plain(LocalFileLock)


def _storage_based(site: LockSite) -> TableLock:
    return site.plain(StorageBasedLock)


def _provided(name: str, open_provider: Callable[[LockSite], LockProvider]) -> Maker:
    return lambda site: ProvidedLock(name, open_provider(site), site)


def _zookeeper(site: LockSite) -> LockProvider:
    place = zookeeper_place(site.settings, site.name)
    return ZookeeperLock(site.table, place, site.settings, site.context)


def _implicit_zookeeper(site: LockSite) -> LockProvider:
    place = implicit_zookeeper_place(site.settings, site.table)
    return ZookeeperLock(site.table, place, site.settings, site.context)


def _dynamodb(site: LockSite) -> LockProvider:
    return DynamoDBLock(site.table, dynamodb_key(site.settings, site.name), site.settings, site.context)


def _implicit_dynamodb(site: LockSite) -> LockProvider:
    return DynamoDBLock(site.table, implicit_dynamodb_key(site.table), site.settings, site.context)


def _hive(site: LockSite) -> LockProvider:
    return HiveLock(site.table, hive_place(site.settings), site.settings, site.context)


_SERVICES: dict[str, Callable[[LockSite], LockProvider]] = {
    "ZookeeperBasedLockProvider": _zookeeper,
    "ZookeeperBasedImplicitBasePathLockProvider": _implicit_zookeeper,
    "DynamoDBBasedLockProvider": _dynamodb,
    "DynamoDBBasedImplicitPartitionKeyLockProvider": _implicit_dynamodb,
    "HiveMetastoreBasedLockProvider": _hive,
}
_MAKERS: dict[str, Maker] = {
    "FileSystemBasedLockProvider": lambda site: site.plain(FileSystemLock),
    "StorageBasedLockProvider": _storage_based,
    "LocalFileLock": _local_file,
    **{name: _provided(name, opened) for name, opened in _SERVICES.items()},
}
"""Lock kinds by Hudi's class names, which never load a class; the last name is pudi's own."""

_DEFAULTS: dict[StorageKind, Maker] = {
    StorageKind.LOCAL: _local_file,
    StorageKind.MEMORY: _in_process,
    StorageKind.OBJECTS: _storage_based,
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
    return _maker(site, (provider or "").strip())(site)


def _maker(site: LockSite, provider: str) -> Maker:
    own = registered_provider(provider)
    if own is not None:
        return _provided(provider, lambda site: own(site.table, site.options))
    name, kind = _bare(provider), storage_kind(site.storage.root)
    if not name or (name == IN_PROCESS and kind is not StorageKind.OBJECTS):
        return _DEFAULTS[kind]
    if name == IN_PROCESS:
        return _single_writer
    maker = _MAKERS.get(name)
    if maker is None:
        raise NotSupportedError(
            f"{WriteOptions.lock_provider}={provider} is not supported; known are {', '.join([IN_PROCESS, *_MAKERS])}, "
            "and classes given to pudi.register_lock_provider",
            table=site.storage.root,
        )
    return maker


def _bare(provider: str) -> str:
    """A provider's name without Hudi's package; the packages that differ don't share a name."""
    package, dot, name = provider.rpartition(".")
    return name if package + dot in HUDI_PACKAGES else provider


def _single_writer(site: LockSite) -> TableLock:
    if str(site.options.get(WriteOptions.concurrency_mode.key, "")).strip().upper() != SINGLE_WRITER:
        raise NotSupportedError(
            f"{WriteOptions.lock_provider}={IN_PROCESS} keeps no other process out of an object store, where two "
            "writers would lose each other's updates: leave it out (pudi then takes Hudi's StorageBasedLockProvider), "
            "or, if no other process ever writes this table, say so by "
            f"{WriteOptions.concurrency_mode}={SINGLE_WRITER.lower()}",
            table=site.storage.root,
        )
    return SingleWriterLock(site.table, site.settings, site.context)
