"""Time, ids, chance, threads and caches, and the protocols of storage and locks that everything above shares."""

from pudi.context.clock import Clock, Context, ManualClock, SystemClock
from pudi.context.executor import Background, Executor, Mutex, ThreadExecutor, Timer
from pudi.context.protocols import FileInfo, Lock, OneProcessLock, ServiceLock, Storage
from pudi.context.recent import RecentValues
from pudi.context.runtime import collector_paused

__all__ = [
    "Background",
    "Clock",
    "Context",
    "Executor",
    "FileInfo",
    "Lock",
    "ManualClock",
    "Mutex",
    "OneProcessLock",
    "RecentValues",
    "ServiceLock",
    "Storage",
    "SystemClock",
    "ThreadExecutor",
    "Timer",
    "collector_paused",
]
