"""Partitions of a table: chosen by a predicate, added without records, and deleted by a replacecommit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import pyarrow as pa

from pudi.client.meta_client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.config import check_writable
from pudi.config.arguments import names_given
from pudi.context import Storage
from pudi.errors import InvalidArgumentError, NotFoundError, NotSupportedError, TableExistsError
from pudi.expr import Expr, bind_where, columns, evaluate
from pudi.filegroup import FileSlice, StorageListing, slices_by_partition
from pudi.filegroup.listing import check_partition_apart
from pudi.format import (
    INIT_INSTANT,
    Action,
    CommitMetadata,
    PartitionMetadata,
    RequestedReplaceMetadata,
    encode_partition_metadata,
    encode_requested_replace_metadata,
    partition_metadata_path,
)
from pudi.plan import Operation
from pudi.record import check_paths, partition_values


def partitions_where(snapshot: TableSnapshot, where: str) -> list[str]:
    """Return the paths of the partitions for which a predicate is true.

    Args:
        snapshot: the table.
        where: a predicate over partition columns.

    Raises:
        InvalidArgumentError: the predicate names another column, or the table isn't partitioned.
        NotSupportedError: a partition path doesn't say the values of the columns, as with TIMESTAMP key generators.
    """
    bound = bind_to_partitions(snapshot, where, "partitions are chosen by their columns alone")
    found = []
    for partition in snapshot.listing().partitions():
        chosen = is_true_by_path(snapshot, bound, partition)
        if chosen is None:
            raise NotSupportedError(
                f"partition {partition!r} doesn't say the values of {', '.join(columns(bound))}: name the partitions "
                "instead",
                table=snapshot.table,
            )
        if chosen:
            found.append(partition)
    return found


def bind_to_partitions(snapshot: TableSnapshot, where: str, advice: str) -> Expr:
    """Read a predicate over partition columns and bind it.

    Args:
        snapshot: the table.
        where: SQL text.
        advice: what to do where it names another column.

    Raises:
        InvalidArgumentError: it does, or the table isn't partitioned.
    """
    fields = snapshot.config.partition_fields
    bound = bind_where(where, snapshot.schema.columns, snapshot.table)
    others = sorted(columns(bound) - set(fields))
    if others:
        there = f"the table is partitioned by {', '.join(fields)}" if fields else "the table isn't partitioned"
        raise InvalidArgumentError(f"{others[0]!r} is no partition column: {there}; {advice}", table=snapshot.table)
    return bound


def is_true_by_path(snapshot: TableSnapshot, where: Expr, partition: str) -> bool | None:
    """Return whether a bound predicate is true for a partition; None if the path doesn't say the values."""
    schema = snapshot.schema.columns
    known = partition_values(partition, snapshot.meta.keys, schema) or {}
    if not columns(where) <= known.keys():
        return None
    row = pa.table({"": [True]} | {name: pa.array([known[name]], schema.field(name).type) for name in known})
    return bool(evaluate(where, row)[0].as_py())


def partition_paths(partitions: Iterable[str], meta: MetaClient) -> tuple[str, ...]:
    """Return the paths of partitions that a caller names, each once.

    Raises:
        InvalidArgumentError: it's one text or no list, or a path is no folder of the table's own.
    """
    if isinstance(partitions, str):
        table = meta.storage.root
        raise InvalidArgumentError(f"partitions is one text; give a list: [{partitions!r}]", table=table)
    if not isinstance(partitions, Iterable):
        raise InvalidArgumentError(
            f"partitions is a list of paths, not {type(partitions).__name__}", table=meta.storage.root
        )
    partitions = list(partitions)
    for path in partitions:
        if not isinstance(path, str):
            raise InvalidArgumentError(
                f"a partition is its path, such as 'city=rome' (Table.partitions() lists them), not {path!r}",
                table=meta.storage.root,
            )
    paths = tuple(dict.fromkeys(path.strip("/") for path in names_given(partitions, "partitions", meta.storage.root)))
    check_paths(pa.array(paths, pa.string()))
    meta.context.executor.map(partial(check_partition_apart, meta.storage), paths)
    return paths


