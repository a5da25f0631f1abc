"""Indexes: find the file group of a record key."""

from pudi.index.bloom import BloomKeys
from pudi.index.bucket import AnyBuckets, Buckets, ConsistentBuckets, bucket_name, bucket_of, key_hashes
from pudi.index.kinds import Index, KeysInLogs
from pudi.index.simple import SimpleKeys, candidate_groups, check_key_column, key_span

__all__ = [
    "AnyBuckets",
    "BloomKeys",
    "Buckets",
    "ConsistentBuckets",
    "Index",
    "KeysInLogs",
    "SimpleKeys",
    "bucket_name",
    "bucket_of",
    "candidate_groups",
    "check_key_column",
    "key_hashes",
    "key_span",
]
