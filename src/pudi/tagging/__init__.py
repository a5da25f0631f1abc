"""Indexes: find the file group of a record key."""

from pudi.tagging.bloom import BloomKeys
from pudi.tagging.bucket import AnyBuckets, Buckets, ConsistentBuckets, bucket_name, bucket_of, key_hashes
from pudi.tagging.index import Index, KeysInSlices
from pudi.tagging.simple import SimpleKeys, candidate_groups, check_key_column, key_span

__all__ = [
    "AnyBuckets",
    "BloomKeys",
    "Buckets",
    "ConsistentBuckets",
    "Index",
    "KeysInSlices",
    "SimpleKeys",
    "bucket_name",
    "bucket_of",
    "candidate_groups",
    "check_key_column",
    "key_hashes",
    "key_span",
]
