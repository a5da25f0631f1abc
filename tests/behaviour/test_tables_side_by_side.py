"""Tables that one process uses in several threads don't wait for each other."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow as pa

import pudi
from pudi.client import MetaClient
from pudi.context import Context
from pudi.storage import StorageWrapper, open_storage

T = TypeVar("T")
ROWS = pa.table({"key": ["a", "b"], "value": [1, 2]})


class SlowStorage(StorageWrapper):
    """A store whose answer to a read of a replacecommit is long in coming."""

    def __init__(self, root: Path) -> None:
        super().__init__(open_storage(root))
        self.asked, self.answers = threading.Event(), threading.Event()

    def _call(self, kind: str, path: str, do: Callable[[], T]) -> T:
        if kind == "read" and path.endswith(".replacecommit"):
            self.asked.set()
            assert self.answers.wait(300)
        return super()._call(kind, path, do)


def test_a_slow_store_holds_up_its_own_table_alone(tmp_path: Path) -> None:
    for name in ("slow", "fast"):
        made = pudi.create(str(tmp_path / name), ROWS.schema, record_key="key")
        made.insert(ROWS)
        made.insert_overwrite_table(ROWS)
        made.upsert(ROWS)
    storage = SlowStorage(tmp_path / "slow")
    slow = pudi.Table.of(MetaClient.open(storage.root, None, {}, Context(), storage), {})
    counts: list[int] = []
    threads = [
        threading.Thread(target=lambda table=table: counts.append(table.scan().to_arrow().num_rows), daemon=True)
        for table in (slow, pudi.Table(str(tmp_path / "fast")))
    ]
    try:
        threads[0].start()
        assert storage.asked.wait(60)
        threads[1].start()
        threads[1].join(120)
        assert counts == [2]
    finally:
        storage.answers.set()
    for thread in threads:
        thread.join(60)
    assert counts == [2, 2]
