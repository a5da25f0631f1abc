"""Share what all commands need: arguments of one meaning, the open table, questions, errors as a line."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console

import pudi
from pudi.cli.user_code import register
from pudi.errors import PudiError

_LEAST_WIDTH = 100
"""Columns that a report takes; on a narrower terminal it's wrapped rather than cut."""
WRONG = 2
"""Exit code where a table isn't as it should be; 1 is that of an error, 0 that all is well."""
Path = Annotated[str, typer.Argument(help="The table's root: a folder, or a URL such as s3://bucket/table.")]
WriteOption = Annotated[
    list[str] | None, typer.Option("--option", "-o", help="A Hudi option as KEY=VALUE; more than once for more.")
]
StorageOption = Annotated[
    list[str] | None, typer.Option(help="A setting of the storage as KEY=VALUE; more than once for more.")
]
SourceOption = Annotated[
    list[str] | None, typer.Option(help="A setting of the source's storage, where it differs, as KEY=VALUE.")
]
Merger = Annotated[
    str | None, typer.Option(help="Merger of the table's records, as module:Class; imported and registered.")
]
Columns = Annotated[
    list[str] | None,
    typer.Option("--columns", "-c", help="Columns, with commas between them; more than once for more."),
]
Where = Annotated[str | None, typer.Option(help="SQL predicate over the records.")]
AsOf = Annotated[str | None, typer.Option("--as-of", help="The moment to read at: an instant or a time.")]
MetaFields = Annotated[bool, typer.Option("--meta-fields", help="Hudi's own columns too.")]
Rows = Annotated[int, typer.Option("--rows", "-n", min=0, help="How many rows at most.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="List what would be done, and change nothing.")]
PlanOnly = Annotated[bool, typer.Option("--plan-only", help="Plan, for another process to run.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask; --json needs it where a command would ask.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def opened(path: str, storage_option: list[str] | None, merger: str | None = None) -> pudi.Table:
    """The table of a command; the merger of its records is registered before."""
    register(merger)
    return pudi.Table(path, storage_options=pairs("--storage-option", storage_option) or None)


def plain(text: str) -> str:
    """A text of a table as a terminal may show it: what isn't printable is escaped."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def say(text: str, *, err: bool = False) -> None:
    """Print a text that may hold names and values of tables: as `plain`, line by line."""
    typer.echo("\n".join(map(plain, text.split("\n"))), err=err)


def say_json(what: object) -> None:
    """Print a result, as text or as JSON."""
    say(what if isinstance(what, str) else json.dumps(what, indent=2))


def counted(count: int, noun: str) -> str:
    """A number of things in words: `1 file`, `2,000 files`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def split(given: list[str] | None) -> list[str] | None:
    """Names as typed, with commas between them; None where none are."""
    return [name.strip() for text in given or () for name in text.split(",")] or None


def pairs(name: str, given: Sequence[str] | None) -> dict[str, str]:
    """Options as typed, by key.

    Raises:
        BadParameter: one isn't KEY=VALUE.
    """
    found = {}
    for text in given or ():
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise typer.BadParameter(f"{name} {text!r}: give it as KEY=VALUE")
        found[key] = value
    return found


def asks(*, yes: bool, as_json: bool, or_dry_run: bool = True) -> bool:
    """Return whether a command asks a person before it changes a table for good.

    Args:
        yes: whether the answer is given by --yes.
        as_json: whether the output is JSON, for a script, which nobody can answer for.
        or_dry_run: whether the command has --dry-run too, for the error.

    Raises:
        BadParameter: it would have to ask, and the output is JSON.
    """
    if as_json and not yes:
        raise typer.BadParameter(f"--json asks nothing: give --yes {'or --dry-run ' if or_dry_run else ''}with it")
    return not yes


def console(least: int = _LEAST_WIDTH) -> Console:
    """Console for reports.

    Args:
        least: columns that the report takes.
    """
    found = Console()
    found.width = max(least, found.width)
    return found


@contextmanager
def errors() -> Iterator[None]:
    """Report expected errors as one line without a traceback."""
    try:
        yield
    except PudiError as error:
        say(f"{type(error).__name__}: {error}", err=True)
        raise typer.Exit(1) from error


@contextmanager
def stopping_at_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first SIGTERM or SIGINT; a second signal has the system's effect."""

    def handle(number: int, _: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop()

    before = {each: signal.signal(each, handle) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def spark_session(name: str) -> tuple[Any, Callable[[], None]]:
    """Return a Spark session, and a function that ends it if it was made here."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - only with --spark

    active = SparkSession.getActiveSession()
    session = active or SparkSession.builder.appName(name).getOrCreate()
    return session, session.stop if active is None else lambda: None
