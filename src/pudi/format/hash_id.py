"""Hashes of names: of columns, partitions and files in keys of the metadata table, of a table's root in names of locks.

Source: HashID.
"""

from __future__ import annotations

import base64
import hashlib

import xxhash

_SEED = 0xFFFFFFFFDABADABA
"""HashID's seed, an int, as Java widens it to a long."""


def xx_hash(text: str) -> str:
    """Return the 64-bit xxHash of a text in Base64."""
    return base64.b64encode(xxhash.xxh64_digest(text.encode(), _SEED)).decode()


def md5_hash(text: str) -> str:
    """Return the MD5 hash of a text in Base64."""
    return base64.b64encode(hashlib.md5(text.encode(), usedforsecurity=False).digest()).decode()


def path_hash(root: str) -> str:
    """Return the hexadecimal hash of a table's root (HashID.generateXXHashAsString): the name of an implicit lock."""
    return f"{xxhash.xxh64_intdigest(root.encode(), _SEED):016X}"
