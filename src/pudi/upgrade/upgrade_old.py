"""Bring a table of versions 0 to 5, or 7, to version 6, from where the other upgrades go on.

Data files and timeline stay, since these versions store them as version 6 does. The upgrade changes the properties,
and deletes copies of plans and the old metadata table, which is rebuilt.

Source: ZeroToOneUpgradeHandler, OneToTwoUpgradeHandler, TwoToThreeUpgradeHandler, ThreeToFourUpgradeHandler,
FourToFiveUpgradeHandler, FiveToSixUpgradeHandler, SixToSevenUpgradeHandler.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from posixpath import basename

import pyarrow as pa
import pyarrow.compute as pc

from pudi.client import MetaClient, TableSnapshot
from pudi.client.properties import update_properties
from pudi.client.table_keys import key_generator
from pudi.config import TableConfig
from pudi.config.option import Value, names_in
from pudi.config.table_options import OLD_VERSIONS
from pudi.errors import InvalidArgumentError
from pudi.filegroup import open_base_file
from pudi.format import AUX_DIR, METADATA_DIR, WRITE_ACTIONS, Action, State
from pudi.format.metadata_partitions import FILES
from pudi.schema import PARTITION_PATH, RECORD_KEY
from pudi.schema.arrays import one_array, text_array
from pudi.storage import delete_folder
from pudi.upgrade.version_properties import as_version_6, describe_changes

_OLD_DEFAULT = "default"
"""The folder of records without a partition value before version 5 (DEPRECATED_DEFAULT_PARTITION_PATH)."""
_NEW_DEFAULT_SINCE = 5
_SAMPLE = 100
"""Records by which settings of keys are compared with the table."""


@dataclass(frozen=True, slots=True)
class FirstStep:
    """Step that makes an old table one of version 6.

    Attributes:
        config: its properties then.
        steps: what is done, in order.
        had_metadata: whether it has a metadata table, which is to be rebuilt.
    """

    config: TableConfig
    steps: tuple[str, ...]
    had_metadata: bool


def is_old(config: TableConfig) -> bool:
    """Return whether a table has a version that is read only."""
    return config.version in OLD_VERSIONS


def plan_first_step(meta: MetaClient, given: Mapping[str, Value]) -> FirstStep:
    """Say how an old table becomes one of version 6.

    Args:
        meta: the table.
        given: the caller's options, see `as_version_6`.

    Raises:
        InvalidArgumentError: options must say how keys are made, or say it wrongly; or records lie in the folder that
            stood for no partition value before version 5, which Hudi refuses too; or a write died in version 0.
    """
    old = meta.config
    config = as_version_6(old, given, meta.storage.root)
    snapshot = TableSnapshot.load(meta)
    _check_markers(snapshot)
    _check_default_folder(meta, config)
    _check_keys(snapshot, config)
    had_metadata = meta.storage.list_dir(METADATA_DIR) != ([], [])
    steps = [f"hoodie.properties: {change}" for change in describe_changes(old.raw, config.raw)]
    if had_metadata:
        steps.append("delete the metadata table, which has records of an earlier kind")
    return FirstStep(config, tuple(steps), had_metadata and bool(names_in(old.ready_partitions)))


def bring_to_6(meta: MetaClient, step: FirstStep) -> MetaClient:
    """Upgrade the table to version 6, under the table's lock; return the upgraded table.

    Its properties say that the metadata table is to be rebuilt, so that whoever comes does it if this process dies.
    """
    with meta.lock:
        meta.reload()
        if not is_old(meta.config):  # another process has upgraded it, and may have built its metadata table
            return meta
        meta.storage.delete(list(_copies_of_plans(meta)))

        noted = {TableConfig.rebuild_partitions.key: FILES} if step.had_metadata else {}
        raw = update_properties(meta.storage, meta.context, meta.lock, lambda _: {**step.config.raw, **noted})
        config = TableConfig.parse(raw, table=meta.storage.root)
        delete_folder(meta.storage, METADATA_DIR)
    return meta.with_config(config)


def _copies_of_plans(meta: MetaClient) -> Iterator[str]:
    """Yield the copies of plans of compactions, which releases before 0.14 kept beside the timeline (HUDI-6040)."""
    timeline = meta.store.load()
    planned = {meta.store.path(each, State.REQUESTED) for each in timeline.of(Action.COMPACTION, State.REQUESTED)}
    names = {basename(path) for path in planned}
    yield from (info.path for info in meta.storage.list(AUX_DIR) if basename(info.path) in names)


def _check_markers(snapshot: TableSnapshot) -> None:
    """Refuse writes that died in a table of version 0: their markers have another form, which Hudi rewrites."""
    pending = [each for each in snapshot.timeline.pending if each.action in WRITE_ACTIONS]
    if snapshot.config.version == 0 and pending:
        raise InvalidArgumentError(
            "a write has begun and not completed, and nothing of version 0 says what files it left: let the release "
            "that wrote the table roll it back first",
            table=snapshot.table,
            instant=pending[0].requested,
        )


def _check_default_folder(meta: MetaClient, config: TableConfig) -> None:
    if meta.config.version >= _NEW_DEFAULT_SINCE or not config.partition_fields:
        return
    folder = f"{config.partition_fields[0]}={_OLD_DEFAULT}" if config.hive_style else _OLD_DEFAULT
    if meta.storage.list_dir(folder) != ([], []):
        raise InvalidArgumentError(
            f"records without a partition value are in the folder {folder!r}; from version 5 on they belong to "
            "another one, and Apache Hudi upgrades no such table either: write them to that one with the release that "
            "wrote them",
            table=meta.storage.root,
            path=folder,
        )


def _check_keys(snapshot: TableSnapshot, config: TableConfig) -> None:
    """Compare keys and paths of some records with those that the settings make: others would become new records."""
    if not config.populate_meta_fields:
        return
    for each in snapshot.view(sizes=False).all_slices():
        if each.base is None:
            continue
        reader = open_base_file(snapshot.meta.storage, each.base)
        makers = [key_generator(config, names_single=named) for named in (True, False)]
        absent = [name for name in makers[0].columns if name not in reader.schema.names]
        if absent:
            raise InvalidArgumentError(
                f"column {absent[0]!r} is said to be of the record key or the partition, and isn't in the table",
                table=snapshot.table,
                path=each.base.path,
            )
        rows = reader.read([RECORD_KEY, PARTITION_PATH, *sorted(makers[0].columns)], [0]).slice(0, _SAMPLE)
        keys = [one_array(maker.record_keys(rows)) for maker in makers]
        paths = makers[0].partition_paths(rows).dictionary_decode()
        stored = [text_array(rows[name]) for name in (RECORD_KEY, PARTITION_PATH)]
        made = [[own.cast(pa.string()), paths.cast(pa.string())] for own in keys]
        if stored in made:
            return
        same = pc.fill_null(pc.and_(*map(pc.equal, stored, made[0])), False)  # a null is no key
        place = pc.index(same, False).as_py()  # the first that differs
        (key, partition), (own, path) = ([column[place].as_py() for column in side] for side in (stored, made[0]))
        raise InvalidArgumentError(
            f"record {key!r} in partition {partition!r} would be "
            f"{own!r} in {path!r} by these settings: give the options of the table's "
            "writers (record key, partition columns, hive style, key generator)",
            table=snapshot.table,
            path=each.base.path,
        )
