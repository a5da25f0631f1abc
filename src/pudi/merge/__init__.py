"""Which version wins: the merge modes, columnar. Arrow tables of record versions enter, winners leave."""

from pudi.merge.deletes import DELETED, check_delete_marker
from pudi.merge.overlay import Overlay, overlay
from pudi.merge.winners import MergeMode, MergeRule, latest_per_key

__all__ = ["DELETED", "MergeMode", "MergeRule", "Overlay", "check_delete_marker", "latest_per_key", "overlay"]
