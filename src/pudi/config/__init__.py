"""What can be set: each option declared once; maps of text go in, typed frozen views come out."""

from pudi.config.checks import (
    check_compactable,
    check_consistent,
    check_mergeable,
    check_readable,
    check_writable,
)
from pudi.config.compaction_options import CompactionOptions
from pudi.config.memory import MEMORY_KEYS, MergeMemory
from pudi.config.merging import is_own_strategy
from pudi.config.metadata import (
    METADATA_KEY,
    check_metadata_kept,
    column_stats_by_default,
    metadata_by_default,
    metadata_dropped,
    metadata_switched_off,
    metadata_wanted,
)
from pudi.config.option import Option, Scope, Status, Value
from pudi.config.page import options_page
from pudi.config.read_registry import POSITIONS
from pudi.config.resolve import ALL_OPTIONS, Options, find_option, option, resolve
from pudi.config.semantics import MergeSemantics, merge_semantics
from pudi.config.table_config import TableConfig
from pudi.config.timebased import Timebased, timebased
from pudi.config.write_options import WriteOptions
from pudi.config.write_registry import CLOCK_TOLERANCE

__all__ = [
    "ALL_OPTIONS",
    "CLOCK_TOLERANCE",
    "MEMORY_KEYS",
    "METADATA_KEY",
    "POSITIONS",
    "CompactionOptions",
    "MergeMemory",
    "MergeSemantics",
    "Option",
    "Options",
    "Scope",
    "Status",
    "TableConfig",
    "Timebased",
    "Value",
    "WriteOptions",
    "check_compactable",
    "check_consistent",
    "check_mergeable",
    "check_metadata_kept",
    "check_readable",
    "check_writable",
    "column_stats_by_default",
    "find_option",
    "is_own_strategy",
    "merge_semantics",
    "metadata_by_default",
    "metadata_dropped",
    "metadata_switched_off",
    "metadata_wanted",
    "option",
    "options_page",
    "resolve",
    "timebased",
]
