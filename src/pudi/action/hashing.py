"""The rings of a table with consistent hashing: read before a write, made for new partitions, never resized.

Source: FORMAT 8; ConsistentBucketIndexUtils.
"""

from __future__ import annotations

from collections.abc import Iterable

from pudi.action.meta_client import MetaClient
from pudi.errors import ConflictError, CorruptError, NotSupportedError, TableExistsError
from pudi.format import CONSISTENT_HASHING_DIR, Action, State
from pudi.format.hashing import COMMIT_SUFFIX, FIRST_INSTANT, HASHING_SUFFIX, Ring, decode_ring, encode_ring
from pudi.index import ConsistentBuckets, Index
from pudi.metadata.table import at_once
from pudi.plan import Operation
from pudi.timeline import Timeline


def read_rings(meta: MetaClient, timeline: Timeline, paths: Iterable[str]) -> dict[str, Ring]:
    """The ring of each partition that has one.

    Args:
        meta: the table.
        timeline: its timeline.
        paths: the files that lie in the folder of hashing metadata.

    Raises:
        CorruptError: hashing metadata can't be read.
        NotSupportedError: buckets are being resized, or it can't be told which metadata of a partition counts.
    """
    if timeline.of(Action.CLUSTERING, State.REQUESTED, State.INFLIGHT):
        raise NotSupportedError(
            "the table's buckets are being resized by a pending clustering; let Apache Hudi finish it",
            table=meta.storage.root,
        )
    names: dict[str, list[str]] = {}
    for path in paths:
        folder, _, name = path.rpartition("/")
        partition = folder.removeprefix(CONSISTENT_HASHING_DIR).removeprefix("/")
        names.setdefault(partition, []).append(name)
    chosen = {p: _valid(meta, timeline, p, each) for p, each in names.items()}
    files = [(partition, f"{_folder(partition)}/{name}") for partition, name in chosen.items() if name is not None]
    rings = at_once(lambda file: decode_ring(meta.storage.read(file[1]), path=file[1]), files)
    return {partition: ring for (partition, _), ring in zip(files, rings, strict=True)}


def check_rings_stay(meta: MetaClient, operation: Operation, index: Index) -> None:
    """Refuse to replace file groups whose ids come again.

    Raises:
        NotSupportedError: the operation does so, in a table with consistent hashing.
    """
    if operation.replaces and isinstance(index.buckets, ConsistentBuckets):
        raise NotSupportedError(
            f"{operation.name.lower()} in a table with consistent hashing: its file groups keep their ids, so that "
            "what comes later would be taken for replaced; delete the records, or use Apache Hudi",
            table=meta.storage.root,
        )


def make_rings(meta: MetaClient, operation: Operation, index: Index, partitions: Iterable[str]) -> None:
    """With consistent hashing, divide the partitions that have no hashing metadata yet and get records.

    What two writers make is the same.

    Raises:
        ConflictError: another writer made it for another number of buckets meanwhile.
    """
    buckets = index.buckets
    if operation is Operation.DELETE or not isinstance(buckets, ConsistentBuckets):
        return
    for partition in sorted(partitions):
        if partition in buckets.rings:
            continue
        path, ring = f"{_folder(partition)}/{FIRST_INSTANT}{HASHING_SUFFIX}", buckets.ring(partition)
        try:
            meta.storage.create(path, encode_ring(partition, ring))
        except TableExistsError as error:
            if decode_ring(meta.storage.read(path), path=path) != ring:
                raise ConflictError(
                    f"another writer divided partition {partition!r} into other buckets; write again without "
                    "hoodie.bucket.index.num.buckets",
                    table=meta.storage.root,
                ) from error


def _folder(partition: str) -> str:
    return f"{CONSISTENT_HASHING_DIR}/{partition}" if partition else CONSISTENT_HASHING_DIR


def _valid(meta: MetaClient, timeline: Timeline, partition: str, names: Iterable[str]) -> str | None:
    """The name of a partition's hashing metadata that counts; None where there is none (loadMetadata)."""
    found = sorted(names)
    rings = [name.removesuffix(HASHING_SUFFIX) for name in found if name.endswith(HASHING_SUFFIX)]
    committed = {name.removesuffix(COMMIT_SUFFIX) for name in found if name.endswith(COMMIT_SUFFIX)}
    if not rings:
        return None
    for instant in reversed(rings):
        known = timeline.commit(instant)
        if instant == FIRST_INSTANT or instant in committed or known is not None:
            return f"{instant}{HASHING_SUFFIX}"
        if not timeline.is_pending(instant) and (timeline.start is None or instant < timeline.start):
            raise NotSupportedError(
                f"it can't be told whether the resizing {instant} of partition {partition!r} was completed; let Apache "
                "Hudi write to the table once",
                table=meta.storage.root,
            )
    raise CorruptError(
        f"no hashing metadata of partition {partition!r} counts", table=meta.storage.root, path=_folder(partition)
    )
