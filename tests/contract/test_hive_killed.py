"""A Hive Metastore that dies in the middle of a sync: the sync says so, and the next one does the rest."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pudi
from pudi.catalogs import TableName
from pudi.catalogs.hive import HiveCatalog
from pudi.catalogs.thrift_client import Metastores, addresses
from support.hive import serve_hive

pytest.importorskip("thrift")

pytestmark = [pytest.mark.spark, pytest.mark.slow]  # the metastore's classes lie among Spark's jars

NAMES = ("t_ro", "t_rt", "t")
PARTITIONS, BATCH = 60, 10


class Killing(HiveCatalog):
    """A catalog whose metastore is killed before a request."""

    process: subprocess.Popen[bytes]
    method: str
    calls: int

    def _call(self, method: str, about: Any, arguments: Any) -> Any:
        if method == self.method:
            self.calls -= 1
            if self.calls == 0:
                self.process.kill()
                self.process.wait()
        return super()._call(method, about, arguments)


@pytest.mark.parametrize(("method", "calls"), [("create_table", 2), ("add_partitions_req", 9)])
def test_the_next_sync_does_the_rest(tmp_path: Path, method: str, calls: int) -> None:
    table = pudi.create(
        str(tmp_path / "t"), {"id": "long", "c": "string"}, record_key="id", partition_by="c", table_type="mor"
    )
    table.insert(pa.table({"id": range(PARTITIONS), "c": [f"p{n}" for n in range(PARTITIONS)]}))
    processes: list[subprocess.Popen[bytes]] = []
    (tmp_path / "hive").mkdir()
    with serve_hive(tmp_path / "hive", processes) as uri:
        catalog = Killing(Metastores(addresses(uri, "hive")), batch_size=BATCH)
        catalog.process, catalog.method, catalog.calls = processes[0], method, calls
        with pytest.raises(pudi.UnavailableError, match=f"doesn't answer '{method}'"):
            table.sync(catalog, "rides.t")
    with serve_hive(tmp_path / "hive") as uri, HiveCatalog(Metastores(addresses(uri, "hive"))) as again:
        done = table.sync(again, "rides.t")
        assert sum(each.added for each in done.tables) < len(NAMES) * PARTITIONS or method == "create_table"
        for name in NAMES:
            entry = again.table(TableName("rides", name))
            assert entry is not None
            assert len(again.partition_values(entry)) == PARTITIONS
        assert not any(each.is_changed for each in table.sync(again, "rides.t").tables)
