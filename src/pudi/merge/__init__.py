"""Decide which version of a record wins, on whole Arrow columns."""

from pudi.merge.deletes import DELETED, check_delete_marker
from pudi.merge.merge_rule import MergeRule, merge_rule
from pudi.merge.mergers import MergeContext, RecordMerger, register_merger, registered_merger
from pudi.merge.ordering_values import unordered
from pudi.merge.overlay import MergeResult, Overlay, apply_updates, overlay
from pudi.merge.partial_update import Mixed, mix
from pudi.merge.versions import Versions
from pudi.merge.winners import fold, latest_per_key

__all__ = [
    "DELETED",
    "MergeContext",
    "MergeResult",
    "MergeRule",
    "Mixed",
    "Overlay",
    "RecordMerger",
    "Versions",
    "apply_updates",
    "check_delete_marker",
    "fold",
    "latest_per_key",
    "merge_rule",
    "mix",
    "overlay",
    "register_merger",
    "registered_merger",
    "unordered",
]
