"""Open the storage of a location: the only module that knows URL schemes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from enum import Enum
from typing import TYPE_CHECKING

from pudi.config.arguments import map_given, path_given
from pudi.context import Context, Storage
from pudi.context.runtime import lazy_module
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.storage.checks import check_prefix
from pudi.storage.local import LocalStorage
from pudi.storage.stores import AZURE, KINDS, Place, open_store

if TYPE_CHECKING:
    from pudi.storage import objects
else:  # obstore takes long to load, which tables on a local disk can do without
    objects = lazy_module("pudi.storage.objects")

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
_SCHEMES = {
    **dict.fromkeys(("s3", "s3a", "s3n"), "s3"),
    **dict.fromkeys(("abfss", "abfs", "wasbs", "wasb", "azure"), "az"),
    **{scheme: scheme for scheme in ("az", "gs", "memory", "file")},
}
"""Canonical schemes by those that a location may have."""


class StorageKind(Enum):
    """Kind of a storage's root."""

    LOCAL = "local"
    MEMORY = "memory"
    OBJECTS = "object store"


def storage_kind(root: str) -> StorageKind:
    """Return the kind of a storage's root.

    Raises:
        NotSupportedError: its scheme is none that pudi knows.
    """
    kinds = {"file": StorageKind.LOCAL, "memory": StorageKind.MEMORY}
    return kinds.get(_split(root)[0], StorageKind.OBJECTS)


def canonical_root(root: str) -> str:
    """Return the canonical spelling of a root.

    Symlinks are resolved on local disks; `s3://` stands for every name of S3, `abfss://container@account.dfs.…` for
    every URL that names an Azure account.

    Raises:
        NotSupportedError: its scheme is none that pudi knows.
        InvalidArgumentError: it's no location.
    """
    scheme, rest = _split(root)
    if scheme == "file":
        return LocalStorage(root).local_root
    if scheme == "memory":
        return f"memory://{rest.rstrip('/')}"
    place = place_of(root)
    authority = f"{place.container}@{place.host}" if place.host else place.container
    return f"{place.scheme}://{authority}/{place.prefix}".rstrip("/")


def place_of(root: str) -> Place:
    """Return the bucket or container of a root, and the prefix in it.

    Raises:
        NotSupportedError: the scheme belongs to no known object store.
        InvalidArgumentError: it names no bucket or container, or a folder that can't be.
    """
    scheme, rest = _split(root)
    if scheme not in KINDS:
        raise NotSupportedError("this isn't a location in an object store", table=root)
    authority, _, prefix = rest.rstrip("/").partition("/")
    container, at, host = authority.partition("@") if KINDS[scheme] is AZURE else (authority, "", "")
    if not container or (at and not host):
        raise InvalidArgumentError(f"{root!r} names no {KINDS[scheme].container}", table=root)
    check_prefix(prefix, root)
    if KINDS[scheme] is AZURE:  # wasbs:// names the account by its host for blobs; az:// as a rule names none
        scheme, host = ("abfss", host.lower().replace(".blob.", ".dfs.")) if host else ("az", "")
    return Place(root, scheme, container, host, prefix)


def whole_place(root: str) -> tuple[str, str]:
    """Return the location that holds a root and all that could hold it, and the root's folder in it.

    That is `/` on local disks, else the bucket, the container or the store.

    Raises:
        NotSupportedError: the scheme is none that pudi knows.
        InvalidArgumentError: it's no location.
    """
    scheme, rest = _split(root)
    if scheme == "file":
        return "/", LocalStorage(root).local_root.strip("/")
    prefix = rest.rstrip("/").partition("/")[2] if scheme == "memory" else place_of(root).prefix
    prefix = prefix.strip("/")
    return root.rstrip("/").removesuffix(prefix).rstrip("/") if prefix else root.rstrip("/"), prefix


def open_storage(
    path: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    *,
    context: Context | None = None,
) -> Storage:
    """The storage of a location.

    Args:
        path: a local path, `file:///…`, `memory://NAME[/…]`, `s3://BUCKET[/…]` (`s3a://` is the same),
            `gs://BUCKET[/…]`, `abfss://CONTAINER@ACCOUNT.dfs.core.windows.net[/…]` (`abfs://`, `wasbs://` and `wasb://`
            are the same), or `az://CONTAINER[/…]` with the account by option or environment.
        storage_options: how to reach an object store: obstore's options of that store and its client's by their names
            (`endpoint`, `region`, `account_key`, `service_account`, `allow_http`, …), over the environment variables
            `AWS_*`, `AZURE_*` and `GOOGLE_*`.
        context: clock and chance, for retries.

    Raises:
        NotSupportedError: the scheme is none that pudi knows.
        InvalidArgumentError: the location or an option is wrong.
    """
    root, given = path_given(path), map_given(storage_options, "storage_options")
    scheme, rest = _split(root)
    if scheme == "file":
        return LocalStorage(root, context)
    if scheme == "memory":
        name, _, prefix = rest.rstrip("/").partition("/")
        if not name:
            raise InvalidArgumentError(f"{root!r} names no store", table=root)
        check_prefix(prefix, root)
        return objects.open_memory(Place(root, scheme, name, "", prefix), context)
    return _open_objects(place_of(root), given, context)


def _split(root: str) -> tuple[str, str]:
    """Canonical scheme of a location, and what follows it."""
    if not root:
        raise InvalidArgumentError("the location is empty: a path or a URL is wanted")
    found = _URL.fullmatch(root)
    if found is None:
        return "file", root
    scheme = _SCHEMES.get(found[1].lower())
    if scheme is None:
        raise NotSupportedError(
            f"there is no storage for {found[1]}:// locations; known are local paths, file://, s3://, gs://, "
            "abfss://, az:// and memory://",
            table=root,
        )
    if scheme == "file" and not found[2].startswith("/"):
        raise InvalidArgumentError("a file:// location has three slashes, as in file:///data/trips", table=root)
    return scheme, found[2]


def _open_objects(place: Place, options: dict[str, str], context: Context | None) -> objects.ObjectStorage:
    reopen: tuple[Callable[..., objects.ObjectStorage], tuple[object, ...]] = (_reopen, (place, options))
    store = open_store(place, options)
    return objects.ObjectStorage(place, store, reopen, context, options)


def _reopen(place: Place, options: dict[str, str]) -> objects.ObjectStorage:
    return _open_objects(place, options, None)
