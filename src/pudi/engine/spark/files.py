"""Base files as a native Spark DataFrame: file slices in, a frame over exactly their files out, or an error."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import unquote, urlsplit

import pyarrow as pa

from pudi.context import Storage
from pudi.engine.spark.hadoop import hadoop_options, hadoop_root
from pudi.engine.spark.session import spark_errors, struct_type
from pudi.errors import CorruptError, NotFoundError, UnavailableError
from pudi.filegroup import HFILE_EXTENSION, BaseFile, FileSlice
from pudi.filegroup.basefile import check_size_of
from pudi.schema import arrow_to_spark_json
from pudi.storage import StorageKind, storage_kind

_READ_OPTIONS = {
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    "mergeSchema": "false",
    # all files below the folders given, each once, and no columns made of folder names
    "recursiveFileLookup": "true",
    # Hudi writes the proleptic Gregorian calendar; without this Spark 3.5 refuses dates before 1582
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    # parquet-java's setting, off by default: file sources pass their options on as Hadoop's
    "parquet.page.verify-checksum.enabled": "true",
}

_GLOB = re.compile(r"([{}\[\]*?\\])")

_MOST_PATHS = 8
"""Files that are given to Spark one by one, at most: it looks at so few sooner than at all in their folders."""

_MAX_SEPARATE_FOLDERS = 32
"""Folders read one by one and put together, at most; more would make plans that Spark takes long over."""


class CannotReadNatively(Exception):
    """Spark has no way to these files; read them by `pudi.storage` in Python workers instead."""


@dataclass(frozen=True, slots=True)
class NativeFiles:
    """Reads base files of one table by Spark's Parquet reader.

    Args:
        spark: the session.
        storage: the table's files, for its root; files are read by Spark's own file systems.
    """

    spark: Any
    storage: Storage

    def frame(self, slices: Sequence[FileSlice], schema: pa.Schema) -> Any:
        """A DataFrame over the slices' base files, with Spark's `_metadata` column at hand.

        Folders are given to Spark and file names as a pattern: planning thousands of files given one by one takes
        seconds. A few are given as they are, as where single records are looked up. The files that Spark found are
        compared with those planned, so that none is lost or read twice.

        Args:
            slices: at least one.
            schema: the columns to read; those that a file lacks are null.

        Raises:
            NotFoundError: a file is gone, or the cluster doesn't see it.
            CorruptError: a file on a local disk is empty, no regular file, or not as large as is stated of it.
            CannotReadNatively: Spark has no file system for the table's location, or lists it otherwise.
            NotSupportedError: the table lives in this process's memory.
        """
        by_folder = _by_folder(slices)
        bases = {each.base.path: each.base for each in slices if each.base is not None}
        found = None if _repeats(by_folder) else self._read(by_folder, schema, bases)
        if found is None:
            if len(by_folder) > _MAX_SEPARATE_FOLDERS:
                raise CannotReadNatively
            parts = [self._read({folder: names}, schema, bases) for folder, names in by_folder.items()]
            known = [part for part in parts if part is not None]
            if len(known) < len(parts):
                raise CannotReadNatively
            found = known[0]
            for part in known[1:]:
                found = found.union(part)
        return found

    def located(self, slices: Sequence[FileSlice], schema: pa.Schema, columns: Mapping[str, str]) -> Any:
        """A DataFrame as `frame` gives, with columns that say in which file and which row of it each row is.

        Args:
            slices: at least one.
            schema: the columns to read; those that a file lacks are null.
            columns: names of the additional columns, with the fields of Spark's `_metadata` that they hold.

        Raises:
            CannotReadNatively: as `frame`, or files of different folders have one name.
            NotFoundError: as `frame`.
            NotSupportedError: as `frame`.
        """
        by_folder = _by_folder(slices)
        bases = {each.base.path: each.base for each in slices if each.base is not None}
        found = None if _repeats(by_folder) else self._read(by_folder, schema, bases)
        if found is None:
            raise CannotReadNatively
        return found.selectExpr("*", *(f"_metadata.{field} as {name}" for name, field in columns.items()))

    def _read(
        self, by_folder: Mapping[str, Sequence[str]], schema: pa.Schema, bases: Mapping[str, BaseFile]
    ) -> Any | None:
        """Return a frame over the files in `bases`, by path; None if Spark finds other files in their folders."""
        root = self._root()
        names = [name for group in by_folder.values() for name in group]
        reader = self.spark.read.schema(struct_type(json.loads(arrow_to_spark_json(schema)))).options(**_READ_OPTIONS)
        reader = reader.options(**hadoop_options(self.storage))
        planned = {f"{folder}/{name}" if folder else name for folder, group in by_folder.items() for name in group}
        self._check_local({path: bases[path] for path in planned})
        by_path = len(planned) <= _MOST_PATHS
        if by_path:
            paths = [f"{root}/{path}" for path in sorted(planned)]
        else:
            # names of base files hold letters, digits, '-', '_' and '.' only: nothing that a pattern reads otherwise
            reader = reader.option("pathGlobFilter", "{" + ",".join(names) + "}")
            paths = [f"{root}/{folder}" if folder else root for folder in by_folder]
        try:
            with spark_errors(self.storage.root, "listing the table's files"):
                frame = reader.parquet(*(_GLOB.sub(r"\\\1", path) for path in paths))
                listed = frame.inputFiles()
        except UnavailableError as error:
            if _no_file_system(str(error.__cause__)):
                raise CannotReadNatively from error
            raise
        except NotFoundError:
            if by_path:
                self._explain_missing(sorted(planned))
            raise
        missing = planned - set(_relative(listed, root))
        if missing:
            self._explain_missing(sorted(missing)[:1])
        return frame if len(listed) == len(planned) else None

    def _check_local(self, bases: Mapping[str, BaseFile]) -> None:
        """Refuse local files that Spark would pass over as empty (also FIFOs and devices) or wait for forever.

        And those that aren't as large as is stated of them: Spark takes them as they are.

        Raises:
            CorruptError: there is one.
        """
        if storage_kind(self.storage.root) is not StorageKind.LOCAL:
            return  # a request for each file
        for path, base in bases.items():
            try:
                size = self.storage.head(path).size
            except NotFoundError:
                continue  # Spark's own listing decides, see `_read`
            if not size:
                raise CorruptError(
                    "the file is empty, and base files never are: restore it", table=self.storage.root, path=path
                )
            check_size_of(self.storage, base, size)

    def _root(self) -> str:
        """The table's root as Spark names it."""
        root = hadoop_root(self.storage)
        if root is None:
            raise CannotReadNatively
        return root

    def _explain_missing(self, paths: Iterable[str]) -> NoReturn:
        for path in paths:
            try:
                self.storage.head(path)
            except NotFoundError as error:
                raise NotFoundError(
                    "a file of the table is gone: it was removed by a cleaner or by hand since the read was planned",
                    table=self.storage.root,
                    path=path,
                ) from error
        raise CannotReadNatively  # it's there and Spark doesn't list it, as under folders that begin with '_'


def _by_folder(slices: Sequence[FileSlice]) -> dict[str, list[str]]:
    """Names of base files by partition path.

    Raises:
        CannotReadNatively: one is an HFile, which Spark doesn't know.
    """
    by_folder: dict[str, list[str]] = {}
    for file_slice in slices:
        assert file_slice.base is not None
        if file_slice.base.name.extension == HFILE_EXTENSION:
            raise CannotReadNatively
        by_folder.setdefault(file_slice.partition, []).append(file_slice.base.name.name)
    return by_folder


def _repeats(by_folder: Mapping[str, Sequence[str]]) -> bool:
    """Whether files of different folders have one name."""
    return max(Counter(name for names in by_folder.values() for name in names).values()) > 1


def _relative(uris: Iterable[str], root: str) -> Iterable[str]:
    """Paths below the root of files as Spark lists them, which are percent-encoded as the root is not."""
    _, slash, path = root.partition("://")[2].partition("/")
    start = len(slash + path) + 1
    for uri in uris:
        yield unquote(urlsplit(uri).path)[start:]


def _no_file_system(text: str) -> bool:
    """Whether Spark's error says that it has no connector for the scheme."""
    return "No FileSystem for scheme" in text or ("ClassNotFoundException" in text and "FileSystem" in text)
