"""Import what a user names on the command line: the one place where a name makes pudi import code."""

from __future__ import annotations

import functools
import importlib
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path as LocalPath
from typing import Any

import pudi
from pudi.errors import InvalidArgumentError, PudiError


def register(named: str | None) -> None:
    """Register the merger `module:Class`, if one is named; the working folder is searched too.

    The arguments come from the command line only, never from a table or an option.

    Raises:
        InvalidArgumentError: it can't be imported, or made without arguments, or is no merger.
    """
    if named is None:
        return
    with _user_code("--merger", named):
        merger: Any = _imported("--merger", named, what="Class")()
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
    here = str(LocalPath.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    with _user_code(option, named):
        return getattr(importlib.import_module(module), name)  # noqa: TID251


@contextmanager
def _user_code(option: str, named: str) -> Iterator[None]:
    """Raise what the user's module raises as an error of the option that names it."""
    try:
        yield
    except PudiError:
        raise
    except Exception as error:
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
