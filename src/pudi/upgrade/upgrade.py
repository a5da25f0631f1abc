"""Bring a table to another version: 6, 8 or 9, upwards or downwards.

Everything that writers left is completed first, and log files are compacted, since versions merge by other rules. Then,
under the table's lock, the timeline is written in the other version's layout beside the old one, and one change of the
properties makes it the table's. A crash before leaves the old version, a crash after it the new one; the next run of
the same upgrade goes on. Indexes that differ are rebuilt.

Source: UpgradeDowngrade, UpgradeDowngradeUtils.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial

from pudi.client import MetaClient, TableSnapshot
from pudi.client.measure import measured
from pudi.client.single_key import names_single_key
from pudi.commit.dead_writers import refuse_pending_restore
from pudi.config import (
    Options,
    Scope,
    TableConfig,
    check_writable,
    metadata_switched_off,
    options_of_scope,
)
from pudi.config.table_options import layout_of_version
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.format import Action
from pudi.format.metadata_partitions import FILES, partition_type
from pudi.indexes import registry as kinds
from pudi.indexing.indexing import build_index
from pudi.indexing.rebuild import finish_rebuild
from pudi.metadata_write.build import make_files
from pudi.task import Engine
from pudi.timeline.layout_change import discard, unmark
from pudi.upgrade.move import at_rest, changes_layout, columns_of, drops_logs, intent_of, move
from pudi.upgrade.upgrade_intent import (
    Upgrade,
    UpgradeIntent,
    delete_intent,
    read_intent,
    refuse_losses,
)
from pudi.upgrade.upgrade_old import bring_to_6, is_old, plan_first_step
from pudi.upgrade.version_properties import describe_changes, with_version

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class UpgradeRequest:
    """Request of an upgrade: the version, and the losses that the caller accepts.

    Attributes:
        version: the version that the table gets: 6, 8 or 9.
        dry_run: change nothing.
        accept_loss: go on although the version can't keep all that the table has.
    """

    version: int
    dry_run: bool = False
    accept_loss: bool = False


def upgrade(meta: MetaClient, engine: Engine, options: Options, request: UpgradeRequest) -> Upgrade:
    """Bring a table to another version, or complete an upgrade that died.

    Args:
        meta: the table; it's of no use any more where its timeline has moved.
        engine: runs the jobs.
        options: the caller's.
        request: the version, and what the caller accepts.

    Raises:
        InvalidArgumentError: there's no such version, something would be lost, or another upgrade is pending.
        NotSupportedError: that version can't say what the table does, or this release can't write the table.
        BlockedError: another process is writing.
        CorruptError: an instant or the archive can't be read; the table keeps its version and its indexes.
    """
    meta.reload()
    if is_old(meta.config):
        return _of_old(meta, engine, options, request)
    version = request.version
    options = _of_writer(options)
    intent = read_intent(meta)
    if intent is not None and intent.new != version:
        raise InvalidArgumentError(
            f"an upgrade from version {intent.old} to {intent.new} is pending: complete it first, by "
            f"Table.upgrade({intent.new}) or `pudi upgrade --to {intent.new}`",
            table=meta.storage.root,
        )
    if intent is not None and meta.config.version == intent.new:
        found = Upgrade(meta.storage.root, intent.old, version, tuple(_last_steps(intent)))
        if request.dry_run:
            return found
        _finish(meta, engine, options, intent)
        return replace(found, done=True)
    found = plan_upgrade(meta, options, version)
    if request.dry_run:
        return found
    if not found.steps:
        finish_rebuild(meta, engine, options)  # of an upgrade to version 6 that died
        return found
    if intent is None:
        refuse_losses(found, accept_loss=request.accept_loss)
    with measured(meta, "upgrade"):
        with meta.lock:
            unmark(meta.store)  # of an attempt that died: what it left is done again
        logs = not drops_logs(meta.config, version)
        moved, begun = at_rest(meta, engine, options, logs=logs, act=partial(move, version=version))
        _finish(moved, engine, options, begun)
    return replace(found, done=True)


def _of_old(meta: MetaClient, engine: Engine, options: Options, request: UpgradeRequest) -> Upgrade:
    """Upgrade a table that is read only so far: first to version 6, which is whole in itself, then further."""
    first, old = plan_first_step(meta, options.given), meta.config.version
    further = _of_writer(options)
    rest = plan_upgrade(meta.with_config(first.config), further, request.version)
    rebuilt = ("rebuild the metadata table",) if first.had_metadata else ()
    found = replace(rest, old=old, steps=(*first.steps, *rest.steps, *rebuilt))
    if request.dry_run:
        return found
    refuse_losses(found, accept_loss=request.accept_loss)
    moved = bring_to_6(meta, first)
    finish_rebuild(moved, engine, options, died=False)
    upgrade(moved, engine, further, request)
    return replace(found, done=True)


def _of_writer(options: Options) -> Options:
    """Return options without those that say what a table is: the upgrade changes that."""
    of_table = options_of_scope(options, Scope.TABLE)
    return replace(options, given={key: value for key, value in options.given.items() if key not in of_table})


def plan_upgrade(meta: MetaClient, options: Options, version: int) -> Upgrade:
    """Say what an upgrade does, and what it loses; errors as of `upgrade`."""
    root, old = meta.storage.root, meta.config
    snapshot = TableSnapshot.load(meta, options)
    refuse_pending_restore(snapshot)
    check_writable(old, root, options)
    new = with_version(old, version, columns_of(snapshot), root)
    check_writable(new, root, options)
    if old.version == version:
        return Upgrade(root, version, version)
    _check_keys(snapshot, version)
    steps = ["complete what other writers left: roll dead writes back, run pending plans"]
    losses = []
    if meta.merges_on_read:
        steps.append("compact all log files")
    if drops_logs(old, version):
        _refuse_savepoints(snapshot, version)
        steps.append("clean all file slices but the newest: version 6 can't read log files of older ones")
        losses.append("time travel and changes from before now")
    if changes_layout(old, version):
        layout, count = layout_of_version(version), len(snapshot.timeline.instants)
        steps.append(f"write the active and archived timeline in layout {layout}, with {count} instants")
    lost = sorted(name for name in old.metadata_partitions if version < partition_type(name).since)
    companions = {name for kind in kinds.KINDS for name in kind.type.companions}
    losses += [f"the index {name}" for name in lost if name not in companions]
    steps += [f"hoodie.properties: {change}" for change in describe_changes(old.raw, new.raw)]
    if changes_layout(old, version):
        steps.append("delete the timeline of the old layout")
    steps += _last_steps(intent_of(meta, version))
    return Upgrade(root, old.version, version, tuple(steps), tuple(losses))


def finish_pending(meta: MetaClient, engine: Engine, options: Options) -> Upgrade | None:
    """Complete an upgrade that died, if one did; what it loses was accepted when it began."""
    intent = read_intent(meta)
    return None if intent is None else upgrade(meta, engine, options, UpgradeRequest(intent.new))


def _last_steps(intent: UpgradeIntent) -> Iterator[str]:
    if intent.has_metadata:
        yield "rebuild the metadata table"
    for spec in intent.indexes:
        yield f"rebuild the index {spec.partition}"


def _check_keys(snapshot: TableSnapshot, version: int) -> None:
    """Refuse complex keys of one column without its name: version 9 always writes it. Hudi only warns."""
    if version >= 9 > snapshot.config.version and not names_single_key(snapshot):
        raise NotSupportedError(
            "the table's complex record keys omit the name of their one column, and writers of version 9 always write "
            "it: each record would become another one. Write a new table, or stay below version 9",
            table=snapshot.table,
        )


def _refuse_savepoints(snapshot: TableSnapshot, version: int) -> None:
    for each in snapshot.timeline.of(Action.SAVEPOINT):
        raise InvalidArgumentError(
            f"a merge-on-read table can't take savepoints to version {version}, which can't read their log files: "
            "delete them first (Table.delete_savepoint, `pudi savepoint`)",
            table=snapshot.table,
            instant=each.requested,
        )


def _finish(meta: MetaClient, engine: Engine, options: Options, intent: UpgradeIntent) -> None:
    """Do what is left once the table has its new version: delete the old timeline, rebuild indexes."""
    if layout_of_version(intent.old) != layout_of_version(intent.new):
        with meta.lock:
            layout = {TableConfig.layout_version.key: str(layout_of_version(intent.old))}
            discard(meta.with_config(meta.config.with_properties(layout, table=meta.storage.root)).store)
    wanted = not metadata_switched_off(options)
    if intent.has_metadata and wanted:
        with meta.lock:
            meta.reload()
            if FILES not in meta.config.metadata_partitions:
                make_files(TableSnapshot.load(meta, options))
    for spec in intent.indexes if wanted else ():
        meta.reload()
        if spec.partition in meta.config.metadata_partitions:
            continue
        try:
            build_index(meta, engine, spec, options)
        except (InvalidArgumentError, NotSupportedError) as error:
            _log.warning("table %s: the index %s isn't rebuilt: %s", meta.storage.root, spec.partition, error)
    delete_intent(meta)
