"""The options of cleaning, with Hudi's keys and defaults (HoodieCleanConfig of 1.2)."""

from __future__ import annotations

from enum import Enum

from pudi.config.option import Declare, Option, OptionsView, Scope, Status


class CleanPolicy(str, Enum):
    """What a clean keeps (HoodieCleaningPolicy)."""

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
    """Which file slices stay, and when a clean runs."""

    __slots__ = ()

    automatic = _option(
        "hoodie.clean.automatic",
        "Whether a clean runs after a write. Without it old file slices stay until `Table.clean()`, `pudi clean`, or a "
        "clean by Apache Hudi.",
        default=True,
    )
    policy = _option(
        "hoodie.clean.policy",
        "What stays: the file slices that the last commits saw, those that the commits of the last hours saw, or a "
        "number of file slices of each file group. The newest one always stays.",
        default="KEEP_LATEST_COMMITS",
        choices=tuple(each.value for each in CleanPolicy),
        job_keys=("hoodie.cleaner.policy",),
    )
    commits_retained = _option(
        "hoodie.clean.commits.retained",
        "Number of commits whose state of the table stays readable (KEEP_LATEST_COMMITS).",
        default=10,
        minimum=1,
        job_keys=("hoodie.cleaner.commits.retained",),
    )
    hours_retained = _option(
        "hoodie.clean.hours.retained",
        "Number of hours for which the states of the table stay readable (KEEP_LATEST_BY_HOURS).",
        default=24,
        minimum=1,
        job_keys=("hoodie.cleaner.hours.retained",),
    )
    versions_retained = _option(
        "hoodie.clean.fileversions.retained",
        "Number of file slices of each file group that stay (KEEP_LATEST_FILE_VERSIONS).",
        default=3,
        minimum=1,
        job_keys=("hoodie.cleaner.fileversions.retained",),
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
    trigger_strategy = _harmless(
        "hoodie.clean.trigger.strategy", "What triggers a clean: a number of commits.", default="NUM_COMMITS"
    )
    parallelism = _harmless(
        "hoodie.clean.parallelism",
        "Number of parallel deletions.",
        default=200,
        job_keys=("hoodie.cleaner.parallelism",),
    )
