"""The options of the index that writes find records by, with Hudi's keys and defaults (HoodieIndexConfig of 1.2)."""

from __future__ import annotations

from pudi.config.option import Declare, OptionsView, Scope, Status

_option = Declare(Scope.WRITE)
_lacking = Declare(Scope.WRITE, Status.UNSUPPORTED)


class IndexOptions(OptionsView):
    """How a write finds the file of a key."""

    __slots__ = ()

    index_type = _option(
        "hoodie.index.type",
        "How a write finds the file of a key: in its partition by keys (SIMPLE) or by bloom filters first (BLOOM, "
        "which also writes them into base files), in the whole table (GLOBAL_SIMPLE, GLOBAL_BLOOM), by the metadata "
        "table's record index (RECORD_INDEX or GLOBAL_RECORD_LEVEL_INDEX in the whole table, RECORD_LEVEL_INDEX in its "
        "partition), or by the key's hash (BUCKET). A table whose files are buckets has BUCKET by itself.",
        default="SIMPLE",
        choices=(
            "SIMPLE",
            "BLOOM",
            "BUCKET",
            "GLOBAL_SIMPLE",
            "GLOBAL_BLOOM",
            "RECORD_INDEX",
            "GLOBAL_RECORD_LEVEL_INDEX",
            "RECORD_LEVEL_INDEX",
        ),
        unsupported=("INMEMORY", "HBASE", "FLINK_STATE"),
    )
    simple_index_moves = _option(
        "hoodie.simple.index.update.partition.path",
        "Whether GLOBAL_SIMPLE moves a record that comes with another partition path there; else it's updated "
        "where it is.",
        default=True,
    )
    bloom_index_moves = _option("hoodie.bloom.index.update.partition.path", "The same for GLOBAL_BLOOM.", default=True)
    record_index_moves = _option(
        "hoodie.record.index.update.partition.path",
        "The same for RECORD_INDEX and GLOBAL_RECORD_LEVEL_INDEX.",
        default=False,
    )
    bucket_count = _option(
        "hoodie.bucket.index.num.buckets",
        "Buckets of each partition, for BUCKET. Fixed by the first write; later it's told by the files.",
        kind=int,
        minimum=1,
    )
    bucket_hash_fields = _option(
        "hoodie.bucket.index.hash.field",
        "Columns of the record key that BUCKET hashes; all of them without it. Not to be changed later.",
    )
    bucket_engine = _option(
        "hoodie.index.bucket.engine",
        "Kind of bucket index. CONSISTENT_HASHING, for merge-on-read tables, divides each partition by a ring of "
        "its own; buckets are not resized here, and replacing records is refused.",
        default="SIMPLE",
        choices=("SIMPLE", "CONSISTENT_HASHING"),
    )
    bucket_expressions = _lacking(
        "hoodie.bucket.index.partition.expressions",
        "Numbers of buckets by partition.",
        instead="give one number for all, hoodie.bucket.index.num.buckets",
    )
