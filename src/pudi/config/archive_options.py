"""The options of archiving, with Hudi's keys and defaults (HoodieArchivalConfig of 1.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pudi.config.option import Declare, OptionsView, Scope, Status
from pudi.errors import InvalidArgumentError

if TYPE_CHECKING:
    from typing_extensions import Self

    from pudi.config.option import Options

_option = Declare(Scope.WRITE)
_harmless = Declare(Scope.WRITE, Status.HARMLESS)


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
