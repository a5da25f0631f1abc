"""Collect what a Hudi job says of a table, as Spark's readers and writers do: format, options, partition columns."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from pudi.config import TableConfig
from pudi.config.arguments import names_given, path_given, text_given
from pudi.config.option import given_text
from pudi.errors import InvalidArgumentError

if TYPE_CHECKING:
    from typing_extensions import Self

FORMATS = frozenset({"hudi", "org.apache.hudi", "pudi"})
"""Names of the format in a Hudi job."""


class OptionBuilder:
    """Collects the options of a job.

    Args:
        storage_options: credentials and settings of the storage.
    """

    _does: ClassVar[str]
    """The function that begins it, and its verb, for messages."""

    def __init__(self, storage_options: Mapping[str, str] | None) -> None:
        self._storage_options = storage_options
        self._options: dict[str, str] = {}

    def format(self, source: str) -> Self:
        """Tolerated, so that a Hudi job's line works: `hudi`.

        Raises:
            InvalidArgumentError: another format.
        """
        if text_given(source, "format") not in FORMATS:
            raise InvalidArgumentError(f"format {source!r}: {self._does} Hudi tables only")
        return self

    def option(self, key: str, value: str | bool | int | float) -> Self:
        """Set an option, by Hudi's key or one of Spark's; unknown keys are refused in the end."""
        self._options[key] = given_text(key, value)
        return self

    def options(self, **options: str | bool | int | float) -> Self:
        """Set several options: `.options(**hudi_options)`."""
        for key, value in options.items():
            self.option(key, value)
        return self


class WriteBuilder(OptionBuilder):
    """Collects what a write says of its table."""

    def __init__(self, storage_options: Mapping[str, str] | None) -> None:
        super().__init__(storage_options)
        self._partition_by: tuple[str, ...] = ()

    def partitionBy(self, *columns: str | Sequence[str]) -> Self:  # noqa: N802 - Spark's name
        """Partition columns of a table that doesn't exist yet, or a list, where the options don't name them."""
        self._partition_by = names_given(columns[0] if len(columns) == 1 else columns, "partitionBy")
        return self

    def _target(self, path: str | os.PathLike[str] | None) -> tuple[str | None, dict[str, str]]:
        """Return the table's root, given or by option `path`, and the options of the write."""
        options = dict(self._options)
        target = options.pop("path", None) if path is None else path_given(path)
        if self._partition_by and not any(key in options for key in TableConfig.partition_by.keys):
            options[TableConfig.partition_by.job_keys[0]] = ",".join(self._partition_by)
        return target, options
