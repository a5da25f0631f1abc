"""Verbs of a `Table` that end the life of records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pudi.action import CommitResult, MetaClient
from pudi.config import Options
from pudi.context.lazy import lazy_module
from pudi.table.verbs import engine_of

if TYPE_CHECKING:
    from pudi.action.services import partition_ttl, target
else:
    partition_ttl = lazy_module("pudi.action.services.partition_ttl")
    target = lazy_module("pudi.action.services.target")


class Retention:
    """What `Table` inherits these verbs from."""

    _meta: MetaClient

    def _for_call(self, options: Mapping[str, str] | None) -> tuple[MetaClient, Options]:
        raise NotImplementedError

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
            InvalidArgumentError: a wrong option.
            NotSupportedError: a strategy that pudi doesn't know, or a table that this release can't write.
            ConflictError: somebody wrote to one of the partitions meanwhile; nothing was deleted.
        """
        meta, resolved = self._for_call(options)
        meta.reload()
        on = target.ServiceTarget.of_table(meta, engine_of(None, spark), resolved)
        return partition_ttl.PartitionTtl().run(on)
