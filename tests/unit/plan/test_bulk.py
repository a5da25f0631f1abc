"""A local bulk insert of much data makes several files a partition."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pudi
import pudi.engine.local.engine as engine_module


def test_many_records_make_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_module, "FILE_BYTES", 4000)
    data = pa.table({"id": [f"{n:08}" for n in range(1000)], "v": list(range(1000))})
    made = pudi.create(tmp_path / "t", data.schema, record_key="id")
    result = made.bulk_insert(data)
    assert result is not None
    assert result.files_written > 3
    assert len(made.file_slices()) == result.files_written
    assert sorted(made.scan(columns=["v"]).to_arrow()["v"].to_pylist()) == list(range(1000))
