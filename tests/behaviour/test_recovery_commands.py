"""Savepoints, rollback and restore from the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from support.layouts import Layout
from support.trips import SCHEMA, table, trip


def run(*arguments: object, answer: str | None = None) -> str:
    result = CliRunner().invoke(app, [str(each) for each in arguments], input=answer)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_bad_batch_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    pudi.create(path, SCHEMA, **Layout(version=9, kind="mor").create_arguments())
    mine = pudi.Table(path)
    good = mine.upsert(table([trip(0, 1)])).instant
    assert "no savepoints" in run("savepoint", path)
    assert good in run("savepoint", path, "create", "--comment", "before the feed", "--user", "ann")
    bad = mine.upsert(table([trip(0, 2), trip(1, 2)])).instant
    worse = mine.upsert(table([trip(0, 3)])).instant
    [listed] = json.loads(run("savepoint", path, "--json"))
    assert (listed["instant"], listed["comment"], listed["user"]) == (good, "before the feed", "ann")
    assert "1 commit rolled back" in run("rollback", path, worse, answer="y\n")
    assert mine.scan().to_arrow().num_rows == 2
    refused = CliRunner().invoke(app, ["restore", str(path), good], input="n\n")
    assert refused.exit_code == 1
    assert mine.timeline.commits[-1].requested == bad
    done = json.loads(run("restore", path, good, "--yes", "--json"))
    assert done["rolled_back"] == [bad]
    assert [row["ts"] for row in mine.scan().to_arrow().to_pylist()] == [1]
    assert good in run("savepoint", path, "delete", good)
    assert "no savepoints" in run("savepoint", path)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (("restore", "{path}", "20200101000000000"), "no completed commit of that time"),
        (("rollback", "{path}", "20200101000000000"), "no completed commit of that time"),
        (("forget", "{path}", "--where", "nope = 1"), "nope"),
        (("restore", "{path}", "{instant}", "--json"), "--json asks nothing: give --yes with it"),
        (("rollback", "{path}", "{instant}", "--json"), "--json asks nothing: give --yes with it"),
        (("upgrade", "{path}", "--to", "8", "--json"), "--json asks nothing: give --yes or --dry-run with it"),
        (("forget", "{path}", "--where", "ts = 1", "--json"), "--json asks nothing: give --yes or --dry-run with it"),
        (("repair", "{path}", "--json"), "--json asks nothing: give --yes or --dry-run with it"),
        (("restore", "{path}", "{instant}", "-o", "nope"), "KEY=VALUE"),
        (("rollback", "{path}", "{instant}", "-o", "nope"), "KEY=VALUE"),
        (("forget", "{path}", "--where", "ts = 1", "-o", "nope"), "KEY=VALUE"),
        (("savepoint", "{path}", "list", "{instant}"), "takes no instant"),
        (("savepoint", "{path}", "delete", "{instant}", "--comment", "why"), "are for create"),
    ],
    ids=lambda each: each[0] if isinstance(each, tuple) else "",
)
def test_nothing_is_asked_about_what_can_not_be_done(tmp_path: Path, command: tuple[str, ...], told: str) -> None:
    path = tmp_path / "trips"
    pudi.create(path, SCHEMA, **Layout().create_arguments())
    instant = pudi.Table(path).upsert(table([trip(0, 1)])).instant
    result = CliRunner().invoke(app, [each.format(path=path, instant=instant) for each in command], input="y\n")
    assert result.exit_code
    assert "[y/N]" not in result.output
    assert told in result.output.replace("\n", " "), result.output
    assert pudi.Table(path).scan().to_arrow().num_rows == 1


def test_errors_name_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "trips"
    pudi.create(path, SCHEMA, **Layout().create_arguments())
    pudi.Table(path).upsert(table([trip(0, 1)]))
    for arguments, told in (
        (["restore", str(path)], "no restore is pending"),
        (["restore", str(path), "20200101000000000", "-y"], "no completed commit of that time"),
        (["savepoint", str(path), "delete", "20200101000000000"], "has no savepoint; the table's savepoints: none"),
        (["rollback", str(path), "20200101000000000", "-y"], "no completed commit of that time"),
    ):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 1
        assert told in result.output.replace("\n", " "), result.output
