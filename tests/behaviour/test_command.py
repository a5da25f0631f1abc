"""The commands `pudi compact`, `clean` and `run-pending`, as typed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import pudi
from support.golden import Golden

MERGER = """
import pudi
import pyarrow as pa
import pyarrow.compute as pc

class Highest(pudi.RecordMerger):
    strategy_id = "{}"

    def merge(self, older, newer, context):
        places = pc.if_else(pc.greater_equal(newer["bid"], older["bid"]), 1, 0).to_numpy(zero_copy_only=False)
        both = pa.Table.from_batches([older, newer])
        rows = places * older.num_rows + pa.array(range(older.num_rows)).to_numpy()
        return both.take(pa.array(rows)).combine_chunks().to_batches()[0]
"""
NO_METADATA = ["-o", "hoodie.metadata.enable=false"]


@pytest.fixture
def services(golden_folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(Golden("mor_v9_services").unpack(golden_folder), tmp_path / "t")
    return tmp_path / "t"


@pytest.fixture
def call() -> Callable[..., tuple[int, str]]:
    from pudi.cli.app import app

    def run(*words: object) -> tuple[int, str]:
        result = CliRunner().invoke(app, [str(word) for word in words])
        return result.exit_code, result.output

    return run


def _logs(path: Path) -> int:
    return sum(len(file_slice.logs) for file_slice in pudi.Table(path).file_slices())


def test_compact(services: Path, call: Callable[..., tuple[int, str]]) -> None:
    assert _logs(services) > 0
    code, said = call("compact", services, *NO_METADATA, "--verify", "--strategy", "LogFileNumBased")
    assert (code, "COMPACT" in said) == (0, True), said
    assert _logs(services) == 0
    assert call("compact", services) == (0, "nothing to compact\n")


def test_plan_and_run(services: Path, call: Callable[..., tuple[int, str]]) -> None:
    code, said = call("compact", services, *NO_METADATA, "--plan-only")
    assert code == 0
    assert said.startswith("planned 20")
    code, said = call("compact", services, "--run-only")
    assert (code, "COMPACT" in said) == (0, True), said
    assert _logs(services) == 0
    assert call("compact", services, "--run-only") == (0, "nothing to compact\n")


def test_run_only_runs_compactions_alone(services: Path, call: Callable[..., tuple[int, str]]) -> None:
    planned = pudi.Table(services).schedule("clustering", options={"hoodie.metadata.enable": "false"})
    assert planned is not None
    assert call("compact", services, *NO_METADATA, "--run-only") == (0, "nothing to compact\n")
    assert [each.requested for each in pudi.Table(services).timeline.pending] == [planned]
    code, said = call("run-pending", services, *NO_METADATA)
    assert (code, planned in said) == (0, True), said


@pytest.mark.parametrize(
    "given", [["--policy", "KEEP_LATEST_FILE_VERSIONS"], ["-o", "hoodie.clean.policy=KEEP_LATEST_FILE_VERSIONS"]]
)
def test_what_a_clean_retains_is_by_its_policy(
    tmp_path: Path, call: Callable[..., tuple[int, str]], given: list[str]
) -> None:
    table = pudi.create(tmp_path / "t", {"id": "int", "v": "int"}, record_key="id")
    for number in range(4):
        table.upsert(pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([number], pa.int32())}))
    code, said = call("clean", tmp_path / "t", *NO_METADATA, *given, "--retain", "2")
    assert code == 0, said
    assert len(table.files(everything=True)) == 2


def test_log(services: Path, call: Callable[..., tuple[int, str]]) -> None:
    before = _logs(services)
    threshold = ["-o", "hoodie.log.compaction.blocks.threshold=1"]
    code, said = call("compact", services, *NO_METADATA, *threshold, "--log")
    assert (code, "LOG_COMPACT" in said) == (0, True), said
    assert _logs(services) > before


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["nowhere"], 1, "TableNotFoundError"),
        ([".", "--strategy", "com.example.Mine"], 1, "never loaded"),
        ([".", "-o", "hoodie.compact.inlnie=true"], 1, "did you mean"),
        ([".", "-o", "hoodie.metadata.enable"], 2, "KEY=VALUE"),
        ([".", "--plan-only", "--run-only"], 2, "exclude"),
        ([".", "--run-only", "--strategy", "LogFileNumBased"], 2, "for a new plan"),
        ([".", "--merger", "nowhere"], 1, "module:Class"),
        ([".", "--merger", "no_such_module:Mine"], 1, "no_such_module"),
        ([".", "--merger", "pathlib:PurePath"], 1, "RecordMerger"),
    ],
)
def test_what_is_wrong_is_told_in_a_line(
    services: Path,
    call: Callable[..., tuple[int, str]],
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
    code: int,
    told: str,
) -> None:
    monkeypatch.chdir(services)
    found, said = call("compact", *words)
    assert found == code
    assert told in said
    assert "Traceback" not in said


def test_a_merger_of_the_users_own(
    tmp_path: Path, call: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    identifier = "5a3c9c4e-6f0f-4d2e-9b1c-0c9d3a7f1e55"
    (tmp_path / "bids_merger.py").write_text(MERGER.format(identifier))
    monkeypatch.chdir(tmp_path)
    made = pudi.create(
        tmp_path / "bids",
        pa.schema([("item", pa.string()), ("bid", pa.int64())]),
        record_key="item",
        table_type="mor",
        options={"hoodie.record.merge.mode": "CUSTOM", "hoodie.record.merge.strategy.id": identifier},
    )
    monkeypatch.syspath_prepend(tmp_path)
    from bids_merger import Highest

    pudi.register_merger(Highest())
    made.insert(pa.table({"item": ["a", "b"], "bid": [5, 5]}))
    made.upsert(pa.table({"item": ["a", "b"], "bid": [3, 9]}))
    code, said = call("compact", made.path, "--merger", "bids_merger:Highest")
    assert (code, "COMPACT" in said) == (0, True), said
    found = made.scan(read_optimized=True, columns=["item", "bid"]).to_arrow().sort_by("item").to_pylist()
    assert found == [{"item": "a", "bid": 5}, {"item": "b", "bid": 9}]


@pytest.mark.parametrize(
    "words",
    [
        ["changes", "{path}", "--json"],
        ["export", "{path}", "{path}-out"],
        ["maintain", "{path}"],
        ["forget", "{path}", "--where", "item = 'a'", "--yes"],
        ["head", "{path}", "--json"],
        ["run-pending", "{path}"],
        ["cluster", "{path}"],
        ["schedule", "{path}", "clustering"],
        ["index", "{path}", "show"],
        ["upgrade", "{path}", "--to", "9", "--dry-run"],
        ["check", "{path}"],
        ["repair", "{path}", "--dry-run"],
    ],
    ids=lambda words: words[0],
)
def test_every_command_that_merges_takes_a_merger(
    tmp_path: Path, call: Callable[..., tuple[int, str]], monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    (tmp_path / "merger_to_name.py").write_text(MERGER.format("0b8b6e6f-2a35-4d0c-a7b5-6a9d6c1c2f10"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    registered: list[object] = []
    monkeypatch.setattr(pudi, "register_merger", registered.append)
    made = pudi.create(tmp_path / "bids", pa.schema([("item", pa.string()), ("bid", pa.int64())]), record_key="item")
    made.insert(pa.table({"item": ["a", "b"], "bid": [5, 5]}))
    named = [word.format(path=made.path) for word in words]
    code, said = call(named[0], *named[1:], "--merger", "merger_to_name:Highest")
    assert code == 0, said
    assert [type(each).__name__ for each in registered] == ["Highest"]


def test_from_a_shell(services: Path) -> None:
    words = [sys.executable, "-m", "pudi.cli", "compact", str(services), *NO_METADATA]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "COMPACT" in done.stdout
    version = subprocess.run([*words[:3], "--version"], capture_output=True, text=True, timeout=60, check=False)
    assert version.stdout.strip() == pudi.__version__
