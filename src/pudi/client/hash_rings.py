"""Hash rings of a consistent bucket index: read before a write, created for new partitions, overwrites, clusterings.

Files of rings that count are never deleted, as in Hudi: readers of earlier states of the timeline may need them.

Source: ConsistentBucketIndexUtils.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from posixpath import basename

from pudi.client.meta_client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.config import IndexOptions
from pudi.errors import BlockedError, CorruptError, NotSupportedError, PudiError, TableExistsError
from pudi.format import CONSISTENT_HASHING_DIR, MaxBytes
from pudi.format.hashing import COMMIT_SUFFIX, FIRST_INSTANT, HASHING_SUFFIX, Ring, decode_ring, encode_ring
from pudi.plan import Operation
from pudi.storage import delete_for_good
from pudi.tagging import AnyBuckets, ConsistentBuckets, Index

_log = logging.getLogger(__name__)


def read_rings(snapshot: TableSnapshot, paths: Iterable[str]) -> dict[str, Ring]:
    """Return the hash ring of each partition that has one.

    Args:
        snapshot: the table.
        paths: the files in the folder of hashing metadata.

    Raises:
        CorruptError: hashing metadata can't be read.
        NotSupportedError: it's unknown whether a ring of a lost instant counts.
    """
    names: dict[str, list[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        partition = folder.removeprefix(CONSISTENT_HASHING_DIR).removeprefix("/")
        names.setdefault(partition, []).append(name)
    chosen = {p: _valid(snapshot, p, each) for p, each in names.items()}
    files = [(partition, f"{_folder(partition)}/{name}") for partition, name in chosen.items() if name is not None]
    rings = snapshot.meta.context.executor.map(
        lambda file: decode_ring(snapshot.meta.storage.read(file[1], MaxBytes.HASHING), path=file[1]), files
    )
    return {partition: ring for (partition, _), ring in zip(files, rings, strict=True)}


def renewed_index(meta: MetaClient, index: Index, replaced: Mapping[str, Sequence[str]]) -> Index:
    """Return the index of a write that replaces file groups: a consistent bucket index gets rings with new file ids.

    Readers would ignore files with the old ids, since a replacecommit replaced them.

    Args:
        meta: the table.
        index: the table's index.
        replaced: the replaced file groups by partition path.
    """
    if not isinstance(index.buckets, ConsistentBuckets):
        return index
    partitions = replaced_partitions(replaced)
    return replace(index, buckets=index.buckets.renewed(partitions, meta.context.new_id()))


def write_rings(meta: MetaClient, instant: str, buckets: AnyBuckets | None, partitions: Iterable[str]) -> None:
    """Write the new rings of some partitions; they take effect when the instant completes.

    If it never completes, readers ignore the files. A plan that is run again writes the same ones.

    Args:
        meta: the table.
        instant: requested time of the overwrite or clustering.
        buckets: the buckets with the new rings; nothing is done for other indexes.
        partitions: paths of the partitions whose rings are new.
    """
    if isinstance(buckets, ConsistentBuckets):
        for partition in sorted(partitions):
            ring = encode_ring(partition, buckets.ring(partition), instant)
            meta.storage.put(f"{_folder(partition)}/{instant}{HASHING_SUFFIX}", ring, durable=True)


def reconcile_hash_rings(meta: MetaClient, instant: str, buckets: AnyBuckets | None, partitions: Iterable[str]) -> None:
    """Mark the rings of a completed commit as valid, also after its instant is archived (createCommitMarker).

    Arguments as of `write_rings`.
    """
    if not isinstance(buckets, ConsistentBuckets):
        return
    try:
        for partition in sorted(partitions):
            meta.storage.put(f"{_folder(partition)}/{instant}{COMMIT_SUFFIX}", b"", durable=True)
    except PudiError as error:  # the commit is completed; as long as it is on the timeline, its ring is valid anyway
        _log.warning("it could not be written down that the new buckets of commit %s count: %s", instant, error)


def replaced_partitions(replaced: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the paths of partitions whose file groups were replaced."""
    return [partition for partition, ids in replaced.items() if ids]


