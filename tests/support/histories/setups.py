"""Kinds of tables, spread over the seeds: 42 seeds in a row meet each table type, version and index together once.

The rest (merging, keys, partitions, metadata table, services after writes, retention) is drawn by the seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from support.histories.names import NAMES, PLAIN, folder, is_refused
from support.histories.values import TIME

INDEXES = ("SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM", "RECORD_INDEX", "RECORD_LEVEL_INDEX", "BUCKET")
KINDS_IN_A_ROW = 2 * 3 * len(INDEXES)

FIRST_COLUMNS: dict[str, pa.DataType] = {
    "id": pa.string(),
    "num": pa.int64(),
    "p": pa.string(),
    "ts": pa.int64(),
    "a": pa.int32(),
    "b": pa.string(),
    "c": pa.float64(),
    "d": pa.date32(),
    "tm": TIME,
    "st": pa.struct([("x", pa.int32()), ("y", pa.string()), ("in", pa.struct([("z", pa.string())]))]),
    "li": pa.list_(pa.int32()),
    "m": pa.map_(pa.string(), pa.int32()),
}


@dataclass(frozen=True)
class Setup:
    """What a table is made as, and which options its writers give.

    Attributes:
        seed: decides all of it.
        kind: `cow` or `mor`.
        version: of the format.
        index: its type.
        moves: whether a global index moves a record that comes with another partition.
        key: columns of the record key.
        names: values of the partition column; none in a table without partitions.
        event: whether the ordering column decides, not the last write.
        options: of creation and of each verb.
        zone: the time zone of sessions; SQL on one machine has UTC.
    """

    seed: int
    kind: str
    version: int
    index: str
    moves: bool
    key: tuple[str, ...]
    names: tuple[str | None, ...]
    hive_style: bool
    url_encode: bool
    event: bool
    columns_change: bool
    options: tuple[tuple[str, str], ...]
    zone: str = "UTC"

    @classmethod
    def of(cls, seed: int) -> Setup:
        """Return the setup of a seed."""
        chance = random.Random(f"setup {seed}")
        kind, version = ("cow", "mor")[seed % 2], (9, 8, 6)[seed // 2 % 3]
        index = INDEXES[seed // 6 % len(INDEXES)]
        if index == "RECORD_LEVEL_INDEX" and version < 9:
            index = "RECORD_INDEX"
        moves = chance.random() < 0.6
        key = chance.choice([("id",), ("id",), ("num",), ("id", "num")])
        partitioned = chance.random() < 0.7
        hive_style, url_encode = chance.random() < 0.4, chance.random() < 0.4
        names = _names(chance, index, hive_style, url_encode) if partitioned else ()
        metadata = index.startswith("RECORD") or chance.random() < 0.6
        columns_change = chance.random() < 0.6
        options = {
            "hoodie.metadata.enable": str(metadata).lower(),
            **_index_options(index, moves, resizes=kind == "mor" and chance.random() < 0.5),
            **_service_options(chance, kind, index),
        }
        if hive_style and partitioned:
            options["hoodie.datasource.write.hive_style_partitioning"] = "true"
        if url_encode and partitioned:
            options["hoodie.datasource.write.partitionpath.urlencode"] = "true"
        if version != 9:
            options["hoodie.write.table.version"] = str(version)
        if kind == "mor" and chance.random() < 0.3:
            options["hoodie.logfile.data.block.format"] = "parquet"
        if chance.random() < 0.5:
            options["hoodie.parquet.small.file.limit"] = "0"
        event = chance.random() < 0.5
        return cls(
            seed, kind, version, index, moves, key, names, hive_style, url_encode, event, columns_change,
            tuple(options.items()),
        )  # fmt: skip

    @classmethod
    def on_spark(cls, seed: int) -> Setup:
        """Return the setup of a seed, in a session with some time zone."""
        zones = ("UTC", "America/New_York", "Asia/Kolkata", "Europe/Berlin")
        return replace(cls.of(seed), zone=random.Random(f"zone {seed}").choice(zones))

    def __str__(self) -> str:
        merging = "event" if self.event else "commit"
        place = f"{len(self.names)} partitions" if self.names else "flat"
        return f"{self.kind}-v{self.version}-{self.index}{'' if self.moves else '-stays'}-{merging}-{place}"

    @property
    def is_global(self) -> bool:
        """Whether a key is one record in the whole table."""
        return self.index.startswith("GLOBAL") or self.index == "RECORD_INDEX" or not self.names

    @property
    def clusters(self) -> bool:
        """Whether it can be clustered: of tables with buckets, those that resize them."""
        return self.index != "BUCKET" or "hoodie.index.bucket.engine" in dict(self.options)

    @property
    def copies(self) -> bool:
        """Whether plain inserts of keys that are there store them twice, all of which later writes find."""
        return self.finds_copies or self.index.startswith("GLOBAL") or (self.index == "BUCKET" and self.kind == "cow")

    @property
    def finds_copies(self) -> bool:
        """Whether inserts can look for keys that are there."""
        return self.index in {"SIMPLE", "BLOOM"}

    @property
    def inserts_merge(self) -> bool:
        """Whether inserts of keys that are there update them: they go to the log of the one bucket of a key."""
        return self.index == "BUCKET" and self.kind == "mor"

    @property
    def create_arguments(self) -> dict[str, Any]:
        """Arguments of `pudi.create` beside path and schema."""
        return {
            "record_key": list(self.key),
            "partition_by": ["p"] if self.names else [],
            "ordering": ["ts"] if self.event else [],
            "table_type": self.kind,
            "options": dict(self.options),
        }

    @property
    def verb_options(self) -> dict[str, str]:
        """Options of `pudi.Table`: those that don't say what the table is."""
        table = ("hoodie.datasource.write.", "hoodie.write.table.version")
        return {key: value for key, value in self.options if not key.startswith(table)}

    def folder(self, value: str | None) -> str:
        """Return the partition path of a value."""
        return folder(value, hive_style=self.hive_style, url_encode=self.url_encode) if self.names else ""

    def is_refused(self, value: str | None) -> bool:
        """Return whether the table takes no such value of its partition column."""
        return bool(self.names) and is_refused(value, hive_style=self.hive_style, url_encode=self.url_encode)


