"""Which version wins: the merge modes, columnar. Arrow tables of record versions enter, winners leave."""

from pudi.merge.deletes import DELETED, check_delete_marker
from pudi.merge.mergers import MergeContext, RecordMerger, register_merger, registered_merger
from pudi.merge.mixing import Mixed, mix
from pudi.merge.overlay import Laid, Overlay, lay_over, overlay
from pudi.merge.rule import MergeMode, MergeRule, PartialUpdate
from pudi.merge.table_rule import merge_rule
from pudi.merge.versions import Versions
from pudi.merge.winners import fold, latest_per_key

__all__ = [
    "DELETED",
    "Laid",
    "MergeContext",
    "MergeMode",
    "MergeRule",
    "Mixed",
    "Overlay",
    "PartialUpdate",
    "RecordMerger",
    "Versions",
    "check_delete_marker",
    "fold",
    "latest_per_key",
    "lay_over",
    "merge_rule",
    "mix",
    "overlay",
    "register_merger",
    "registered_merger",
]
