"""An attempt that Spark gave up writes nothing once its write is over."""

from __future__ import annotations

import pytest

from pudi.engine.spark.file_tasks import FencedStorage
from pudi.errors import ConflictError
from pudi.format import heartbeat_path
from pudi.storage import open_storage

T1 = "20240101000001000"


def test_nothing_is_written_without_the_heartbeat() -> None:
    storage = open_storage("memory://fence")
    fenced = FencedStorage(storage, T1)
    storage.put(heartbeat_path(T1), b"")
    fenced.put("x/marker", b"")
    fenced.create("x/file", b"1")
    storage.delete([heartbeat_path(T1)])
    with pytest.raises(ConflictError, match="over"):
        fenced.create("x/late", b"2")
    with pytest.raises(ConflictError, match="over"):
        fenced.put("x/late.marker", b"")
    assert sorted(info.path for info in storage.list("x")) == ["x/file", "x/marker"]
