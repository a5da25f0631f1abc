"""`pudi.spark.write`: Spark's DataFrameWriter for Hudi tables, without Hudi's JAR."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pudi.client import CommitResult
from pudi.config import TableConfig
from pudi.config.arguments import names_given, path_given, text_given
from pudi.config.option import given_text
from pudi.errors import InvalidArgumentError
from pudi.spark.job import FORMATS, SaveMode, WriteJob


class FrameWriter:
    """Collects what to write and how; `save` does it. Mirrors `pyspark.sql.DataFrameWriter`.

    Args:
        frame: a Spark DataFrame, classic or Connect.
        storage_options: credentials and settings of the storage.
    """

    def __init__(self, frame: Any, storage_options: Mapping[str, str] | None = None) -> None:
        self._frame = frame
        self._storage_options = storage_options
        self._options: dict[str, str] = {}
        self._mode = SaveMode.ERROR
        self._partition_by: tuple[str, ...] = ()

    def format(self, source: str) -> FrameWriter:
        """Tolerated, so that a Hudi job's line works: `hudi`.

        Raises:
            InvalidArgumentError: another format.
        """
        if text_given(source, "format") not in FORMATS:
            raise InvalidArgumentError(f"format {source!r}: pudi.spark.write writes Hudi tables only")
        return self

    def option(self, key: str, value: str | bool | int | float) -> FrameWriter:
        """Set a Hudi option; `save` refuses unknown keys."""
        self._options[key] = given_text(key, value)
        return self

    def options(self, **options: str | bool | int | float) -> FrameWriter:
        """Set several options: `.options(**hudi_options)`."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def mode(self, save_mode: str) -> FrameWriter:
        """Set what to do if there is a table: `append`, `overwrite`, `ignore` or `error` (the default).

        `overwrite` deletes the folder and creates the table again, as Hudi does; it is not atomic.

        Raises:
            InvalidArgumentError: another mode.
        """
        self._mode = SaveMode.parse(save_mode)
        return self

    def partitionBy(self, *columns: str | Sequence[str]) -> FrameWriter:  # noqa: N802 - Spark's name
        """Partition columns, or one list of them, where the options don't name them."""
        self._partition_by = names_given(columns[0] if len(columns) == 1 else columns, "partitionBy")
        return self

    def save(
        self, path: str | os.PathLike[str] | None = None, *, if_unchanged_since: str | None = None
    ) -> CommitResult | None:
        """Write the frame; create the table if it does not exist.

        Args:
            path: the table's root; option `path` where None.
            if_unchanged_since: the instant of the scan that the frame comes from (`Scan.instant`), in mode `append`:
                nothing is written where what it touches has changed since; see `Table.insert`.

        Returns:
            What was done; None when there was nothing to do.

        Raises:
            InvalidArgumentError: an option is wrong or contradicts the table, or the data doesn't fit.
            TableExistsError: there is a table, and the mode is `error`.
            NotSupportedError: an option asks for what this release lacks.
            ConflictError: another writer won; nothing of this write is visible.
            ChangedSinceError: the table has changed since `if_unchanged_since`; nothing was written.
        """
        options = dict(self._options)
        target = options.pop("path", None) if path is None else path_given(path)
        if not target:
            raise InvalidArgumentError("save needs a path, the table's root: save('/data/trips')")
        if self._partition_by and not any(key in options for key in TableConfig.partition_by.keys):
            options[TableConfig.partition_by.job_keys[0]] = ",".join(self._partition_by)
        return WriteJob(target, options, self._storage_options).run(self._frame, self._mode, since=if_unchanged_since)


def write(frame: Any, *, storage_options: Mapping[str, str] | None = None) -> FrameWriter:
    """Begin to write a DataFrame to a Hudi table: `pudi.spark.write(df).options(**hudi).mode("append").save(path)`.

    Args:
        frame: a Spark DataFrame, classic or Connect.
        storage_options: credentials and settings of the storage.
    """
    return FrameWriter(frame, storage_options)