def add_empty_partitions(meta: MetaClient, partitions: Iterable[str], *, exists_ok: bool) -> None:
    """Make folders partitions of the table before they hold records (AlterHoodieTableAddPartitionCommand).

    Raises:
        InvalidArgumentError: the table isn't partitioned, or a path is no folder of the table's own.
        TableExistsError: a partition is there, and `exists_ok` isn't set. Nothing was added.
        NotSupportedError: the table can't be written by this release.
    """
    root = meta.storage.root
    check_writable(meta.config, root)
    if not meta.config.partition_fields:
        raise InvalidArgumentError("the table isn't partitioned: it takes no partitions", table=root)
    paths = partition_paths(partitions, meta)
    there = meta.context.executor.map(partial(is_described, meta.storage), paths)
    known = [path for path, found in zip(paths, there, strict=True) if found]
    if known and not exists_ok:
        raise TableExistsError(f"there is a partition {known[0]} already: add IF NOT EXISTS", table=root)
    for path in [each for each in paths if each not in known]:
        described = PartitionMetadata(INIT_INSTANT, len(path.split("/")))
        content = encode_partition_metadata(described, meta.context.clock.now_ms())
        try:
            meta.storage.create(partition_metadata_path(path), content, durable=True)
        except TableExistsError:  # another writer made it meanwhile
            if not exists_ok:
                raise


def is_described(storage: Storage, partition: str) -> bool:
    """Return whether a folder holds the file that makes it a partition."""
    try:
        storage.head(partition_metadata_path(partition))
    except NotFoundError:
        return False
    return True


def empty_partitions(snapshot: TableSnapshot, held: Iterable[str]) -> list[str]:
    """Return the partitions without records that no replacecommit emptied (TimelineUtils.getDroppedPartitions).

    Args:
        snapshot: the table.
        held: the partitions that hold records.
    """
    # the metadata table of a table without commits knows none yet, and there are few folders
    listing = snapshot.listing() if snapshot.timeline.commits else StorageListing(snapshot.meta.storage)
    found = set(listing.partitions()) - set(held) - {""}
    return sorted(found - _replaced(snapshot) if found else ())


def not_yet_dropped(snapshot: TableSnapshot, partitions: Sequence[str]) -> list[str]:
    """Return which partitions without records are still there, by their folders and the timeline."""
    described = snapshot.meta.context.executor.map(partial(is_described, snapshot.meta.storage), partitions)
    found = {path for path, there in zip(partitions, described, strict=True) if there}
    return sorted(found - _replaced(snapshot) if found else ())


def _replaced(snapshot: TableSnapshot) -> set[str]:
    """Return the partitions that replacecommits of the active timeline name."""
    commits = [snapshot.meta.store.read_commit_metadata(each) for each in snapshot.timeline.of(Action.REPLACECOMMIT)]
    return {path for each in commits for path in each.partition_to_replace_file_ids or {}}


def groups_by_partition(slices: Sequence[FileSlice], partitions: Iterable[str] = ()) -> dict[str, tuple[str, ...]]:
    """Return the ids of the file groups of some slices, by partition path.

    Args:
        slices: the slices.
        partitions: partition paths that are named with or without file groups, as Hudi does.
    """
    by_partition = {**{partition: [] for partition in partitions}, **slices_by_partition(slices)}
    return {partition: tuple(each.file_id for each in found) for partition, found in sorted(by_partition.items())}


def delete_request() -> tuple[bytes, CommitMetadata]:
    """Return what the requested and the inflight file of a delete of partitions say (DeletePartitionUtils)."""
    operation = Operation.DELETE_PARTITION.value
    plan = RequestedReplaceMetadata(operation_type=operation, extra_metadata={}, version=1)
    return encode_requested_replace_metadata(plan), CommitMetadata(operation_type=operation)
