"""Table services and recovery by real Hudi's write client: its procedures upgrade tables and lack log compaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pudi
from pudi.format import Action
from support.hudi import SMALL, HudiTable

_ONE_DUE = {
    "hoodie.compact.inline.max.delta.commits": "1",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.async.max.commits": "1",
}
_NONE_IN_METADATA = {"hoodie.metadata.compact.max.delta.commits": "1000"}
"""A client of Hudi compacts the metadata table before anything else, and then refuses to take a commit back."""


@dataclass
class HudiServices:
    """What Hudi does for a table, one call each.

    Attributes:
        hudi: the table.
        options: of the services, over those of the table.
    """

    hudi: HudiTable
    options: Mapping[str, str] = field(default_factory=dict)

    def clean(self) -> None:
        """Run the pending cleans, and then one that is due."""
        with self._client() as client:
            client.clean()

    def archive(self) -> None:
        """Move old instants to the archive."""
        with self._client() as client:
            client.archive()

    def schedule(self, service: str) -> str | None:
        """Plan `compaction`, `logcompaction`, `clustering` or `clean`; None if nothing is to be done."""
        if service == "clean":
            with self._client() as client:
                types = self.hudi.spark._jvm.org.apache.hudi.common.model.TableServiceType
                planned = client.scheduleTableService(self._none(), types.CLEAN)
        else:
            with self._client(**_ONE_DUE) as client:
                calls: dict[str, Callable[..., Any]] = {
                    "compaction": client.scheduleCompaction,
                    "logcompaction": client.scheduleLogCompaction,
                    "clustering": client.scheduleClustering,
                }
                planned = calls[service](self._none())
        return str(planned.get()) if planned.isPresent() else None

    def run(self, service: str) -> None:
        """Plan and run a service."""
        self.schedule(service)
        self.run_pending()

    def run_pending(self) -> None:
        """Run all plans on the timeline."""
        for instant in pudi.Table(self.hudi.path).timeline.pending:
            with self._client() as client:
                if instant.action is Action.COMPACTION:
                    client.compact(instant.requested, True)
                elif instant.action is Action.LOGCOMPACTION:
                    client.logCompact(instant.requested, True)
                elif instant.action in {Action.CLUSTERING, Action.REPLACECOMMIT}:
                    client.cluster(instant.requested, True)
                elif instant.action is Action.CLEAN:
                    client.clean()

    def savepoint(self, instant: str) -> None:
        """Keep the files of a commit."""
        with self._client() as client:
            client.savepoint(instant, "Hudi", "")

    def delete_savepoint(self, instant: str) -> None:
        """Keep them no longer."""
        with self._client() as client:
            client.deleteSavepoint(instant)

    def rollback(self, instant: str, options: Mapping[str, str] = _NONE_IN_METADATA) -> None:
        """Take back the newest commit; the options are the client's, over its others."""
        with self._client(**options) as client:
            assert client.rollback(instant)

    def restore(self, instant: str) -> None:
        """Take back all commits after a savepoint."""
        with self._client() as client:
            client.restoreToSavepoint(instant)

    def _none(self) -> Any:
        return self.hudi.spark._jvm.org.apache.hudi.common.util.Option.empty()

    @contextmanager
    def _client(self, **more: str) -> Iterator[Any]:
        jvm, spark = self.hudi.spark._jvm, self.hudi.spark
        hudi = jvm.org.apache.hudi
        conf = hudi.storage.hadoop.HadoopStorageConfiguration(spark._jsc.hadoopConfiguration())
        table = hudi.common.table.HoodieTableMetaClient.builder().setConf(conf).setBasePath(str(self.hudi.path)).build()
        settings = jvm.java.util.Properties()
        for key, value in {**SMALL, **self.hudi.options, **self.options, **more}.items():
            settings.setProperty(key, value)
        settings.setProperty(
            "hoodie.avro.schema", hudi.common.table.TableSchemaResolver(table).getTableSchema(False).toString()
        )
        config = hudi.config.HoodieWriteConfig.newBuilder().withPath(str(self.hudi.path)).withProps(settings).build()
        context = hudi.client.common.HoodieSparkEngineContext(spark._jsc)
        client = hudi.client.SparkRDDWriteClient(context, config)
        try:
            yield client
        finally:
            client.close()
