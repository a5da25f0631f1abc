"""Open a write, before it has an instant: refuse what this release can't write, make its rules, ready the table."""

from __future__ import annotations

from pudi.client import TableSnapshot
from pudi.client.find_index import check_resolution, find_index
from pudi.client.settings import rule_of, writable_schema
from pudi.client.single_key import names_single_key
from pudi.client.table_keys import check_generated, key_generator
from pudi.commit.conditions import unchanged_since
from pudi.commit.dead_writers import repair_dead_writes
from pudi.commit.transaction import begin_report
from pudi.config import (
    ArchiveOptions,
    CleanOptions,
    CompactionOptions,
    check_consistent,
    check_services,
    check_writable,
)
from pudi.indexing.build_by_options import build_wanted
from pudi.indexing.rebuild import reinitialize_partitions
from pudi.metadata_write.build import reconcile_metadata
from pudi.record import check_folder_names, check_key_types
from pudi.services.runner import run_before_write
from pudi.timeline import Timeline
from pudi.writes.concurrency_modes import check_nonblocking
from pudi.writes.pending_clusterings import roll_back_expired
from pudi.writes.prerequisites import check_prerequisites, state_older_names
from pudi.writes.write_recipe import WriteAttempt, WriteRecipe, WriteRequest, looks_up_globally, take_nothing

FRESH_SECONDS = 1.0
"""Seconds of preparation after which a write looks at the timeline again before it begins."""


def open_write(request: WriteRequest, recipe: WriteRecipe) -> WriteAttempt:
    """Return an attempt at a write, with the table as it is now.

    Args:
        request: what the caller asks for.
        recipe: how the verb does it.

    Raises:
        InvalidArgumentError: options contradict each other or the table.
        NotSupportedError: this release can't write the table, or not with these options.
        ChangedSinceError: the instant that the write depends on was rolled back.
    """
    meta, options, operation = request.meta, request.options, recipe.operation
    report, root = begin_report(meta, operation.value.lower()), meta.storage.root
    meta.reload()
    _check_options(request)
    snapshot = TableSnapshot.load(meta, options)
    unchanged = None if request.since is None else unchanged_since(snapshot, request.since)
    schema = writable_schema(snapshot.schema, root)
    index = find_index(snapshot)
    check_resolution(index, options, root)
    check_nonblocking(meta, options, index, operation)
    rule = rule_of(snapshot, operation, is_global=looks_up_globally(operation, index))
    keys = key_generator(meta.config, options, names_single=names_single_key(snapshot))
    brings_records = recipe.take is not take_nothing  # those that are changed where they are keep their keys
    if brings_records:
        check_generated(keys, operation, request.write_options, root)
    check_key_types(keys, schema, table=root)
    if brings_records:
        check_folder_names(lambda: snapshot.listing().partitions(), keys, schema, table=root)
    return WriteAttempt(
        request, recipe, report, snapshot, snapshot, snapshot.schema, None, index, rule, keys, unchanged
    )


def _check_options(request: WriteRequest) -> None:
    """Refuse options that contradict each other or the table, before anything is read or written."""
    meta, options, root = request.meta, request.options, request.meta.storage.root
    check_writable(meta.config, root, options)
    check_consistent(meta.config, options, root)
    check_services(meta.config, options, root)
    for view in (CompactionOptions, CleanOptions, ArchiveOptions):
        view.of(options)
    check_prerequisites(meta, request.engine, options)


def make_ready(write: WriteAttempt) -> Timeline:
    """Repair what dead writers left, run the services that come before a write, and build the indexes asked for.

    Args:
        write: the attempt.

    Returns:
        The repaired timeline.
    """
    meta, options = write.meta, write.options
    reconcile_metadata(meta, options)
    cleaned = run_before_write(meta, write.engine, options, write.report)
    # where anything took its time, others may have committed meanwhile: the write then begins from what there is now
    fresh = not cleaned and write.report.clock.monotonic() - write.report.began < FRESH_SECONDS
    repaired = repair_dead_writes(meta, options, write.snapshot if fresh else None)
    timeline = roll_back_expired(meta, options, repaired.timeline)
    state_older_names(meta)
    build_wanted(write.snapshot.at(timeline), write.engine)
    reinitialize_partitions(meta, write.engine, options)
    return timeline
