"""Verbs of a `Table` that end the life of records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pudi.client import CommitResult
from pudi.config import resolve_only
from pudi.config.ttl_options import TtlOptions
from pudi.context.lazy import lazy_module
from pudi.errors import InvalidArgumentError
from pudi.table.base import VerbGroup
from pudi.table.verbs import engine_of

if TYPE_CHECKING:
    from pudi.services import partition_ttl, target
    from pudi.table import forget as forgetting
    from pudi.table.forget import Forgotten
else:
    forgetting = lazy_module("pudi.table.forget")
    partition_ttl = lazy_module("pudi.services.partition_ttl")
    target = lazy_module("pudi.services.target")


class RetentionVerbs(VerbGroup):
    """Verbs of `Table` about retention."""

    def run_ttl(self, *, spark: Any = None, options: Mapping[str, str] | None = None) -> CommitResult | None:
        """Delete the partitions whose days are over, by `hoodie.partition.ttl.strategy.days.retain` and its like.

        As with `delete_partitions`, readers don't see their records any more, and the next cleans delete the files. A
        partition that a pending compaction or clustering works on waits until its plan has been run. `maintain` with
        `dry_run` names the partitions that are due.

        Args:
            spark: a session to run on; None for this machine.
            options: this call's options, over those of the `Table`.

        Returns:
            What was done; None if no partition is due.

        Raises:
            InvalidArgumentError: a wrong option, or no number of days above 0, at which Hudi does nothing.
            NotSupportedError: a strategy that pudi doesn't know, or a table that this release can't write.
            ConflictError: another process wrote to one of the partitions meanwhile; nothing was deleted.
        """
        meta, resolved = self._for_call(options)
        options_of = TtlOptions.of(resolved)
        if options_of.days <= 0:
            raise InvalidArgumentError(
                f"{TtlOptions.days.key} is {options_of.days}: no partition would ever be deleted; give a number "
                "of days above 0",
                table=meta.storage.root,
            )
        meta.reload()
        on = target.ServiceTarget.of_table(meta, engine_of(None, spark), resolved)
        return partition_ttl.PartitionTtl().run(on)

    def forget(
        self,
        where: str,
        *,
        dry_run: bool = False,
        spark: Any = None,
        options: Mapping[str, str] | None = None,
    ) -> Forgotten:
        """Delete records for good: delete them, then compact and clean until no file of the table holds them.

        All versions of the records go that match `where` now, and those of records that were deleted before and once
        matched. Of records that are in the table and don't match any more, the versions that matched go. For that,
        pending plans are run, file groups whose log files hold some are compacted, and older slices of the whole table
        are deleted: earlier states of the table can't be read afterwards. Before and after, every file on storage is
        read, those of the metadata table too. Savepoints are left alone; the result says what they keep.

        Args:
            where: SQL predicate.
            dry_run: change nothing, and say which files hold the records.
            spark: a session to run on; None for this machine.
            options: this call's options, over those of the `Table`. Where a clean's retention is given here
                (`hoodie.clean.policy`, `hoodie.clean.commits.retained`, …), older slices stay as long as it says.

        Returns:
            What was done, and each file that still holds some, with what keeps it; `ok` is true without any.

        Raises:
            InvalidArgumentError: an unknown column, or a wrong predicate.
            NotSupportedError: SQL beyond the subset, or a table that this release can't write.
            ConflictError: other writers won; nothing was deleted.
        """
        meta, resolved = self._for_call(options)
        retains = bool(resolve_only(options or {}, forgetting.RETENTION).given)
        engine, on_cluster = engine_of(None, spark), spark is not None
        return forgetting.forget(meta, engine, resolved, where, dry_run=dry_run, retains=retains, on_cluster=on_cluster)
