"""The options of what stays: cleaning, archiving and partition TTL, with Hudi's keys and defaults.

Source: HoodieCleanConfig, HoodieArchivalConfig and HoodieTTLConfig of Apache Hudi 1.2.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from pudi.config.option import Declare, Option, OptionsView, Scope, Status, check_regex, names_in
from pudi.errors import InvalidArgumentError, NotSupportedError

if TYPE_CHECKING:
    from typing_extensions import Self

    from pudi.config.option import Options


class CleanPolicy(str, Enum):
    """Rule by which a clean retains file slices (HoodieCleaningPolicy)."""

    COMMITS = "KEEP_LATEST_COMMITS"
    HOURS = "KEEP_LATEST_BY_HOURS"
    VERSIONS = "KEEP_LATEST_FILE_VERSIONS"

    def retained(self) -> Option[int]:
        """The option that says how many stay."""
        return {
            CleanPolicy.COMMITS: CleanOptions.commits_retained,
            CleanPolicy.HOURS: CleanOptions.hours_retained,
            CleanPolicy.VERSIONS: CleanOptions.versions_retained,
        }[self]


_option = Declare(Scope.WRITE)
_harmless = Declare(Scope.WRITE, Status.HARMLESS)


class CleanOptions(OptionsView):
    """Options of cleaning: the file slices that a clean retains, and the time at which it runs."""

    __slots__ = ()

    automatic = _option(
        "hoodie.clean.automatic",
        "Whether a clean runs after a write. Without it old file slices stay until `Table.clean()`, `pudi clean`, or a "
        "clean by Apache Hudi.",
        default=True,
    )
    run_async = _option(
        "hoodie.clean.async.enabled",
        "Whether the clean after a write runs in a thread of the writer's process, beside the following writes. Hudi's "
        "runs beside the write itself, which waits for it.",
        default=False,
        job_keys=("hoodie.clean.async", "clean.async.enabled"),
    )
    policy = _option(
        "hoodie.clean.policy",
        "What stays: the file slices that the last commits saw, those that the commits of the last hours saw, or a "
        "number of file slices of each file group. The newest one always stays. Without this option, the one number "
        "that is given decides.",
        default="KEEP_LATEST_COMMITS",
        choices=tuple(each.value for each in CleanPolicy),
        job_keys=("hoodie.cleaner.policy", "clean.policy"),
    )
    commits_retained = _option(
        "hoodie.clean.commits.retained",
        "Number of commits whose state of the table stays readable (KEEP_LATEST_COMMITS).",
        default=10,
        minimum=1,
        job_keys=("hoodie.cleaner.commits.retained", "clean.retain_commits"),
    )
    hours_retained = _option(
        "hoodie.clean.hours.retained",
        "Number of hours for which the states of the table stay readable (KEEP_LATEST_BY_HOURS).",
        default=24,
        minimum=1,
        job_keys=("hoodie.cleaner.hours.retained", "clean.retain_hours"),
    )
    versions_retained = _option(
        "hoodie.clean.fileversions.retained",
        "Number of file slices of each file group that stay (KEEP_LATEST_FILE_VERSIONS).",
        default=3,
        minimum=1,
        job_keys=("hoodie.cleaner.fileversions.retained", "clean.retain_file_versions"),
    )
    trigger_commits = _option(
        "hoodie.clean.trigger.max.commits",
        "Number of commits since the last clean after which a write runs the next one.",
        default=1,
        minimum=1,
        job_keys=("hoodie.clean.max.commits",),
    )
    incremental = _option(
        "hoodie.clean.incremental.enabled",
        "Whether a clean only looks at partitions that were written since the last one.",
        default=True,
        job_keys=("hoodie.cleaner.incremental.mode",),
    )
    max_commits = _option(
        "hoodie.clean.max.commits.to.clean",
        "Number of commits whose old file slices one clean deletes at most, counted from the first one that the clean "
        "before it retained; the next clean goes on from there. Without effect by file versions, and in a table's "
        "first clean.",
        default=(1 << 63) - 1,
        minimum=1,
    )
    regex = _option(
        "hoodie.clean.partition.filter.regex",
        "Regular expression that the path of a partition to clean must match as a whole; only with "
        "hoodie.clean.incremental.enabled=false.",
        default="",
        job_keys=("hoodie.cleaner.partition.filter.regex",),
    )
    selected = _option(
        "hoodie.clean.partition.filter.selected",
        "Partition paths to clean, separated by commas, before the regular expression; only with "
        "hoodie.clean.incremental.enabled=false.",
        default="",
        job_keys=("hoodie.cleaner.partition.filter.selected",),
    )
    empty_interval_hours = _option(
        "hoodie.write.empty.clean.interval.hours",
        "Hours after the last clean from which on a clean that finds nothing to delete is written down all the same: "
        "then the next one only looks at partitions that were written since. Never at 0 and below.",
        default=-1,
    )
    before_write = _option(
        "hoodie.prewrite.cleaner.policy",
        "What comes before a write: a clean (CLEAN), so that one runs even if all writes fail. Writes of dead writers "
        "are rolled back before each write anyway, so that ROLLBACK_FAILED_WRITES adds nothing.",
        default="NONE",
        choices=("NONE", "CLEAN", "ROLLBACK_FAILED_WRITES"),
    )
    trigger_strategy = _harmless(
        "hoodie.clean.trigger.strategy",
        "What triggers a clean: a number of commits.",
        default="NUM_COMMITS",
        choices=("NUM_COMMITS",),
    )
    bootstrap = _harmless(
        "hoodie.clean.delete.bootstrap.base.file",
        "Whether files that a bootstrapped table was made from are deleted; pudi writes no such tables.",
        default=False,
        job_keys=("hoodie.cleaner.delete.bootstrap.base.file",),
    )
    local_planning = _harmless(
        "hoodie.clean.optimize.using.local.engine.context",
        "Where a clean is planned; pudi always plans in the process that asks for it.",
        default=True,
    )
    several = Declare(Scope.WRITE, Status.UNSUPPORTED)(
        "hoodie.clean.multiple.enabled",
        "Whether a clean is planned while another one is pending.",
        default=False,
        job_keys=("hoodie.clean.allow.multiple",),
        instead="leave it out: a pending clean is run first",
    )
    parallelism = _option(
        "hoodie.clean.parallelism",
        "Number of jobs at most that delete files in parallel, each of at least 100 files if there are that many: "
        "tasks on Spark, threads on this machine, where at most 16 run at a time. Fewer spare a busy store.",
        default=200,
        minimum=1,
        job_keys=("hoodie.cleaner.parallelism",),
    )

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partition paths to clean; none for those of the regular expression."""
        return names_in(self.selected)

    @classmethod
    def of(cls, options: Options) -> Self:
        """The view of resolved options; without a policy it's that of the one number that is given, as in Hudi.

        Raises:
            InvalidArgumentError: partitions are chosen, although a clean looks at those written since the last one; or
                the regular expression is none.
        """
        view = super().of(options)
        implied = [policy for policy in CleanPolicy if policy.retained().key in view.given]
        if cls.policy.key not in view.given and len(implied) == 1:
            view = cls({**view.given, cls.policy.key: implied[0].value})
        if (view.regex or view.selected) and view.incremental:
            option = cls.selected if view.selected else cls.regex
            raise InvalidArgumentError(f"{option} needs {cls.incremental}=false: partitions are chosen by either")
        check_regex(cls.regex, view.regex)
        return view


