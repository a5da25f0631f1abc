"""Declare each option once; turn maps of text into typed, frozen views."""

from pudi.config.checks import (
    check_backup,
    check_compactable,
    check_consistent,
    check_inline_compaction,
    check_mergeable,
    check_metadata_kept,
    check_readable,
    check_services,
    check_writable,
)
from pudi.config.clustering_options import ALLOW_UPDATES, ClusteringOptions, LayoutStrategy, PartitionFilter
from pudi.config.compaction_options import CompactionOptions
from pudi.config.groups import ALL_OPTIONS, options_page
from pudi.config.hook_options import HTTP_CALLBACK, CallbackOptions, MetricsOptions, ValidatorOptions
from pudi.config.index_options import IndexOptions
from pudi.config.key_generators import timebased
from pudi.config.lock_settings import BY_BUCKET, PREFER_WRITER, LockSettings, TimeOptions
from pudi.config.merging import is_own_strategy, note_registered, payload
from pudi.config.metadata_options import (
    MetadataOptions,
    metadata_dropped,
    metadata_switched_off,
    metadata_wanted,
)
from pudi.config.option import Option, Options, OptionsView, Scope, Status, names_in
from pudi.config.read_options import FormatOptions, MergeMemory, ReadOptions
from pudi.config.resolve import (
    KEY_PREFIXES,
    find_option,
    option,
    options_of_scope,
    resolve,
    resolve_only,
    spelled,
)
from pudi.config.retention_options import ArchiveOptions, CleanOptions, CleanPolicy, TtlOptions, TtlStrategy
from pudi.config.sql_options import SqlOptions
from pudi.config.sync_options import HiveClientOptions, PolarisOptions, SyncOptions
from pudi.config.table_config import MergeSemantics, TableConfig, merge_semantics
from pudi.config.table_options import MergeMode, OtherTableOptions, PartialUpdate, TimebasedOptions
from pudi.config.write_options import NON_BLOCKING, WriteOptions

__all__ = [
    "ALLOW_UPDATES",
    "ALL_OPTIONS",
    "BY_BUCKET",
    "HTTP_CALLBACK",
    "KEY_PREFIXES",
    "NON_BLOCKING",
    "PREFER_WRITER",
    "ArchiveOptions",
    "CallbackOptions",
    "CleanOptions",
    "CleanPolicy",
    "ClusteringOptions",
    "CompactionOptions",
    "FormatOptions",
    "HiveClientOptions",
    "IndexOptions",
    "LayoutStrategy",
    "LockSettings",
    "MergeMemory",
    "MergeMode",
    "MergeSemantics",
    "MetadataOptions",
    "MetricsOptions",
    "Option",
    "Options",
    "OptionsView",
    "OtherTableOptions",
    "PartialUpdate",
    "PartitionFilter",
    "PolarisOptions",
    "ReadOptions",
    "Scope",
    "SqlOptions",
    "Status",
    "SyncOptions",
    "TableConfig",
    "TimeOptions",
    "TimebasedOptions",
    "TtlOptions",
    "TtlStrategy",
    "ValidatorOptions",
    "WriteOptions",
    "check_backup",
    "check_compactable",
    "check_consistent",
    "check_inline_compaction",
    "check_mergeable",
    "check_metadata_kept",
    "check_readable",
    "check_services",
    "check_writable",
    "find_option",
    "is_own_strategy",
    "merge_semantics",
    "metadata_dropped",
    "metadata_switched_off",
    "metadata_wanted",
    "names_in",
    "note_registered",
    "option",
    "options_of_scope",
    "options_page",
    "payload",
    "resolve",
    "resolve_only",
    "spelled",
    "timebased",
]