def _names(chance: random.Random, index: str, hive_style: bool, url_encode: bool) -> tuple[str | None, ...]:
    if chance.random() < 0.25:
        return PLAIN
    bad = [name for name in NAMES if is_refused(name, hive_style=hive_style, url_encode=url_encode)]
    # A record index by partition has no place for a dot.
    dots = index != "RECORD_LEVEL_INDEX"
    names = chance.sample([name for name in NAMES if name not in bad and (dots or "." not in (name or ""))], 3)
    return (*names, *chance.sample(bad, 1)) if bad and chance.random() < 0.3 else tuple(names)


def _index_options(index: str, moves: bool, *, resizes: bool) -> dict[str, str]:
    options = {"hoodie.index.type": index}
    word = {"GLOBAL_SIMPLE": "simple", "GLOBAL_BLOOM": "bloom", "RECORD_INDEX": "record"}.get(index)
    if word:
        options[f"hoodie.{word}.index.update.partition.path"] = str(moves).lower()
    if index == "RECORD_INDEX":
        options["hoodie.metadata.global.record.level.index.enable"] = "true"
    if index == "RECORD_LEVEL_INDEX":
        options["hoodie.metadata.record.level.index.enable"] = "true"
    if index == "BUCKET":
        options["hoodie.bucket.index.num.buckets"] = "2"
    if index == "BUCKET" and resizes:
        options |= {
            "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
            "hoodie.bucket.index.min.num.buckets": "1",
            "hoodie.bucket.index.max.num.buckets": "4",
            "hoodie.parquet.max.file.size": "4000",
        }
    return options


def _service_options(chance: random.Random, kind: str, index: str) -> dict[str, str]:
    retained = chance.choice([1, 2, 3])
    options = {
        "hoodie.clean.automatic": str(chance.random() < 0.5).lower(),
        "hoodie.clean.commits.retained": str(retained),
        "hoodie.archive.automatic": str(chance.random() < 0.5).lower(),
        "hoodie.keep.min.commits": str(retained + 2),
        "hoodie.keep.max.commits": str(retained + 3),
        "hoodie.metadata.compact.max.delta.commits": chance.choice(["1", "2", "4"]),
        "hoodie.compact.inline.max.delta.commits": "2",
    }
    if chance.random() < 0.25:
        options |= {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
    if kind == "mor":
        options["hoodie.compact.inline"] = str(chance.random() < 0.3).lower()
    if index != "BUCKET" and chance.random() < 0.2:
        options |= {"hoodie.clustering.inline": "true", "hoodie.clustering.inline.max.commits": "3"}
    return options
