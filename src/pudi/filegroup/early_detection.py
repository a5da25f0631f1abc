"""Early conflict detection: another writer's markers and commits in, an error before the work on a file group out.

Source: EarlyConflictDetectionStrategy, SimpleDirectMarkerBasedDetectionStrategy and MarkerUtils of Apache Hudi 1.2.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from pudi.context import Storage
from pudi.errors import ConflictError, CorruptError, NotFoundError, NotSupportedError
from pudi.filegroup.markers import Markers
from pudi.format import FileGroupId, parse_data_file
from pudi.timeline import TimelinePlace

_SAME_RECORDS = frozenset({"COMPACT", "LOG_COMPACT"})


def marked_groups(storage: Storage, instant: str) -> set[FileGroupId]:
    """File groups that a write has marked, by partition and file id; none if its markers can't be read."""
    paths: list[str] = []
    with suppress(CorruptError, NotFoundError, NotSupportedError):  # what is wrong with them its commit tells
        paths = Markers(storage, instant).all_files()
    split = (path.rpartition("/") for path in paths)
    parsed = ((folder, parse_data_file(name)) for folder, _, name in split)
    return {FileGroupId(folder, name.file_id) for folder, name in parsed if name is not None}


@dataclass(frozen=True, slots=True)
class EarlyDetection:
    """Check of a task before it works on a file group; picklable.

    Attributes:
        instant: requested time of the write.
        earlier: requested times of the writes that were pending, with heartbeats, when this one began. Of two
            writers the later one gives way, as in Hudi.
        completed: requested times of the commits that this write was planned from; None where commits aren't compared.
        timeline: where the timeline is.
    """

    instant: str
    earlier: tuple[str, ...]
    completed: frozenset[str] | None
    timeline: TimelinePlace

    def check(self, storage: Storage, partition: str, file_id: str) -> None:
        """Look for another writer of a file group.

        Raises:
            ConflictError: there is one.
        """
        for instant in self.earlier:
            if (partition, file_id) in marked_groups(storage, instant):
                raise self._conflict(storage, partition, file_id, f"write {instant}, which began earlier, also writes")
        if self.completed is not None:
            self._check_commits(storage, self.completed, partition, file_id)

    def _check_commits(self, storage: Storage, completed: frozenset[str], partition: str, file_id: str) -> None:
        store = self.timeline.open(storage)
        for each in store.load().commits:
            if each.requested in completed or each.requested == self.instant:
                continue
            done = store.read_commit_metadata(each)
            if done.operation_type in _SAME_RECORDS:
                continue
            written = {stat.file_id for stat in done.partition_to_write_stats.get(partition, ())}
            if file_id in written or file_id in (done.partition_to_replace_file_ids or {}).get(partition, ()):
                raise self._conflict(
                    storage, partition, file_id, f"commit {each.requested}, completed meanwhile, also wrote"
                )

    def _conflict(self, storage: Storage, partition: str, file_id: str, who: str) -> ConflictError:
        return ConflictError(
            f"{who} file group {file_id} of partition {partition!r}: found early, so that this write needn't go on; "
            "nothing of it is visible; read the table again and retry",
            table=storage.root,
            instant=self.instant,
        )
