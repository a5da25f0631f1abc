"""What each way into pudi loads, by the names of modules, and that deferred imports are imports to everyone else."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from pudi.context.runtime import lazy_module

SOURCE = Path(__file__).parents[2] / "src" / "pudi"
MODULES = sorted(SOURCE.rglob("*.py"))

FRAMES = {"pyspark", "pandas", "polars", "duckdb"}
"""Libraries whose data pudi takes, and which the user loads."""
FIRST_USE = {"sqlglot", "fastavro", "filelock", "psutil", "javaproperties"}
"""Libraries that pudi loads when something needs them."""
ARROW = {"numpy", "pyarrow"}
ACTIONS = {
    *(
        f"pudi.{package}.{path.stem}"
        for package in ("recovery", "services", "upgrade", "writes")
        for path in (SOURCE / package).glob("[!_]*.py")
    ),
    *(f"pudi.table.{name}" for name in ("check", "doctor", "merge_builder", "repair")),
} - {"pudi.writes.create", "pudi.writes.prerequisites"}
"""Modules of verbs but for those of `pudi.create`, which comes with the table."""


def loaded(code: str) -> set[str]:
    """Names of the modules in a new process after some code has run."""
    command = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def test_import_pudi_loads_only_what_every_process_needs() -> None:
    modules = loaded("import pudi")
    assert modules.isdisjoint(FRAMES | FIRST_USE | ARROW | {"obstore"})
    own = {name for name in modules if name.split(".")[0] == "pudi"}
    assert {".".join(name.split(".")[:2]) for name in own} == {"pudi", "pudi.context", "pudi.errors", "pudi.version"}


def test_a_table_loads_no_action_and_no_spark() -> None:
    modules = loaded("import pudi; pudi.Table")
    assert modules.isdisjoint(FRAMES | FIRST_USE | ACTIONS)
    assert {name for name in modules if name.startswith("pudi.engine.spark")} == set()


def test_a_scan_loads_no_action_and_no_sql(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    loaded(
        "import pudi, pyarrow as pa\n"
        "rows = pa.table({'k': ['a'], 'v': [1]})\n"
        f"pudi.create({path!r}, rows.schema, record_key='k').upsert(rows)"
    )
    modules = loaded(f"import pudi; assert pudi.Table({path!r}).scan().to_arrow().num_rows == 1")
    assert modules.isdisjoint(
        FRAMES - {"pandas"} | {"sqlglot", "psutil", "filelock"} | ACTIONS
    )  # pyarrow loads pandas itself
    assert {name for name in modules if name.startswith("pudi.engine.spark")} == set()


@pytest.mark.parametrize("module", ["file_tasks", "buckets", "read_tasks", "session"])
def test_a_spark_worker_loads_its_tasks_alone(module: str) -> None:
    modules = loaded(f"import pudi.engine.spark.{module}")
    assert modules.isdisjoint(FRAMES | FIRST_USE)
    packages = {".".join(name.split(".")[:2]) for name in modules if name.startswith("pudi.")}
    assert packages.isdisjoint(
        {f"pudi.{each}" for each in ("client", "commit", "writes", "cli", "concurrency", "scan", "spark", "table")}
    )
    assert "pudi.engine.spark.engine" not in modules
    assert "pudi.engine.local" not in modules


def test_a_write_task_on_a_local_disk_loads_no_stores_and_no_expressions() -> None:
    modules = loaded("import pudi.engine.spark.file_tasks, pudi.storage; pudi.storage.open_storage('/')")
    assert modules.isdisjoint({"obstore", "pudi.expr", "pudi.plan.read", "pudi.metadata.table"})


def test_a_write_without_hooks_loads_none(tmp_path: Path) -> None:
    modules = loaded(
        "import pudi, pyarrow as pa\n"
        "rows = pa.table({'k': ['a'], 'v': [1]})\n"
        f"pudi.create({str(tmp_path / 't')!r}, rows.schema, record_key='k').upsert(rows)"
    )
    assert modules.isdisjoint({"prometheus_client", "opentelemetry", "opentelemetry.metrics", "duckdb"})
    own = {f"pudi.hooks.{name}" for name in ("http_callback", "metrics", "reporters")}
    assert modules.isdisjoint(own)


def test_the_help_of_the_command_loads_no_arrow() -> None:
    pytest.importorskip("typer")
    modules = loaded("import pudi.cli.app")
    assert modules.isdisjoint(FRAMES | FIRST_USE | ARROW)
    assert modules.isdisjoint({"pudi.table", "pudi.client", "pudi.format"})


def test_public_names_are_there_and_no_others() -> None:
    listed = "import pudi; assert set(pudi.__all__) <= set(dir(pudi)); [getattr(pudi, name) for name in pudi.__all__]"
    assert "pudi.spark" in loaded(listed)
    loaded("from pudi import *; Table, create, spark.write")
    loaded("import pudi; assert not hasattr(pudi, 'Tabel')")


@pytest.mark.parametrize("package", ["plan", "task", "metadata"])
def test_names_that_load_at_first_use_are_there(package: str) -> None:
    module = importlib.import_module(f"pudi.{package}")
    assert set(module.__all__) == set(module._SOURCES)
    for name, source in module._SOURCES.items():
        assert getattr(module, name) is getattr(importlib.import_module(source), name)


def test_a_lazy_module_is_the_module() -> None:
    stand_in = lazy_module("json")
    assert stand_in.dumps([1]) == "[1]"
    assert "loads" in dir(stand_in)
    with pytest.raises(AttributeError):
        _ = stand_in.nothing


def test_deferred_imports_are_imports_to_type_checkers_and_layers() -> None:
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        calls = [each for each in ast.walk(tree) if isinstance(each, ast.Call)]
        lazy = [call for call in calls if ast.unparse(call.func) == "lazy_module"]
        guarded = [pair for node in tree.body if isinstance(node, ast.If) for pair in _deferred(node)]
        rule = f"{path}: write it under `else:` of `if TYPE_CHECKING:`, at the top of the module"
        assert len(lazy) == len(guarded), rule
        for node in tree.body:
            if isinstance(node, ast.If) and (deferred := _deferred(node)):
                assert set(deferred) <= set(_imported(node)), rule


def _deferred(node: ast.If) -> list[tuple[str, str]]:
    """Names that the `else` of a type-checking block binds, each with the module that it stands for."""
    if ast.unparse(node.test) != "TYPE_CHECKING":
        return []
    return [
        (ast.unparse(each.targets[0]), ast.literal_eval(each.value.args[0]))
        for each in node.orelse
        if isinstance(each, ast.Assign) and isinstance(each.value, ast.Call)
    ]


def _imported(node: ast.If) -> list[tuple[str, str]]:
    """Names that a type-checking block imports, each with the module that it's of."""
    found = []
    for each in node.body:
        if isinstance(each, ast.Import):
            found += [(name.asname or name.name, name.name) for name in each.names]
        elif isinstance(each, ast.ImportFrom):
            found += [(name.asname or name.name, f"{each.module}.{name.name}") for name in each.names]
    return found