def discard_rings(meta: MetaClient, instant: str) -> None:
    """Delete the rings that an overwrite or clustering wrote, before it is rolled back; there may be none.

    Apache Hudi leaves them, and may later take one for valid that shares buckets with the ring that counts.

    Args:
        meta: the table.
        instant: requested time of the overwrite or clustering.
    """
    names = (f"{instant}{COMMIT_SUFFIX}", f"{instant}{HASHING_SUFFIX}")
    found = [info.path for info in meta.storage.list(CONSISTENT_HASHING_DIR)]
    delete_for_good(meta.storage, sorted(path for path in found if basename(path) in names))


def make_rings(meta: MetaClient, operation: Operation, index: Index, partitions: Iterable[str]) -> None:
    """Create hash rings for partitions that get records and have none; only with consistent hashing.

    Concurrent writers create equal rings.

    Raises:
        ConflictError: another writer created a ring with another number of buckets meanwhile.
    """
    buckets = index.buckets
    if operation is Operation.DELETE or not isinstance(buckets, ConsistentBuckets):
        return
    for partition in sorted(partitions):
        if partition in buckets.rings:
            continue
        path, ring = f"{_folder(partition)}/{FIRST_INSTANT}{HASHING_SUFFIX}", buckets.ring(partition)
        try:
            meta.storage.create(path, encode_ring(partition, ring), durable=True)
        except TableExistsError as error:
            if decode_ring(meta.storage.read(path, MaxBytes.HASHING), path=path) != ring:
                raise BlockedError(
                    f"another writer divided partition {partition!r} into other buckets; write again without "
                    f"{IndexOptions.bucket_count}",
                    table=meta.storage.root,
                ) from error


def _folder(partition: str) -> str:
    return f"{CONSISTENT_HASHING_DIR}/{partition}" if partition else CONSISTENT_HASHING_DIR


def _valid(snapshot: TableSnapshot, partition: str, names: Iterable[str]) -> str | None:
    """Return the name of the partition's valid hashing metadata; None if there is none (loadMetadata)."""
    timeline = snapshot.timeline
    found = sorted(names)
    rings = [name.removesuffix(HASHING_SUFFIX) for name in found if name.endswith(HASHING_SUFFIX)]
    committed = {name.removesuffix(COMMIT_SUFFIX) for name in found if name.endswith(COMMIT_SUFFIX)}
    if not rings:
        return None
    for place, instant in reversed(list(enumerate(rings))):
        known = timeline.commit(instant)
        if instant == FIRST_INSTANT or instant in committed or known is not None:
            return f"{instant}{HASHING_SUFFIX}"
        if not timeline.is_pending(instant) and (timeline.start is None or instant < timeline.start):
            paths = [f"{_folder(partition)}/{each}{HASHING_SUFFIX}" for each in rings[: place + 1]]
            if _in_use(snapshot, partition, paths):
                return f"{instant}{HASHING_SUFFIX}"
    raise CorruptError(
        f"no hashing metadata of partition {partition!r} counts", table=snapshot.table, path=_folder(partition)
    )


def _in_use(snapshot: TableSnapshot, partition: str, paths: Sequence[str]) -> bool:
    """Return whether a partition has file groups of a ring whose instant left the timeline (recommitMetadataFile).

    Only buckets that no earlier ring has count: a resizing that was rolled back kept most of them.

    Args:
        snapshot: the table.
        partition: partition path.
        paths: the partition's rings up to the one in question.
    """
    groups = {each.file_id.rpartition("-")[0] for each in snapshot.view(sizes=False).slices_of([partition])}
    if not groups:
        raise NotSupportedError(
            f"it's unknown whether the buckets of partition {partition!r} that {paths[-1]} describes were ever "
            "committed, as the partition is empty: remove that file, or the older ones beside it",
            table=snapshot.table,
            path=paths[-1],
        )
    *earlier, ring = (decode_ring(snapshot.meta.storage.read(path, MaxBytes.HASHING), path=path) for path in paths)
    return not groups.isdisjoint(set(ring.prefixes).difference(*(each.prefixes for each in earlier)))
