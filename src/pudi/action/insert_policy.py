"""What an insert does with records whose key the table holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pudi.config import WriteOptions
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.filegroup import FileSlice
from pudi.index import Index
from pudi.plan import Operation


def adds_new_only(
    operation: Operation, options: WriteOptions, index: Index, slices: Iterable[FileSlice], table: str
) -> bool:
    """Whether an insert leaves out or refuses records whose key the table holds, which lies in some slices.

    Raises:
        NotSupportedError: it is to, and the index can't tell.
    """
    wanted = operation is Operation.INSERT and options.duplicates != "none"
    if wanted and any(s.logs for s in slices):
        raise NotSupportedError(
            "looking for duplicates of inserted records beside log files: a key that was deleted there would count as "
            "known; compact the table first, or upsert",
            table=table,
        )
    if wanted and (index.buckets is not None or index.is_global):
        raise NotSupportedError(
            "looking for duplicates of inserted records needs index SIMPLE or BLOOM; upsert with this index",
            table=table,
        )
    return wanted


def without_known(tagged: Any, options: WriteOptions, table: str) -> Any:
    """The records whose key the table doesn't hold.

    Raises:
        InvalidArgumentError: there are others, which are to be refused.
    """
    known = sum(tagged.profile.updates.values())
    if known and options.duplicates == "fail":
        raise InvalidArgumentError(
            f"{known} records have a key that the table holds already; nothing was written. Use upsert, or "
            "hoodie.datasource.insert.dup.policy=drop to leave them out",
            table=table,
        )
    return tagged.new_only() if known else tagged
