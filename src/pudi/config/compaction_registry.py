"""Every setting of compaction and log compaction, with Hudi's keys and defaults (HoodieCompactionConfig of 1.2)."""

from __future__ import annotations

from functools import partial

from pudi.config.option import Option, Scope, Status

_setting = partial(Option, scope=Scope.WRITE)
_flag = partial(_setting, kind=bool)
_count = partial(_setting, kind=int)

STRATEGIES: tuple[str, ...] = (
    "LogFileSizeBasedCompactionStrategy",
    "LogFileNumBasedCompactionStrategy",
    "BoundedIOCompactionStrategy",
    "DayBasedCompactionStrategy",
    "BoundedPartitionAwareCompactionStrategy",
    "UnBoundedCompactionStrategy",
    "UnBoundedPartitionAwareCompactionStrategy",
    "PartitionRegexBasedCompactionStrategy",
)
"""Names of Hudi's strategies, without their package."""

TRIGGERS: tuple[str, ...] = (
    "NUM_COMMITS",
    "NUM_COMMITS_AFTER_LAST_REQUEST",
    "TIME_ELAPSED",
    "NUM_AND_TIME",
    "NUM_OR_TIME",
)
"""When a write plans a compaction (CompactionTriggerStrategy)."""

COMPACTION_OPTIONS: tuple[Option, ...] = (
    _flag(
        key="hoodie.table.services.enabled",
        doc="Whether compactions follow writes at all; those that are called for don't look at it.",
        default=True,
    ),
    _flag(
        key="hoodie.compact.inline",
        doc="Whether a write to a merge-on-read table is followed by a compaction, when the trigger says so.",
        default=False,
    ),
    _flag(
        key="hoodie.compact.schedule.inline",
        doc="Whether a write plans a compaction, for another process to run, when none is pending and the trigger "
        "says so.",
        default=False,
    ),
    _setting(
        key="hoodie.compact.inline.trigger.strategy",
        doc="What has to be reached for a write to plan a compaction: a number of delta commits since the last "
        "compaction (or the last one planned), a time since then, both or either. A compaction that is called for "
        "looks at it only where the call gives it.",
        default="NUM_COMMITS",
        choices=TRIGGERS,
    ),
    _count(
        key="hoodie.compact.inline.max.delta.commits",
        doc="Delta commits after which a compaction is planned.",
        default=5,
        minimum=1,
    ),
    _count(
        key="hoodie.compact.inline.max.delta.seconds",
        doc="Seconds after which a compaction is planned.",
        default=3600,
        minimum=0,
    ),
    _setting(
        key="hoodie.compaction.strategy",
        doc="Which file slices a compaction takes, in what order: one of Hudi's strategies by class name, with or "
        "without package, or several, applied one after the other, separated by commas. By the size of log files, the "
        "largest first; by their number; as they come up to an amount of I/O (BoundedIO); the newest days, or all "
        "but them, of partitions that are dates; all (UnBounded); partitions that match a regular expression.",
        default="LogFileSizeBasedCompactionStrategy",
    ),
    _count(
        key="hoodie.compaction.target.io",
        doc="Megabytes that one compaction reads and writes at most.",
        default=500 * 1024,
        minimum=0,
    ),
    _count(
        key="hoodie.compaction.logfile.size.threshold",
        doc="Bytes of log files from which a slice is compacted (LogFileSizeBased).",
        default=0,
        minimum=0,
    ),
    _count(
        key="hoodie.compaction.logfile.num.threshold",
        doc="Log files from which a slice is compacted (LogFileNumBased).",
        default=0,
        minimum=0,
    ),
    _count(
        key="hoodie.compaction.daybased.target.partitions",
        doc="Days that strategies by day take, or leave.",
        default=10,
        minimum=0,
    ),
    _setting(
        key="hoodie.compaction.partition.path.regex",
        doc="Regular expression that is found in the paths of partitions to compact (PartitionRegexBased).",
    ),
    _flag(
        key="pudi.compaction.verify",
        doc="Whether a compaction reads what it wrote and compares it with the merged slice before it's published.",
        default=False,
    ),
    _flag(
        key="hoodie.log.compaction.inline",
        doc="Whether a write is followed by a log compaction of the slices that have many log blocks.",
        default=False,
    ),
    _flag(
        key="hoodie.log.compaction.enable",
        doc="Whether log compaction is allowed in Hudi's metadata table; nothing here.",
        status=Status.HARMLESS,
        default=False,
    ),
    _count(
        key="hoodie.log.compaction.blocks.threshold",
        doc="Log files or blocks of a slice, and delta commits, from which a log compaction takes it.",
        default=5,
        minimum=1,
    ),
)  # fmt: skip
"""In the order of the option page."""
