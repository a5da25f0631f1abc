"""Indexes: find the file group of a record key."""

from pudi.index.bloom import BloomKeys
from pudi.index.bucket import AnyBuckets, Buckets, ConsistentBuckets, bucket_name, bucket_of, key_hashes
from pudi.index.kinds import Index
from pudi.index.simple import SimpleKeys, check_key_column

__all__ = [
    "AnyBuckets",
    "BloomKeys",
    "Buckets",
    "ConsistentBuckets",
    "Index",
    "SimpleKeys",
    "bucket_name",
    "bucket_of",
    "check_key_column",
    "key_hashes",
]
