"""The options of cleaning, with Hudi's keys and defaults (HoodieCleanConfig of 1.2)."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING

from pudi.config.option import Declare, Option, OptionsView, Scope, Status, names_in
from pudi.errors import InvalidArgumentError

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
        try:
            re.compile(view.regex)
        except re.error as error:
            raise InvalidArgumentError(f"{cls.regex}={view.regex!r} is no regular expression: {error}") from error
        return view
