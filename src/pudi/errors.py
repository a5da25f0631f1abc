"""What can go wrong: one small tree, split by what a caller does next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_LONGEST = 4000
"""Characters of a message; beyond that its middle is left out."""


class PudiError(Exception):
    """Root of every error that pudi raises on purpose.

    Args:
        message: what happened, what was expected and what to do, for a person.
        table: location of the table's root, where one is concerned.
        path: file concerned, relative to the table's root.
        instant: requested time of the instant concerned.
        offset: byte offset in `path` where a codec gave up.
    """

    retryable: bool = False
    """Whether the same call may succeed when simply made again."""

    def __init__(
        self,
        message: str,
        *,
        table: str | None = None,
        path: str | None = None,
        instant: str | None = None,
        offset: int | None = None,
    ) -> None:
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
        known = ", ".join(f"{name} {value}" for name, value in facts.items() if value is not None)
        return f"{self.message} [{known}]" if known else self.message


@contextmanager
def naming(path: str | None, table: str | None = None) -> Iterator[None]:
    """Have errors name the file that a codec was given bytes or text of, where they don't name one yet.

    Args:
        path: the file, relative to the table's root.
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
    """An exception as a short text for a message: its type and what it says, without the bytes that it failed on."""
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
    """A thing named by the caller (a file, an instant, a partition) is not there."""


class TableNotFoundError(NotFoundError):
    """There is no Hudi table at the path given."""


class StoreNotFoundError(NotFoundError):
    """The bucket or container that a location names is not there."""


class TableExistsError(PudiError):
    """A table, or a file that must be new, is there already."""


class InvalidArgumentError(PudiError, ValueError):
    """The caller's input is wrong: an option, a column, a value, a schema, a predicate."""


class SchemaError(InvalidArgumentError):
    """Data and table disagree on a column: it is missing, or its type can't become the table's."""


class NotSupportedError(PudiError):
    """The table or the request needs a part of Hudi that this release of pudi does not have."""


class MergerError(PudiError):
    """A record merger failed, broke its contract, or is not registered: nothing of this write or read took effect."""


class CorruptError(PudiError):
    """Stored bytes are not what the format says they must be."""


class ConflictError(PudiError):
    """Another writer won: nothing of this write is visible. Read the table again and retry."""

    retryable = True


class ChangedSinceError(ConflictError):
    """The table has changed since the instant that a write was based on (`if_unchanged_since`): nothing was written.

    The same call fails again. Read the table again, and write what comes of that with its instant.
    """

    retryable = False


class BlockedError(ConflictError):
    """What another writer has pending is in the way: the same call may succeed when that is over, not right away."""


class UnavailableError(PudiError):
    """The storage or the engine did not answer, or a lock was not free in time."""

    retryable = True


class RefusedError(PudiError):
    """The storage refuses: the disk is full, rights or credentials are missing, a file is too large.

    Also where its clock and this machine's are too far apart to write by. Nothing of a write is visible. The same call
    fails again until somebody changes that; the message says what.
    """


class SetupError(PudiError):
    """Something on the machine is missing or too old: Java, Spark, an optional package."""
