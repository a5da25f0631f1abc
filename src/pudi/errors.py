"""The exception classes: one tree, divided by what a caller can do next."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

NO_FILE = "there is no such file"
"""Message of the error of a storage that doesn't have a file."""
_LONGEST = 4000
"""Maximum characters of a message; the middle of a longer one is left out."""
_LONGEST_NAME = 300
"""Maximum characters of a name or a word in a message, likewise: data and files can have names of any length."""
_LONG_NAMES = re.compile(rf"'[^'\n]{{{_LONGEST_NAME},}}'|\S{{{_LONGEST_NAME + 1},}}")
_LONGEST_PATH = 1000
"""Maximum characters of a path as an error is printed; its attributes have the whole one."""


class PudiError(Exception):
    """Root of every error that pudi raises on purpose.

    Args:
        message: what happened, what was expected and what to do.
        table: location of the table; None if no table is concerned.
        path: the file concerned, relative to the table's root.
        instant: requested time of the instant concerned.
        offset: byte offset in `path` of the damage.
    """

    retryable: bool = False
    """Whether the same call may succeed if it is repeated."""

    def __init__(
        self,
        message: str,
        *,
        table: str | None = None,
        path: str | None = None,
        instant: str | None = None,
        offset: int | None = None,
    ) -> None:
        message = _LONG_NAMES.sub(lambda found: _shortened(found[0], _LONGEST_NAME - 60), message)
        message = _shortened(message, _LONGEST)
        super().__init__(message)
        self.message = message
        self.table = table
        self.path = path
        self.instant = instant
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.message, self.table, self.path, self.instant, self.offset))

    def __str__(self) -> str:
        facts = {"table": self.table, "file": self.path, "instant": self.instant, "offset": self.offset}
        said = {name: _shortened(str(value), _LONGEST_PATH) for name, value in facts.items() if value is not None}
        known = ", ".join(f"{name} {value}" for name, value in said.items())
        return f"{self.message} [{known}]" if known else self.message


@contextmanager
def naming(path: str | None, table: str | None = None) -> Iterator[None]:
    """Add the file, or the table alone, to errors that don't name one.

    Args:
        path: the file, relative to the table's root; None if the error is about none.
        table: location of the table's root.
    """
    try:
        yield
    except PudiError as error:
        if error.path is None:
            error.path = path
            error.table = error.table or table
        raise


def cause_text(error: BaseException) -> str:
    """Return an exception as a short text for a message: its type and the beginning and end of its message."""
    return f"{type(error).__name__}: {_shortened(str(error), 200)}"


def _shortened(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} … ({len(text) - most} characters left out) … {text[-(most // 2) :]}"


def _rebuild(
    kind: type[PudiError],
    message: str,
    table: str | None,
    path: str | None,
    instant: str | None,
    offset: int | None,
) -> PudiError:
    return kind(message, table=table, path=path, instant=instant, offset=offset)


class NotFoundError(PudiError, LookupError):
    """A file, an instant or a partition that the caller names does not exist."""


class TableNotFoundError(NotFoundError):
    """There is no Hudi table at the given path."""


class StoreNotFoundError(NotFoundError):
    """The bucket or container of a location does not exist."""


class TableExistsError(PudiError):
    """A table, or a file that must be new, exists already."""


class InvalidArgumentError(PudiError, ValueError):
    """The caller's input is wrong: an option, a column, a value, a schema, a predicate."""


class SchemaError(InvalidArgumentError):
    """Data and table disagree on a column: it is missing, or its type can't become the table's."""


class NotSupportedError(PudiError):
    """The table or the call needs a feature of Hudi that this release of pudi does not have."""


class MergerError(PudiError):
    """A record merger failed, broke its contract, or is not registered: the write or read had no effect."""


class ValidationError(PudiError):
    """A pre-commit validator refused a write: nothing of it is visible, and the table is as it was."""


class CorruptError(PudiError):
    """Stored bytes violate Hudi's format, or differ from what a commit states."""


class ConflictError(PudiError):
    """A concurrent write won: nothing of this write is visible. Read the table again and retry."""

    retryable = True


class ChangedSinceError(ConflictError):
    """The table has changed since the instant that a write was based on (`if_unchanged_since`): nothing was written.

    The same call fails again. Read the table again, compute the records again, and write them with the new instant.
    """

    retryable = False


class BlockedError(ConflictError):
    """A pending action of another writer blocks this one: the same call may succeed after that action ends."""


class UnavailableError(PudiError):
    """The storage or the engine did not answer, or the lock was not free in time.

    Attributes:
        retry_after_s: seconds to wait before the same call, which the service asked for; 0 if it didn't.
    """

    retryable = True
    retry_after_s = 0.0


class RefusedError(PudiError):
    """The storage refuses the request: the disk is full, permissions are missing, or a file is too large.

    Also raised if its clock and this machine's differ too much. Nothing of the write is visible. The same call fails
    again until the cause that the message names is fixed.
    """


class SetupError(PudiError):
    """Software on the machine is missing or too old: Java, Spark, an optional package."""
