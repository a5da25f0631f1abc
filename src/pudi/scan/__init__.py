"""A lazy read, pinned to a timeline, and the forms of its result."""

from pudi.scan.change_feed import ChangeFeed, change_feed
from pudi.scan.scan import Scan
from pudi.scan.sources import changes_scan, snapshot_scan

__all__ = ["ChangeFeed", "Scan", "change_feed", "changes_scan", "snapshot_scan"]
