"""What is a Spark frame, and what is told a user whose machine can't run Spark."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from pudi.engine import is_spark_frame
from pudi.engine.spark.session import check_version


def test_other_data_is_no_spark_frame_and_pyspark_is_not_imported_to_know() -> None:
    code = (
        "import sys, pyarrow as pa, pudi\n"
        "from pudi.engine import is_spark_frame\n"
        "assert not is_spark_frame(pa.table({'a': [1]}))\n"
        "assert not [name for name in sys.modules if name.split('.')[0] == 'pyspark']\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
    assert not is_spark_frame(pa.table({"a": [1]}))


def _fake_java(folder: Path, version: str) -> Path:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2020-01-01' >&2\n")
    program.chmod(0o755)
    return folder


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(pudi.SetupError, match="there is no Java"):
        pudi.spark.require_spark()
    assert pudi.spark.require_spark(java=False)


@pytest.mark.parametrize("version", ["1.7.0_80", "7"])
def test_java_too_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_fake_java(tmp_path, version)))
    with pytest.raises(pudi.SetupError, match="is Java 7"):
        pudi.spark.require_spark()


def test_a_good_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(_fake_java(tmp_path, "17.0.15")))
    assert pudi.spark.require_spark()[0].isdigit()


@pytest.mark.parametrize("version", ["3.4.4", "2.4.8"])
def test_spark_too_old(version: str) -> None:
    with pytest.raises(pudi.SetupError, match=r"needs 3\.5"):
        check_version(version, "the session's Spark")


@pytest.mark.parametrize("version", ["3.5.0", "3.5.8", "4.0.0.dev1", "4.3.0", "10.0.1"])
def test_spark_new_enough(version: str) -> None:
    check_version(version, "pyspark")
