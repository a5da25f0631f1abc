"""The typed view of a compaction's options."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pudi.config.compaction_registry import STRATEGIES
from pudi.config.resolve import Options
from pudi.errors import InvalidArgumentError, NotSupportedError

_PACKAGE = "org.apache.hudi.table.action.compact.strategy."
_SUFFIX = "CompactionStrategy"


@dataclass(frozen=True, slots=True)
class CompactionOptions:
    """What to compact, and when.

    Attributes:
        services: whether anything follows writes.
        inline: whether a write is followed by a compaction.
        schedule_inline: whether a write plans a compaction.
        log_inline: whether a write is followed by a log compaction.
        trigger: what has to be reached, by Hudi's name.
        max_delta_commits: delta commits after which it is.
        max_delta_seconds: seconds after which it is.
        strategies: Hudi's strategies, without package, applied one after the other.
        target_io_mb: megabytes that one compaction reads and writes at most.
        log_size_threshold: bytes of log files from which a slice counts.
        log_files_threshold: log files from which it does.
        days: days that strategies by day take or leave.
        partition_regex: which partitions are compacted; None for all.
        log_blocks_threshold: log files or blocks from which a log compaction takes a slice.
        verify: whether what was written is compared before it's published.
    """

    services: bool
    inline: bool
    schedule_inline: bool
    log_inline: bool
    trigger: str
    max_delta_commits: int
    max_delta_seconds: int
    strategies: tuple[str, ...]
    target_io_mb: int
    log_size_threshold: int
    log_files_threshold: int
    days: int
    partition_regex: str | None
    log_blocks_threshold: int
    verify: bool

    @classmethod
    def of(cls, options: Options) -> CompactionOptions:
        """The view of resolved options.

        Raises:
            InvalidArgumentError: no strategy is named, or the regular expression is none.
            NotSupportedError: a strategy that isn't Hudi's own.
        """
        regex = options.optional_text("hoodie.compaction.partition.path.regex") or None
        strategies = tuple(strategy_of(name) for name in options.text("hoodie.compaction.strategy").split(","))
        _check_regex(regex, strategies)
        return cls(
            services=options.flag("hoodie.table.services.enabled"),
            inline=options.flag("hoodie.compact.inline"),
            schedule_inline=options.flag("hoodie.compact.schedule.inline"),
            log_inline=options.flag("hoodie.log.compaction.inline"),
            trigger=options.text("hoodie.compact.inline.trigger.strategy"),
            max_delta_commits=options.integer("hoodie.compact.inline.max.delta.commits"),
            max_delta_seconds=options.integer("hoodie.compact.inline.max.delta.seconds"),
            strategies=strategies,
            target_io_mb=options.integer("hoodie.compaction.target.io"),
            log_size_threshold=options.integer("hoodie.compaction.logfile.size.threshold"),
            log_files_threshold=options.integer("hoodie.compaction.logfile.num.threshold"),
            days=options.integer("hoodie.compaction.daybased.target.partitions"),
            partition_regex=regex,
            log_blocks_threshold=options.integer("hoodie.log.compaction.blocks.threshold"),
            verify=options.flag("pudi.compaction.verify"),
        )


def strategy_of(name: str) -> str:
    """Hudi's strategy of that class name, with or without its package or the words that all end in, in any case.

    Raises:
        InvalidArgumentError: there is no name.
        NotSupportedError: it's none of Hudi's.
    """
    short = name.strip().removeprefix(_PACKAGE)
    if not short:
        raise InvalidArgumentError("hoodie.compaction.strategy names no strategy")
    for known in STRATEGIES:
        if short.lower() in {known.lower(), known.removesuffix(_SUFFIX).lower()}:
            return known
    raise NotSupportedError(
        f"hoodie.compaction.strategy={name.strip()}: a class is never loaded by name; use one of "
        f"{', '.join(STRATEGIES)}"
    )


def _check_regex(regex: str | None, strategies: tuple[str, ...]) -> None:
    key = "hoodie.compaction.partition.path.regex"
    if regex is None:
        if "PartitionRegexBasedCompactionStrategy" in strategies:
            raise InvalidArgumentError(f"PartitionRegexBasedCompactionStrategy needs {key}")
        return
    try:
        re.compile(regex)
    except re.error as error:
        raise InvalidArgumentError(f"{key}={regex!r} is no regular expression: {error}") from error
