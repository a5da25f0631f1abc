"""Share what commands need: options of one meaning, the open table, questions, errors as a line, code that a user names.

This is the one place where a name makes pudi import code, and the name comes from the command line alone.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any
import typer
from rich.console import Console
import pudi
from pudi.errors import PudiError
import functools
import importlib
import sys
import traceback
from pathlib import Path
from typing import Any
from pudi.errors import InvalidArgumentError, PudiError

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
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]


def opened(path: str, storage_option: list[str] | None) -> pudi.Table:
    """The table of a command."""
    return pudi.Table(path, storage_options=pairs("--storage-option", storage_option) or None)


def plain(text: str) -> str:
    """A text of a table as a terminal may show it: what isn't printable is escaped."""
    return text if text.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


def say(text: str, *, err: bool = False) -> None:
    """Print a text that may hold names and values of tables: as `plain`, line by line."""
    typer.echo("\n".join(map(plain, text.split("\n"))), err=err)


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


def _register(named: str) -> None:
    """Register the merger `module:Class`; the working folder is searched too.

    The arguments come from the command line only, never from a table or an option.

    Raises:
        InvalidArgumentError: it can't be imported, or made without arguments, or is no merger.
    """
    try:
        merger: Any = _imported("--merger", named, what="Class")()
    except PudiError:
        raise
    except Exception as error:  # any exception of the user's module
        raise InvalidArgumentError(f"--merger {named!r} can't be made: {type(error).__name__}: {error}") from error
    if not isinstance(merger, pudi.RecordMerger):
        raise InvalidArgumentError(f"--merger {named!r} is no pudi.RecordMerger")
    pudi.register_merger(merger)


def _imported(option: str, named: str, *, what: str = "function") -> Any:
    """Import what the command line names as `module:name`; the working folder is searched too.

    Only what stands on the command line comes here, never what a table or an option says.

    Raises:
        InvalidArgumentError: it can't be imported.
    """
    module, _, name = named.partition(":")
    if not module or not name:
        raise InvalidArgumentError(f"{option} {named!r}: give it as module:{what}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return getattr(importlib.import_module(module), name)  # noqa: TID251
    except PudiError:
        raise
    except Exception as error:  # any exception of the user's module
        raise InvalidArgumentError(f"{option} {named!r} can't be made: {type(error).__name__}: {error}") from error


def imported_transform(named: str) -> Any:
    """Import the transform `module:function`; its exceptions become errors of one line, with their place in its code.

    Raises:
        InvalidArgumentError: it can't be imported; by the returned function: it failed.
    """
    function = _imported("--transform", named)
    if not callable(function):
        return function

    @functools.wraps(function, updated=())
    def run(records: Any) -> Any:
        try:
            return function(records)
        except PudiError:
            raise
        except Exception as error:  # any exception of the user's function
            frames = traceback.extract_tb(error.__traceback__)
            own = [each for each in frames[1:] if each.filename == frames[1].filename] or frames
            raise InvalidArgumentError(
                f"--transform {named!r} failed at {own[-1].filename}, line {own[-1].lineno}: "
                f"{type(error).__name__}: {error}; nothing of the batch was written"
            ) from error

    return run
