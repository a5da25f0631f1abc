"""Open a `Storage` by its location: local disk, memory, S3, Azure or Google Cloud Storage."""

from pudi.storage.capability import (
    connection_options,
    delete_folder,
    delete_for_good,
    executor_of,
    has_own_clock,
    is_near,
    list_names,
    local_path,
    read_tail,
    remove_folders,
    replacing,
    stamp,
    tries_alone,
)
from pudi.storage.input import InputFile, OpenFiles, RangedFile, open_input, prefetch
from pudi.storage.local import LocalStorage, system_error, temporary_errors, temporary_file
from pudi.storage.location import StorageKind, canonical_root, open_storage, place_of, storage_kind, whole_place
from pudi.storage.wrapper import CountingStorage, StorageBelow, StorageWrapper, UnsyncedStorage, synced

__all__ = [
    "CountingStorage",
    "InputFile",
    "LocalStorage",
    "OpenFiles",
    "RangedFile",
    "StorageBelow",
    "StorageKind",
    "StorageWrapper",
    "UnsyncedStorage",
    "canonical_root",
    "connection_options",
    "delete_folder",
    "delete_for_good",
    "executor_of",
    "has_own_clock",
    "is_near",
    "list_names",
    "local_path",
    "open_input",
    "open_storage",
    "place_of",
    "prefetch",
    "read_tail",
    "remove_folders",
    "replacing",
    "stamp",
    "storage_kind",
    "synced",
    "system_error",
    "temporary_errors",
    "temporary_file",
    "tries_alone",
    "whole_place",
]
