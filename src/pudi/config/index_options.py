"""The options of the index that writes find records by, with Hudi's keys and defaults (HoodieIndexConfig of 1.2)."""

from __future__ import annotations

from pudi.config.option import Declare, OptionsView, Scope, Status

_option = Declare(Scope.WRITE)
_lacking = Declare(Scope.WRITE, Status.UNSUPPORTED)


class IndexOptions(OptionsView):
    """Options of indexes: the way in which a write finds the file group of a key."""

    __slots__ = ()

    index_type = _option(
        "hoodie.index.type",
        "How a write finds the file group of a key. Within its partition: SIMPLE reads keys, BLOOM checks bloom "
        "filters first (and writes them into base files), RECORD_LEVEL_INDEX uses the record index. In the whole "
        "table: GLOBAL_SIMPLE, GLOBAL_BLOOM, RECORD_INDEX and GLOBAL_RECORD_LEVEL_INDEX. BUCKET hashes the key; a "
        "table that has buckets always uses it. INMEMORY, which Hudi has for tests, finds records as SIMPLE does; "
        "Hudi's knows only those that the same process wrote.",
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
            "INMEMORY",
        ),
        unsupported=("HBASE", "FLINK_STATE"),
        job_keys=("index.type",),
    )
    simple_index_moves = _option(
        "hoodie.simple.index.update.partition.path",
        "Whether GLOBAL_SIMPLE moves a record that arrives with another partition path. If false, the record is "
        "updated in its old partition.",
        default=True,
    )
    bloom_index_moves = _option(
        "hoodie.bloom.index.update.partition.path",
        "Whether GLOBAL_BLOOM moves a record that arrives with another partition path. If false, the record is "
        "updated in its old partition.",
        default=True,
    )
    record_index_moves = _option(
        "hoodie.record.index.update.partition.path",
        "Whether RECORD_INDEX and GLOBAL_RECORD_LEVEL_INDEX move a record that arrives with another partition path. "
        "If false, the record is updated in its old partition.",
        default=False,
    )
    bucket_count = _option(
        "hoodie.bucket.index.num.buckets",
        "Number of buckets per partition, for BUCKET. The first write fixes it; later the table's files determine it, "
        "where they hold keys enough.",
        default=256,
        minimum=1,
    )
    bucket_hash_fields = _option(
        "hoodie.bucket.index.hash.field",
        "Columns of the record key that BUCKET hashes; all of them by default. It can't be changed later.",
    )
    bucket_engine = _option(
        "hoodie.index.bucket.engine",
        "Type of bucket index. CONSISTENT_HASHING is for merge-on-read tables and gives each partition a hash ring. "
        "Clusterings split and merge its buckets.",
        default="SIMPLE",
        choices=("SIMPLE", "CONSISTENT_HASHING"),
    )
    max_buckets = _option(
        "hoodie.bucket.index.max.num.buckets",
        "Maximum number of buckets that a partition gets by splitting, with consistent hashing. By default the number "
        "that it begins with, so that none is split.",
        kind=int,
        minimum=1,
    )
    min_buckets = _option(
        "hoodie.bucket.index.min.num.buckets",
        "Minimum number of buckets that merging leaves of a partition, with consistent hashing. By default the number "
        "that it begins with, so that none are merged.",
        kind=int,
        minimum=1,
    )
    split_threshold = _option(
        "hoodie.bucket.index.split.threshold",
        "With consistent hashing, a clustering splits buckets of more than hoodie.parquet.max.file.size times this.",
        default=2.0,
        minimum=0,
    )
    merge_threshold = _option(
        "hoodie.bucket.index.merge.threshold",
        "With consistent hashing, a clustering merges neighbouring buckets of up to hoodie.parquet.max.file.size times "
        "this each.",
        default=0.2,
        minimum=0,
    )
    bucket_expressions = _lacking(
        "hoodie.bucket.index.partition.expressions",
        "Numbers of buckets per partition.",
        instead="set one number for all partitions, hoodie.bucket.index.num.buckets",
    )
