"""Verbs of a `Table` that read single instants: the metadata of commits, the content of others, plans of services."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pudi.errors import InvalidArgumentError, NotFoundError
from pudi.filegroup.compactions import compaction_plan
from pudi.format import Action, CommitMetadata, State
from pudi.format.clustering_plan import decode_clustering_plan
from pudi.table.base import VerbGroup
from pudi.timeline import Instant, Timeline


@dataclass(frozen=True, slots=True)
class ServicePlan:
    """A plan of a compaction or clustering.

    Attributes:
        instant: its requested time.
        state: `REQUESTED`, `INFLIGHT` or `COMPLETED`.
        groups: the file slices that a compaction merges, the groups of them that a clustering brings together.
        partitions: their partition paths, sorted.
    """

    instant: str
    state: str
    groups: int
    partitions: tuple[str, ...]


class InstantVerbs(VerbGroup):
    """Verbs of `Table` about instants."""

    def commit_metadata(self, instant: str) -> CommitMetadata:
        """Return the metadata of a completed write, archived ones included.

        Args:
            instant: its requested time.

        Raises:
            NotFoundError: there is no such write.
            CorruptError: it can't be read.
        """
        return self._meta.store.read_commit_metadata(self._found(instant, writes=True))

    def instant_content(self, instant: str) -> Mapping[str, Any]:
        """Return the content of a completed instant that is no write, by Avro's names: a clean, rollback, ….

        Args:
            instant: its requested time.

        Raises:
            NotFoundError: there is no such instant.
            CorruptError: it can't be read.
        """
        return self._meta.store.decoded(self._found(instant, writes=False))

    def service_plans(self, service: str) -> list[ServicePlan]:
        """The plans of a service on the active timeline, newest first, pending and completed ones.

        Args:
            service: `compaction` or `clustering`.

        Raises:
            InvalidArgumentError: another service.
            CorruptError: a plan can't be read.
        """
        timeline = self._meta.store.load()
        if service == "compaction":
            found = self._compactions(timeline)
        elif service == "clustering":
            found = self._clusterings(timeline)
        else:
            raise InvalidArgumentError(f"plans of {service!r}: it is compaction or clustering")
        return sorted(found, key=lambda plan: plan.instant, reverse=True)

    def _compactions(self, timeline: Timeline) -> list[ServicePlan]:
        store, plans = self._meta.store, []
        for instant in timeline.of(Action.COMPACTION, State.REQUESTED, State.INFLIGHT):
            groups = [operation.group for operation in compaction_plan(store, instant).operations]
            plans.append(_plan(instant, len(groups), {partition for partition, _ in groups}))
        for instant in timeline.of(Action.COMMIT) if self._meta.merges_on_read else ():
            metadata = store.read_commit_metadata(instant)
            files = metadata.partition_to_write_stats
            plans.append(_plan(instant, sum(map(len, files.values())), {p for p, stats in files.items() if stats}))
        return plans

    def _clusterings(self, timeline: Timeline) -> list[ServicePlan]:
        store, plans = self._meta.store, []
        completed = [
            replace(instant, action=Action.CLUSTERING)
            for instant in timeline.of(Action.REPLACECOMMIT)
            if store.read_commit_metadata(instant).operation_type == "CLUSTER"
        ]
        pending = timeline.of(Action.CLUSTERING, State.REQUESTED, State.INFLIGHT)
        for instant in (*completed, *pending):
            path = store.path(instant, State.REQUESTED)
            plan = decode_clustering_plan(store.read(instant, State.REQUESTED), path=path)
            plans.append(_plan(instant, len(plan.groups), {each.partition_path for each in plan.slices}))
        return plans

    def _found(self, instant: str, *, writes: bool) -> Instant:
        def find(instants: Iterable[Instant]) -> Instant | None:
            found = (each for each in instants if each.requested == instant and each.is_completed)
            return next((each for each in found if each.is_write == writes), None)

        store = self._meta.store
        known = find(store.load().instants) or find(store.archived())
        if known is not None:
            return known
        raise NotFoundError(
            f"there is no completed {'write' if writes else 'action'} {instant}", table=self._meta.storage.root
        )


def _plan(instant: Instant, groups: int, partitions: set[str]) -> ServicePlan:
    return ServicePlan(instant.requested, instant.state.name, groups, tuple(sorted(partitions)))
