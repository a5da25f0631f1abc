"""What time is it: the clock, ids and chance, and the protocols of storage and locks that everything above shares."""

from pudi.context.clock import Clock, Context, ManualClock, SystemClock
from pudi.context.collector import collector_held
from pudi.context.lock import Lock, OneProcessLock
from pudi.context.storage import FileInfo, Storage

__all__ = [
    "Clock",
    "Context",
    "FileInfo",
    "Lock",
    "ManualClock",
    "OneProcessLock",
    "Storage",
    "SystemClock",
    "collector_held",
]