class ArchiveOptions(OptionsView):
    """Options of archiving: the number of commits on the active timeline, and the size of the archive."""

    __slots__ = ()

    automatic = _option(
        "hoodie.archive.automatic",
        "Whether old commits move to the archive after a write.",
        default=True,
    )
    run_async = _option(
        "hoodie.archive.async",
        "Whether the archiving after a write runs in a thread of the writer's process, beside the following writes.",
        default=False,
    )
    keep_max_commits = _option(
        "hoodie.keep.max.commits",
        "Number of commits on the active timeline above which older ones are archived. The metadata table keeps one "
        "more. Greater than the number that stays, and raised with it where cleaning retains more commits.",
        default=30,
        minimum=1,
        job_keys=("archive.max_commits",),
    )
    keep_min_commits = _option(
        "hoodie.keep.min.commits",
        "Number of commits that archiving leaves on the active timeline; at least as many as cleaning retains, and two "
        "more. The metadata table keeps one more.",
        default=20,
        minimum=0,
        job_keys=("archive.min_commits",),
    )
    beyond_savepoint = _option(
        "hoodie.archive.beyond.savepoint",
        "Whether commits after the first savepoint are archived too. The commits of savepoints stay, but the table "
        "can't be restored to them any more. Don't set it if Hudi reads the table: Hudi 1.2.0 doesn't find the records "
        "of commits that were archived, by pudi or by Hudi, while one before them stays.",
        default=False,
    )
    after_clean = _option(
        "hoodie.archive.block.on.latest.clean.ectr",
        "Whether commits that the last clean retained stay on the active timeline.",
        default=False,
    )
    files_to_compact = _option(
        "hoodie.timeline.compaction.batch.size",
        "Number of files of one level of the archive that are merged into one file of the next level, from table "
        "version 8 on.",
        default=10,
        minimum=2,
    )
    compacted_file_size = _option(
        "hoodie.timeline.compaction.target.file.max.bytes",
        "Size in bytes at which a merged file of the archive takes no more files.",
        default=1000 << 20,
        minimum=1,
    )
    manifests_retained = _option(
        "hoodie.timeline.manifest.retained.versions",
        "Number of the archive's manifests that stay, for readers that began with an older one.",
        default=3,
        minimum=1,
    )
    delete_parallelism = _harmless(
        "hoodie.archive.delete.parallelism", "Number of parallel deletions of archived instants.", default=100
    )
    batch = _harmless("hoodie.commits.archival.batch", "Number of instants archived together.", default=10)

    @classmethod
    def of(cls, options: Options) -> Self:
        """The view of resolved options.

        Raises:
            InvalidArgumentError: as many commits stay as archiving begins above.
        """
        view = super().of(options)
        if view.keep_min_commits >= view.keep_max_commits:
            raise InvalidArgumentError(
                f"{cls.keep_min_commits} ({view.keep_min_commits}) must be less than {cls.keep_max_commits} "
                f"({view.keep_max_commits})"
            )
        return view


