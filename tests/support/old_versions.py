"""Tables of versions that no bundle writes here, made by hand of Hudi's own: properties, names and instants."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

_SINCE = {
    "hoodie.table.metadata.partitions": 4,
    "hoodie.table.checksum": 4,
    "hoodie.database.name": 4,
    "hoodie.table.keygenerator.class": 3,
    "hoodie.datasource.write.hive_style_partitioning": 3,
    "hoodie.datasource.write.partitionpath.urlencode": 3,
    "hoodie.table.partition.fields": 2,
    "hoodie.table.recordkey.fields": 2,
    "hoodie.table.base.file.format": 2,
    "hoodie.populate.meta.fields": 2,
}
"""The version from which a property is there (HoodieTableConfig, the upgrade handlers)."""
_MILLIS_SINCE = 3
_INSTANT = re.compile(r"(?<!\d)(20\d{12})\d{3}(?!\d)")


def as_version(path: Path, version: int) -> None:
    """Rewrite a table of version 5 (or 6, for 7) in place.

    Below version 3 instants have no milliseconds: names and the content of instants are rewritten, but not the
    records' meta fields.
    """
    properties = path / ".hoodie" / "hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if not line.startswith("#")]
    kept = [line for line in lines if _SINCE.get(line.partition("=")[0], 0) <= version]
    said = [f"hoodie.table.version={version}"] if version else []  # version 0 is the one that isn't said
    kept = [line for line in kept if not line.startswith("hoodie.table.version=")] + said
    if version != 5:
        kept = [line for line in kept if not line.startswith("hoodie.table.checksum=")]
    properties.write_text("\n".join(kept) + "\n")
    if version < _MILLIS_SINCE:
        _without_millis(path)


def _without_millis(path: Path) -> None:
    for file in sorted(path.rglob("*")):
        if file.is_dir():
            continue
        if file.suffix not in {".parquet", ".crc"}:
            with suppress(UnicodeDecodeError):  # plans in Avro, and the metadata table, which readers leave alone
                file.write_text(_INSTANT.sub(r"\1", file.read_bytes().decode()))
        file.rename(file.with_name(_INSTANT.sub(r"\1", file.name)))
