"""Which version wins: the merge modes, columnar. Arrow tables of record versions enter, winners leave."""

from pudi.merge.overlay import Overlay, overlay
from pudi.merge.winners import DELETED, MergeMode, MergeRule, latest_per_key

__all__ = ["DELETED", "MergeMode", "MergeRule", "Overlay", "latest_per_key", "overlay"]