class TtlStrategy(str, Enum):
    """The time from which on the days of a partition count (PartitionTTLStrategyType)."""

    LAST_WRITE = "KEEP_BY_TIME"
    CREATION = "KEEP_BY_CREATION_TIME"


_CLASSES = {
    "org.apache.hudi.table.action.ttl.strategy.KeepByTimeStrategy": TtlStrategy.LAST_WRITE,
    "org.apache.hudi.table.action.ttl.strategy.KeepByCreationTimeStrategy": TtlStrategy.CREATION,
}


class TtlOptions(OptionsView):
    """Options of partition TTL: the age at which partitions are deleted, and the schedule."""

    __slots__ = ()

    inline = _option(
        "hoodie.partition.ttl.inline",
        "Whether partitions whose days are over are deleted after a write.",
        default=False,
        job_keys=("hoodie.partition.ttl.automatic",),
    )
    days = _option(
        "hoodie.partition.ttl.strategy.days.retain",
        "Number of days after which a partition is deleted, with all its records; "
        "at 0 and below none ever is, and `run_ttl` is refused.",
        default=-1,
    )
    strategy = _option(
        "hoodie.partition.ttl.management.strategy.type",
        "Whether the days count from the last commit that wrote to the partition, or from the one that made it.",
        default=TtlStrategy.LAST_WRITE.value,
        choices=tuple(each.value for each in TtlStrategy),
        job_keys=("hoodie.partition.ttl.strategy.type",),
    )
    strategy_class = _option(
        "hoodie.partition.ttl.strategy.class",
        "The class by which Hudi chooses partitions, before the type. pudi only looks the name up in a list.",
    )
    selected = _option(
        "hoodie.partition.ttl.strategy.partition.selected",
        "Partition paths that may be deleted, separated by commas; all without it.",
    )
    most = _option(
        "hoodie.partition.ttl.strategy.max.delete.partitions",
        "Maximum number of partitions that one commit deletes, the oldest first.",
        default=1000,
        minimum=0,
    )

    @property
    def counts_from(self) -> TtlStrategy:
        """The time from which on the days count; a class has the last word, as in Hudi."""
        return _CLASSES[self.strategy_class] if self.strategy_class else TtlStrategy(self.strategy)

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partition paths that may be deleted; none for all."""
        return names_in(self.selected)

    @classmethod
    def of(cls, options: Options) -> Self:
        """The view of resolved options.

        Raises:
            NotSupportedError: a strategy class that pudi doesn't know.
        """
        view = super().of(options)
        if view.strategy_class and view.strategy_class not in _CLASSES:
            raise NotSupportedError(
                f"{cls.strategy_class}={view.strategy_class}: a class is never loaded by name; use one of "
                f"{', '.join(_CLASSES)}"
            )
        return view
