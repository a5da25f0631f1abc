"""A read, lazy and pinned to the timeline: what it will bring, and the forms it can be had in."""

from pudi.scan.scan import Scan
from pudi.scan.sources import changes_scan, snapshot_scan

__all__ = ["Scan", "changes_scan", "snapshot_scan"]
