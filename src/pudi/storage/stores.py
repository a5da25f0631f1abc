"""Kinds of object stores: names, limits, and how obstore opens them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from pudi.context.runtime import lazy_module
from pudi.errors import InvalidArgumentError

if TYPE_CHECKING:
    from obstore import UpdateVersion, store
    from obstore.store import ObjectStore

    from pudi.storage import failure
else:
    store = lazy_module("obstore.store")
    failure = lazy_module("pudi.storage.failure")

_TIMEOUT = timedelta(seconds=300)
"""Timeout of one request, including the upload of a base file; obstore's own 30 s would cut off slow uploads."""

_CLIENT_OPTIONS = frozenset({
    "allow_http", "allow_invalid_certificates", "connect_timeout", "default_content_type", "http1_only",
    "http2_keep_alive_interval", "http2_keep_alive_timeout", "http2_keep_alive_while_idle", "http2_only",
    "pool_idle_timeout", "pool_max_idle_per_host", "proxy_url", "proxy_ca_certificate", "proxy_excludes",
    "randomize_addresses", "read_timeout", "root_certificate", "timeout", "user_agent",
})  # fmt: skip
"""Names of obstore's `ClientConfig`; every other option is the store's."""


@dataclass(frozen=True, slots=True)
class StoreKind:
    """Names and differences of one kind of store.

    Attributes:
        container: the store's word for a bucket, for messages.
        prefixes: what option names may begin with, longest first; the last, in capitals, begins environment variables.
        has_suffix_reads: whether the end of an object can be read without knowing its size.
        generations: whether conditional writes compare the generation of an object (GCS), not its ETag.
    """

    container: str
    prefixes: tuple[str, ...]
    has_suffix_reads: bool = True
    generations: bool = False

    def version_of(self, meta: Mapping[str, Any]) -> str | None:
        """The version in an object's facts, as `replace` compares it."""
        version: str | None = meta["version"] if self.generations else meta["e_tag"]
        return version

    def unchanged_since(self, version: str) -> UpdateVersion:
        """The mode of a write that replaces an object of this version only."""
        return {"version": version} if self.generations else {"e_tag": version}

    def is_version(self, text: str) -> bool:
        """Return whether a version is valid for this store: Google rejects versions that are not numbers."""
        return text.isdecimal() or not self.generations

    def plain_name(self, option: str) -> str:
        """An option's name in lower case, without the store's name before it."""
        name = option.lower()
        prefix = next((each for each in self.prefixes if name.startswith(each)), "")
        return name.removeprefix(prefix)


S3 = StoreKind("bucket", ("aws_",))
AZURE = StoreKind("container", ("azure_storage_", "azure_"), has_suffix_reads=False)
GCS = StoreKind("bucket", ("google_",), generations=True)

KINDS = {"s3": S3, "gs": GCS, "az": AZURE, "abfss": AZURE}
"""Kinds of stores outside of this process by canonical scheme."""


@dataclass(frozen=True, slots=True)
class Place:
    """A root in an object store.

    Attributes:
        root: the root as the user named it.
        scheme: its canonical scheme.
        container: the bucket or container; the name of a store in memory.
        host: where the container's account is, as in `abfss://container@host/…`; empty where the URL doesn't say.
        prefix: where in the container the root is; empty for all of it.
    """

    root: str
    scheme: str
    container: str
    host: str
    prefix: str

    @property
    def kind(self) -> StoreKind:
        """The kind of store; memory behaves as S3."""
        return KINDS.get(self.scheme, S3)

    @property
    def account(self) -> str:
        """The storage account that the URL names; empty where it names none."""
        return self.host.partition(".")[0]


def open_store(place: Place, options: Mapping[str, str]) -> ObjectStore:
    """Open an object store, with obstore's retries off.

    Args:
        place: the container, and the account that its URL names.
        options: obstore's options by their names, over the environment's.

    Raises:
        InvalidArgumentError: an option is unknown, or contradicts the URL.
    """
    kind = place.kind
    client: Any = {"timeout": _TIMEOUT}  # Any, since mypy takes no plain dict for a TypedDict
    # obstore reads the environment for the store's options, and for the client's only when none are given.
    variable = kind.prefixes[-1].upper()
    client |= {name: os.environ[var] for name in _CLIENT_OPTIONS if (var := f"{variable}{name.upper()}") in os.environ}
    config: Any = _account_options(place, options) if place.host else {}
    for key, value in options.items():
        name = kind.plain_name(key)
        if name in _CLIENT_OPTIONS:
            client[name] = value
        else:
            config[key.lower()] = value
    make: Any = {S3: store.S3Store, AZURE: store.AzureStore, GCS: store.GCSStore}[kind]
    try:
        opened: ObjectStore = make(
            place.container, config=config, client_options=client, retry_config={"max_retries": 0}
        )
    except failure.SILENT as error:
        found = failure.translate(error, place.root, "")
        raise InvalidArgumentError(f"the storage options don't work: {found.message}", table=place.root) from error
    return opened


def _account_options(place: Place, options: Mapping[str, str]) -> dict[str, str]:
    """Options that the account in an Azure URL stands for."""
    given = {AZURE.plain_name(key): value for key, value in options.items()}
    named = given.get("account_name", place.account)
    if named != place.account:
        raise InvalidArgumentError(
            f"the location names the storage account {place.account}, the option account_name {named}: give one",
            table=place.root,
        )
    found = {} if "account_name" in given else {"account_name": place.account}
    if place.host.endswith(".fabric.microsoft.com"):
        return found | {"use_fabric_endpoint": "true"}
    if place.host.endswith(".core.windows.net") or "endpoint" in given:
        return found
    return found | {"endpoint": f"https://{place.host.replace('.dfs.', '.blob.')}"}  # a sovereign cloud
