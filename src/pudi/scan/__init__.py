"""A lazy read, pinned to a timeline, and the forms of its result."""

from pudi.scan.cdc_feed import ChangeFeed, change_feed
from pudi.scan.queries import changes_scan, snapshot_scan
from pudi.scan.scan import Scan

__all__ = ["ChangeFeed", "Scan", "change_feed", "changes_scan", "snapshot_scan"]
