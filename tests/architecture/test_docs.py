"""The docs say what the code does: the generated page is up to date, examples run, links lead somewhere."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from pudi.config import options_page

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def _block(language: str, holding: str) -> str:
    blocks = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return next(block for block in blocks if holding in block)


def test_the_option_page_is_the_generated_one() -> None:
    page = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    assert page == options_page(), "run make docs"


def test_the_readmes_example_is_the_file_and_prints_what_the_readme_says(tmp_path: Path) -> None:
    file = ROOT / "examples" / "quickstart.py"
    assert file.read_text(encoding="utf-8") == _block("python", "tempfile")
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, file], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == _block("text", "now")


def test_the_example_of_a_merger_keeps_the_highest_bids(tmp_path: Path) -> None:
    file = ROOT / "examples" / "keep_highest_bid.py"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, file], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lots = ({"lot": "clock", "bidder": "ann", "bid": 95}, {"lot": "vase", "bidder": "eve", "bid": 45})
    assert done.stdout.splitlines() == [str(lot) for lot in lots]


def test_the_examples_of_the_page_on_production_run(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "production.md").read_text(encoding="utf-8")
    made = pudi.create(
        tmp_path / "table", pa.schema([("id", pa.int64()), ("day", pa.string())]), record_key="id", partition_by="day"
    )
    for number in range(3):
        made.upsert(pa.table({"id": [number], "day": ["2026-01-01"]}))
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, {"pudi": pudi, "table": made})
    commands = re.findall(r"^    pudi (.*)$", text, re.MULTILINE)
    assert commands
    for command in commands:
        named = command.replace("PATH", made.path).replace("INSTANT", made.timeline.commits[-1].requested)
        told = CliRunner().invoke(app, shlex.split(named), input="y\n")
        assert told.exit_code == 0, f"pudi {named}: {told.output}"


def test_the_examples_of_the_page_on_hooks_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
    rows = pa.table({"id": [1, 2], "day": ["2026-01-01"] * 2})
    path = pudi.create(tmp_path / "table", rows.schema, record_key="id", partition_by="day").path
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, {"pudi": pudi, "path": path, "rows": rows})
    instant = pudi.Table(path).timeline.commits[-2].requested
    assert capsys.readouterr().out.splitlines() == [f"UPSERT {instant} 0"]


def test_the_quick_start_in_sql_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pudi.statement import local

    pytest.importorskip("duckdb")
    monkeypatch.setattr(local, "_SETTINGS", local._Settings())
    text = (ROOT / "docs" / "sql.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, {"pudi": pudi, "folder": tmp_path})
    found = pudi.sql("SELECT rider, fare FROM hudi_table ORDER BY rider").to_pylist()
    fares = {"rider-C": 27.7 * 3, "rider-D": 25.0 * 3, "rider-F": 34.15, "rider-J": 17.85}
    assert [(row["rider"], round(row["fare"], 2)) for row in found] == [(r, round(f, 2)) for r, f in fares.items()]


def test_the_examples_of_the_page_on_changes_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "changes.md").read_text(encoding="utf-8")
    path = str(tmp_path / "table")
    scope: dict[str, object] = {"path": path}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, scope)
    said = re.search(r"(?:^    [\[uid] ?.*\n)+", text, re.MULTILINE)
    assert said is not None
    printed = capsys.readouterr().out
    assert printed.startswith(re.sub("^    ", "", said[0], flags=re.MULTILINE))
    (command,) = re.findall(r"^    pudi (.*)$", text, re.MULTILINE)
    told = CliRunner().invoke(app, shlex.split(command.replace("PATH", path)))
    assert told.exit_code == 0, told.output
    assert "before" in told.output


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    targets = [target for target in re.findall(r"\]\(([^)#]+)\)", text) if not target.startswith("https://")]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_every_decision_is_listed() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    records = sorted(path.name for path in (ROOT / "docs" / "decisions").glob("*.md"))
    assert records
    assert [name for name in records if f"decisions/{name}" not in index] == []
    assert [name[:4] for name in records] == [f"{number:04}" for number in range(1, len(records) + 1)]


def test_the_glossary_names_what_the_code_defines() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Names")[2]
    names = [
        name for row in re.findall(r"^\| (`[^|]*) \|", page, re.MULTILINE) for name in re.findall(r"`([^`]+)`", row)
    ]
    assert len(names) > 100
    packages = {path: "\n".join(f.read_text(encoding="utf-8") for f in (ROOT / "src" / "pudi" / path).rglob("*.py"))
                for path in {name.partition(".")[0] for name in names}}  # fmt: skip
    defined = r"^(?:class |def |)%s\b(?:\(| ?[:=\[])"
    unknown = [
        n for n in names if not re.search(defined % n.partition(".")[2], packages[n.partition(".")[0]], re.MULTILINE)
    ]
    assert unknown == []


def _defines(dotted: str) -> bool:
    """Whether a dotted name below `pudi` leads to a package, a module, or to what a module defines."""
    names = dotted.split(".")
    for count in range(len(names), 0, -1):
        folder = ROOT.joinpath("src", "pudi", *names[:count])
        file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        if file.exists():
            text = file.read_text(encoding="utf-8")
            return all(re.search(rf"\b{name}\b", text) for name in names[count:])
    return False


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md"])
def test_modules_that_the_pages_for_contributors_name_exist(page: str) -> None:
    text = re.sub(r"```.*?```", "", (ROOT / page).read_text(encoding="utf-8").partition("## Names")[0], flags=re.DOTALL)
    packages = "|".join(path.name for path in (ROOT / "src" / "pudi").iterdir() if path.is_dir())
    dotted = re.findall(rf"`(?:pudi\.)?((?:{packages})\.\w+\.\w+)`", text)
    paths = re.findall(r"`((?:\w+/)+\w*(?:\.py)?)`", text)
    assert len(dotted) + len(paths) > 5
    assert [name for name in dotted if not _defines(name)] == []
    roots = (ROOT, ROOT / "src", ROOT / "src" / "pudi")
    assert [path for path in paths if not any((root / path).exists() for root in roots)] == []


def test_docstrings_name_only_modules_that_exist() -> None:
    found = {
        (str(file.relative_to(ROOT)), name)
        for file in (ROOT / "src").rglob("*.py")
        for name in re.findall(r"`pudi\.((?:\w+\.)+\w+)`", file.read_text(encoding="utf-8"))
    }
    assert len(found) > 10
    assert [each for each in sorted(found) if not _defines(each[1])] == []


def test_every_promise_links_to_its_test() -> None:
    page = (ROOT / "docs" / "promises.md").read_text(encoding="utf-8").partition("## What can't be detected")[0]
    promises = re.findall(r"^- (.*?)(?=^- |^#|\Z)", page, re.DOTALL | re.MULTILINE)
    assert len(promises) > 20
    untested = [text for text in promises if not re.search(r"\]\(\.\./tests/[^)]*test_\w+\.py\)", text)]
    assert untested == []
