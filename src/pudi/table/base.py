"""The open table that all groups of verbs of a `Table` share; the options and the engine of a call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from pudi.client import OPENING_OPTIONS, MetaClient, TableSnapshot
from pudi.config import Options, TableConfig, WriteOptions, resolve, resolve_only
from pudi.config.resolve import without_table_options
from pudi.config.table_options import NEWEST_VERSION
from pudi.context import Storage
from pudi.context.runtime import lazy_module
from pudi.engine import is_spark_frame
from pudi.engine.local import LocalEngine
from pudi.engine.local.records import to_arrow
from pudi.errors import naming
from pudi.hooks.callbacks import check_callbacks
from pudi.plan.read import MOST_KEYS
from pudi.task import Engine

if TYPE_CHECKING:
    from pudi.commit.conditions import SoleProgress
    from pudi.engine.spark import engine as spark_engine
    from pudi.engine.spark import records as spark_small
    from pudi.engine.spark import session as spark_session
    from pudi.upgrade import upgrade as upgrade_action
    from pudi.upgrade.upgrade import UpgradeRequest
    from pudi.upgrade.upgrade_intent import Upgrade
    from pudi.writes import write_recipe
    from pudi.writes.write_recipe import WriteRequest
else:
    spark_engine = lazy_module("pudi.engine.spark.engine")
    spark_session = lazy_module("pudi.engine.spark.session")
    spark_small = lazy_module("pudi.engine.spark.records")
    upgrade_action = lazy_module("pudi.upgrade.upgrade")
    write_recipe = lazy_module("pudi.writes.write_recipe")


@dataclass
class OpenTable:
    """A table that is open. Its groups share one, so all see a table that one of them opened again.

    Attributes:
        meta: the client.
        options: options that verbs take by default.
    """

    meta: MetaClient
    options: dict[str, str]

    def __reduce__(self) -> tuple[object, ...]:
        return _opened_again, (self.meta.storage, self.options)

    def reopen(self) -> None:
        """Read the properties again."""
        self.meta = self.meta.reopen(self.options)

    def upgrade(self, meta: MetaClient, engine: Engine, options: Options, request: UpgradeRequest) -> Upgrade:
        """Bring the table to another version, and open it again; see `Table.upgrade`."""
        done = upgrade_action.upgrade(meta, engine, options, request)
        if done.done:
            self.options = without_table_options(self.options)  # the version among them was that of before
            self.reopen()
        return done


def _opened_again(storage: Storage, options: dict[str, str]) -> OpenTable:
    """Open a table that was pickled, perhaps in another process, as it is now; raises as `MetaClient.open`."""
    return OpenTable(MetaClient.open(storage.root, None, options, storage=storage), options)


class VerbGroup:
    """Verbs of a `Table` that belong together."""

    def __init__(self, opened: OpenTable) -> None:
        """Take the table that the verbs work on."""
        self._opened = opened

    @property
    def _meta(self) -> MetaClient:
        return self._opened.meta

    @property
    def _options(self) -> dict[str, str]:
        return self._opened.options

    @property
    def _path(self) -> str:
        return self._meta.storage.root

    def _snapshot(self) -> TableSnapshot:
        """Return the table as it is now; a verb loads it once and hands it on."""
        return TableSnapshot.load(self._meta)

    def _for_call(self, options: Mapping[str, str] | None) -> tuple[MetaClient, Options]:
        """Return the table and the options of one call."""
        with naming(None, self._path):
            resolved = resolve(options, self._options, table=self._path)
            meta = self._meta
            if options and resolve_only(options, OPENING_OPTIONS).given:
                meta = meta.for_verb({**self._options, **options})
            return meta, resolved

    def _for_write(self, options: Mapping[str, str] | None) -> tuple[MetaClient, Options]:
        """Return the table and the options of a call that writes; upgrade the table first where they ask for it."""
        meta, resolved = self._for_call(options)
        with naming(None, self._path):
            check_callbacks(meta)
        wanted = int(str(resolved.explicit(TableConfig.version) or NEWEST_VERSION))
        if resolved[WriteOptions.auto_upgrade] and meta.config.version < wanted:
            self._opened.upgrade(meta, LocalEngine(), resolved, upgrade_action.UpgradeRequest(wanted))
            return self._for_call(options)
        return meta, resolved

    def _request(
        self,
        engine: Engine,
        options: Mapping[str, str] | None,
        since: str | None = None,
        extra_metadata: Mapping[str, str] | None = None,
        progress: SoleProgress | None = None,
    ) -> WriteRequest:
        """Return a call that writes, as a value; arguments as of `WriteRequest`."""
        meta, resolved = self._for_write(options)
        return write_recipe.WriteRequest(meta, engine, resolved, dict(extra_metadata or {}), since, progress)


def client_of(table: VerbGroup) -> MetaClient:
    """Return the client that a table is open with: for packages above the verbs that need what `Table` doesn't show."""
    return table._meta


def small_side(rows: Any, table: str) -> pa.Table:
    """Return the distinct rows of the small side of a join, brought to this process.

    Args:
        rows: a Spark DataFrame, or anything that offers an Arrow stream.
        table: location of the table, for errors.

    Raises:
        InvalidArgumentError: the type of the data is not supported, or there are too many rows.
    """
    if is_spark_frame(rows):
        return spark_small.collect_distinct(rows, table, MOST_KEYS)
    return to_arrow(rows, table)


def engine_of(data: Any, spark: Any = None) -> Engine:
    """Return the engine for this kind of data; otherwise that of the given session, if any.

    Raises:
        InvalidArgumentError: it's no session.
        SetupError: it's older than 3.5.
    """
    if is_spark_frame(data):
        return spark_engine.SparkEngine(data.sparkSession, LocalEngine())
    if spark is None:
        return LocalEngine()
    spark_session.check_session(spark)
    return spark_engine.SparkEngine(spark, LocalEngine())
