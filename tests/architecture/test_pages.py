"""The guides' examples run on the local engine, and the page of limits names all that the code refuses."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
import pudi.testing
from support.guides import DOCS, run_page

pytestmark = pytest.mark.metadata_by_default

SOURCE = Path(__file__).parents[2] / "src" / "pudi"
GUIDES = {
    "tutorial": ["duckdb"],
    "create": [],
    "writing": [],
    "reading": ["duckdb", "polars"],
    "time-travel": [],
    "merge": [],
    "schema": [],
    "catalogs": ["typer"],
    "interop": ["duckdb", "hudi"],
    "from-delta": ["deltalake"],
}
"""Pages and the packages that their examples need."""


@pytest.mark.parametrize("page", GUIDES)
def test_the_examples_of_a_guide_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for package in GUIDES[page]:
        pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    run_page(f"{page}.md", capsys, {})


@pytest.mark.parametrize("page", ["concurrency", "health", "indexes", "looking", "merging", "storages"])
def test_the_examples_about_a_table_that_is_there_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    data = pa.table({"id": [1, 2], "rider": ["ann", "bob"], "fare": [9.5, 20.0], "ts": [1, 2], "account": ["a7", "a8"]})
    table = pudi.create("trips", data.schema, record_key="id")
    table.insert(data)
    bids = pa.schema([("lot", pa.string()), ("bid", pa.int64())])
    scope = {"pudi": pudi, "table": table, "data": data, "raised": lambda rows: rows, "path": "bids", "schema": bids}
    run_page(f"{page}.md", capsys, scope)


def test_the_page_of_limits_covers_every_module_that_refuses_something() -> None:
    page = (DOCS / "limits.md").read_text(encoding="utf-8")
    named = set(" ".join(re.findall(r"<!-- from: (.*?) -->", page)).split())
    refusing = {
        file.relative_to(SOURCE).as_posix()
        for file in SOURCE.rglob("*.py")
        if "NotSupportedError(" in file.read_text(encoding="utf-8")
    }
    assert refusing - named - {"errors.py"} == set(), "say in docs/limits.md what they refuse, why, and what to do"
    assert [name for name in named if not (SOURCE / name).exists()] == []


def test_the_page_of_limits_names_the_procedures_without_a_verb() -> None:
    from pudi.statement.procedures.call import WITHOUT

    listed = (DOCS / "limits.md").read_text(encoding="utf-8").partition("### Procedures without a verb")[2]
    assert set(re.findall(r"`(\w+)`", listed.partition("## Ingestion")[0])) == WITHOUT


def test_the_reference_has_every_public_name() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (DOCS / "reference").glob("*.md"))
    names = [f"pudi.{name}" for name in pudi.__all__ if name not in {"__version__", "ingest", "spark"}]
    names += [f"pudi.Table.{name}" for name in dir(pudi.Table) if not name.startswith("_")]
    for module in (pudi.spark, pudi.ingest, pudi.testing):
        names += [f"{module.__name__}.{name}" for name in module.__all__]
    errors = [name for name in names if name.endswith("Error")]
    assert [n for n in names if n not in errors and not re.search(rf"^::: {n}$", pages, re.MULTILINE)] == []


def test_the_specification_names_modules_and_tests_that_exist() -> None:
    root = SOURCE.parents[1]
    text = (DOCS / "specification.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| ") and "`" in line]
    assert len(rows) > 80
    for feature, modules, tests, _ in rows:
        for column, folder in ((modules, "src/pudi"), (tests, "tests")):
            named = re.findall(r"`([^`]+)`", column)
            assert named or column.strip() == "-", feature
            assert [name for name in named if not (root / folder / name).is_file()] == [], feature
