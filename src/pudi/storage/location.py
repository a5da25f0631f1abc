"""Which storage a location means: the one place that knows schemes and connection options."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from datetime import timedelta
from enum import Enum
from typing import Any

from obstore.store import S3Store

from pudi.context import Context, Storage
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.storage.failure import SILENT, translate
from pudi.storage.local import LocalStorage
from pudi.storage.memory import open_memory
from pudi.storage.objects import ObjectStorage
from pudi.storage.path import check_prefix

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
_SCHEMES = {"s3": "s3", "s3a": "s3", "s3n": "s3", "memory": "memory", "file": "file"}
_TIMEOUT = timedelta(seconds=300)
"""Of one request, upload of a base file included; obstore's own 30 s would cut slow uploads off."""

_CLIENT_OPTIONS = frozenset({
    "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only",
    "http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle", "http2_only",
    "pool_idle_timeout", "pool_max_idle_per_host", "proxy_url", "proxy_ca_certificate", "proxy_excludes",
    "randomize_addresses", "read_timeout", "root_certificate", "timeout", "user_agent",
})  # fmt: skip
"""Names of obstore's `ClientConfig`; every other option is the store's."""


class StorageKind(Enum):
    """What kind of place a root is."""

    LOCAL = "local"
    MEMORY = "memory"
    OBJECTS = "object store"


def storage_kind(root: str) -> StorageKind:
    """What kind of place a storage's root is.

    Raises:
        NotSupportedError: its scheme is none that pudi knows.
    """
    kinds = {"file": StorageKind.LOCAL, "memory": StorageKind.MEMORY, "s3": StorageKind.OBJECTS}
    return kinds[_split(root)[0]]


def canonical_root(root: str) -> str:
    """One spelling for all names of a root: symlinks resolved on local disks, `s3://` for every name of S3.

    Raises:
        NotSupportedError: its scheme is none that pudi knows.
    """
    scheme, rest = _split(root)
    return LocalStorage(root).local_root if scheme == "file" else f"{scheme}://{rest.rstrip('/')}"


def open_storage(
    path: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    *,
    context: Context | None = None,
) -> Storage:
    """The storage of a location.

    Args:
        path: a local path, `file:///…`, `memory://NAME[/…]`, or `s3://BUCKET[/…]` (`s3a://` is the same).
        storage_options: how to reach an object store: obstore's S3 and client options by their names (`endpoint`,
            `region`, `access_key_id`, `allow_http`, …), over the `AWS_*` environment variables.
        context: clock and chance, for retries.

    Raises:
        NotSupportedError: the scheme is none that pudi knows.
        InvalidArgumentError: the location or an option is wrong.
    """
    root = os.fspath(path)
    scheme, rest = _split(root)
    if scheme == "file":
        return LocalStorage(root, context)
    name, _, prefix = rest.rstrip("/").partition("/")
    if not name:
        raise InvalidArgumentError(f"{root!r} names no {'bucket' if scheme == 's3' else 'store'}", table=root)
    check_prefix(prefix, root)
    if scheme == "memory":
        return open_memory(root, name, prefix, context)
    return _open_s3(root, name, prefix, dict(storage_options or {}), context)


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
            f"there is no storage for {found[1]}:// locations; known are local paths, file://, s3:// and memory://",
            table=root,
        )
    if scheme == "file" and not found[2].startswith("/"):
        raise InvalidArgumentError("a file:// location has three slashes, as in file:///data/trips", table=root)
    return scheme, found[2]


def _open_s3(root: str, bucket: str, prefix: str, options: dict[str, str], context: Context | None) -> ObjectStorage:
    client: Any = {"timeout": _TIMEOUT}  # Any, since mypy takes no plain dict for a TypedDict
    config: Any = {}
    # obstore reads the environment for the store's options, and for the client's only when none are given.
    client |= {name: os.environ[var] for name in _CLIENT_OPTIONS if (var := f"AWS_{name.upper()}") in os.environ}
    for key, value in options.items():
        name = key.lower().removeprefix("aws_")
        if name in _CLIENT_OPTIONS:
            client[name] = value
        else:
            config[key.lower()] = value
    try:
        store = S3Store(bucket, config=config, client_options=client, retry_config={"max_retries": 0})
    except SILENT as error:
        found = translate(error, root, "")
        raise InvalidArgumentError(f"the storage options don't work: {found.message}", table=root) from error
    reopen: tuple[Callable[..., ObjectStorage], tuple[object, ...]] = (_reopen_s3, (root, bucket, prefix, options))
    return ObjectStorage(root, store, prefix, reopen, context, options=options)


def _reopen_s3(root: str, bucket: str, prefix: str, options: dict[str, str]) -> ObjectStorage:
    return _open_s3(root, bucket, prefix, options, None)
