"""The options of compaction and log compaction, with Hudi's keys and defaults (HoodieCompactionConfig of 1.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pudi.config.option import Declare, OptionsView, Scope, Status, check_regex
from pudi.errors import InvalidArgumentError, NotSupportedError

if TYPE_CHECKING:
    from typing_extensions import Self

    from pudi.config.option import Options

_PACKAGE = "org.apache.hudi.table.action.compact.strategy."
_SUFFIX = "CompactionStrategy"

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

_option = Declare(Scope.WRITE)
_harmless = Declare(Scope.WRITE, Status.HARMLESS)


class CompactionOptions(OptionsView):
    """Options of compaction: the file slices to compact, and the schedule."""

    __slots__ = ()

    services = _option(
        "hoodie.table.services.enabled",
        "Whether table services run after writes. Explicit calls ignore it.",
        default=True,
    )
    inline = _option(
        "hoodie.compact.inline",
        "Whether a compaction runs after a write to a merge-on-read table, if the trigger is reached.",
        default=False,
    )
    schedule_inline = _option(
        "hoodie.compact.schedule.inline",
        "Whether a write schedules a compaction for another process to run, if the trigger is reached and none is "
        "pending.",
        default=False,
    )
    run_async = _option(
        "hoodie.datasource.compaction.async.enable",
        "Whether a write schedules a compaction, if the trigger is reached, and a thread of the writer's process runs "
        "it beside the following writes. hoodie.compact.inline goes before it. By default only in streams "
        "(`pudi.spark.batch_writer`), as in Hudi.",
        kind=bool,
        job_keys=("compaction.async.enabled",),
    )
    not_in_streams = _option(
        "hoodie.datasource.write.streaming.disable.compaction",
        "Whether a stream leaves compactions to another process.",
        default=False,
    )
    exit_seconds = _option(
        "pudi.services.async.exit.seconds",
        "Seconds that the end of a program waits for services that run beside writes. A plan that isn't done by then "
        "is left for the next writer.",
        default=60,
        minimum=0,
    )
    trigger = _option(
        "hoodie.compact.inline.trigger.strategy",
        "Trigger of a compaction: a number of deltacommits since the last compaction (or the last one scheduled), a "
        "time since then, both, or either. An explicit compaction uses it only if the call sets it.",
        default="NUM_COMMITS",
        choices=TRIGGERS,
        job_keys=("compaction.trigger.strategy",),
    )
    max_delta_commits = _option(
        "hoodie.compact.inline.max.delta.commits",
        "Number of deltacommits that triggers a compaction.",
        default=5,
        minimum=1,
        job_keys=("compaction.delta_commits",),
    )
    max_delta_seconds = _option(
        "hoodie.compact.inline.max.delta.seconds",
        "Number of seconds that triggers a compaction.",
        default=3600,
        minimum=0,
        job_keys=("compaction.delta_seconds",),
    )
    strategy = _option(
        "hoodie.compaction.strategy",
        "Which file slices a compaction takes, in which order: class names of Hudi's strategies, with or without "
        "package, applied one after the other if separated by commas. LogFileSizeBased: largest logs first. "
        "LogFileNumBased: most log files first. BoundedIO: in order, up to an amount of I/O. DayBased: the newest date "
        "partitions. BoundedPartitionAware: date partitions of a minimum age in days. UnBoundedPartitionAware: the "
        "younger ones. UnBounded: all. PartitionRegexBased: partitions that match a regular expression.",
        default="LogFileSizeBasedCompactionStrategy",
    )
    target_io_mb = _option(
        "hoodie.compaction.target.io",
        "Maximum megabytes that one compaction reads and writes.",
        default=500 * 1024,
        minimum=0,
        job_keys=("compaction.target_io",),
    )
    log_size_threshold = _option(
        "hoodie.compaction.logfile.size.threshold",
        "Minimum bytes of log files of a slice to compact (LogFileSizeBased).",
        default=0,
        minimum=0,
    )
    log_files_threshold = _option(
        "hoodie.compaction.logfile.num.threshold",
        "Minimum number of log files of a slice to compact (LogFileNumBased).",
        default=0,
        minimum=0,
    )
    days = _option(
        "hoodie.compaction.daybased.target.partitions",
        "Number of partitions that DayBased takes; minimum age in days for BoundedPartitionAware.",
        default=10,
        minimum=0,
    )
    regex = _option(
        "hoodie.compaction.partition.path.regex",
        "Regular expression that must match part of the partition path (PartitionRegexBased).",
    )
    verify = _option(
        "pudi.compaction.verify",
        "Whether a compaction reads each written file back and compares it with the merged slice before it completes.",
        default=False,
    )
    log_inline = _option(
        "hoodie.log.compaction.inline",
        "Whether a log compaction of slices with many log blocks runs after a write.",
        default=False,
    )
    log_compaction = _harmless(
        "hoodie.log.compaction.enable",
        "Whether log compaction is allowed in Hudi's metadata table.",
        default=False,
    )
    log_blocks_threshold = _option(
        "hoodie.log.compaction.blocks.threshold",
        "Minimum number of log files or blocks of a slice, and of deltacommits, for a log compaction.",
        default=5,
        minimum=1,
    )

    @property
    def strategies(self) -> tuple[str, ...]:
        """Hudi's strategies, without package, applied one after the other."""
        return tuple(strategy_of(name) for name in self.strategy.split(","))

    @property
    def partition_regex(self) -> str | None:
        """Return the pattern of the partitions to compact; None for all."""
        return self.regex or None

    @classmethod
    def of(cls, options: Options) -> Self:
        """The view of resolved options.

        Raises:
            InvalidArgumentError: no strategy is named, or the regular expression is none.
            NotSupportedError: a strategy that isn't Hudi's own.
        """
        view = super().of(options)
        if "PartitionRegexBasedCompactionStrategy" in view.strategies and view.partition_regex is None:
            raise InvalidArgumentError(f"PartitionRegexBasedCompactionStrategy needs {cls.regex}")
        check_regex(cls.regex, view.regex or "")
        return view


def strategy_of(name: str) -> str:
    """Hudi's strategy of that class name, with or without its package or the words that all end in, in any case.

    Raises:
        InvalidArgumentError: there is no name.
        NotSupportedError: Hudi has no strategy of that name.
    """
    short = name.strip().removeprefix(_PACKAGE)
    if not short:
        raise InvalidArgumentError(f"{CompactionOptions.strategy} names no strategy")
    for known in STRATEGIES:
        if short.lower() in {known.lower(), known.removesuffix(_SUFFIX).lower()}:
            return known
    raise NotSupportedError(
        f"{CompactionOptions.strategy}={name.strip()}: a class is never loaded by name; use one of "
        f"{', '.join(STRATEGIES)}"
    )
