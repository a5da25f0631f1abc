"""The values of partitions from their paths, as Hudi's extractors read them.

Sources: MultiPartKeysValueExtractor, HiveStylePartitionValueExtractor, SinglePartPartitionValueExtractor,
SlashEncodedDayPartitionValueExtractor, SlashEncodedHourPartitionValueExtractor of Apache Hudi 1.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pudi.catalogs.values import Values
from pudi.config import SyncOptions
from pudi.config.table_options import OtherTableOptions
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.record.partition_path import unescape


class Extractor(str, Enum):
    """Readers of values in a partition path, by the end of the name of Hudi's class."""

    FOLDERS = "MultiPartKeysValueExtractor"
    """A value in each folder, or after its `=`."""
    HIVE_STYLE = "HiveStylePartitionValueExtractor"
    """One value, after the `=` of one folder."""
    WHOLE = "SinglePartPartitionValueExtractor"
    """One value, the whole path with `-` between folders."""
    DAY = "SlashEncodedDayPartitionValueExtractor"
    """One value, `yyyy-MM-dd` of `yyyy/MM/dd`."""
    HOUR = "SlashEncodedHourPartitionValueExtractor"
    """One value, `yyyy-MM-dd-HH` of `yyyy/MM/dd/HH`."""
    NONE = "NonPartitionedExtractor"
    """No value."""


_PACKAGE = "org.apache.hudi.hive."
_DATE_FOLDERS = {Extractor.DAY: 3, Extractor.HOUR: 4}


@dataclass(frozen=True, slots=True)
class ValueReader:
    """Reads the values of partitions from their paths.

    Attributes:
        fields: the partition columns that are registered.
        extractor: how.
        hive_style: whether folders are named `column=value`.
        decodes: whether values are decoded where folders have URL encoding.
    """

    fields: tuple[str, ...]
    extractor: Extractor
    hive_style: bool
    decodes: bool = False

    @classmethod
    def of(
        cls, fields: tuple[str, ...], extractor_class: str | None, *, hive_style: bool, decodes: bool
    ) -> ValueReader:
        """Return the reader that options ask for; without a class by columns and folders, as Hudi infers one.

        Raises:
            NotSupportedError: a class that isn't one of Hudi's.
        """
        if extractor_class:
            try:
                extractor = Extractor(extractor_class.removeprefix(_PACKAGE))
            except ValueError:
                known = ", ".join(_PACKAGE + each.value for each in Extractor)
                raise NotSupportedError(
                    f"the partition value extractor {extractor_class} is none of Hudi's, and pudi never loads a "
                    f"class by name; use one of {known}"
                ) from None
        elif len(fields) == 1:
            extractor = Extractor.HIVE_STYLE if hive_style else Extractor.WHOLE
        else:
            extractor = Extractor.FOLDERS if fields else Extractor.NONE
        return cls(fields, extractor, hive_style, decodes)

    def values(self, path: str) -> Values:
        """Return a partition's values.

        Raises:
            InvalidArgumentError: the path doesn't have as many as there are columns, with what to do.
        """
        values = self._extracted(path)
        if len(values) != len(self.fields):
            raise self._refusal(path, f"which {self.extractor.value} reads as {len(values)} values")
        if not all(values):
            raise self._refusal(path, "which has an empty value")
        if self.decodes:
            values = tuple(decoded if (decoded := unescape(each)) is not None else each for each in values)
        return values

    def _extracted(self, path: str) -> Values:
        if self.extractor is Extractor.NONE or not self.fields:
            return ()
        if self.extractor is Extractor.WHOLE:
            return (path.replace("/", "-"),)
        if self.extractor is Extractor.HIVE_STYLE:
            name, equals, value = path.partition("=")
            if not equals or "/" in name:
                raise self._refusal(path, "which isn't of the form column=value")
            return (value,)
        folders = path.split("/")
        values = tuple(self._after_equals(folder) for folder in folders)
        if self.extractor is Extractor.FOLDERS:
            return values
        if len(values) != _DATE_FOLDERS[self.extractor] or not all(v.isascii() and v.isdigit() for v in values):
            raise self._refusal(path, f"which {self.extractor.value} can't read")
        return ("-".join(f"{int(v):0{width}}" for v, width in zip(values, (4, 2, 2, 2), strict=False)),)

    def _after_equals(self, folder: str) -> str:
        """Return the value of a folder. Hudi takes what follows a `=` even where the table's folders have no names."""
        return folder.partition("=")[2] if self.hive_style and "=" in folder else folder

    def _refusal(self, path: str, why: str) -> InvalidArgumentError:
        return InvalidArgumentError(
            f"the partition {path!r} can't be registered under the columns {', '.join(self.fields) or '(none)'}: its "
            f"path, {why}; set {SyncOptions.partition_fields} and "
            f"{OtherTableOptions.partition_extractor.job_keys[0]} to what the folders say"
        )
