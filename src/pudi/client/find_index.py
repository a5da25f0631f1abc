"""Find the index of a table: from options, properties and, with the last word, its files."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from posixpath import basename

import numpy as np
import pyarrow as pa

from pudi.client.hash_rings import read_rings
from pudi.client.meta_client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.concurrency import KeyScope
from pudi.config import BY_BUCKET, IndexOptions, LockSettings, Options, TableConfig
from pudi.config.table_options import MERGE_ON_READ
from pudi.context.runtime import cached_property
from pudi.errors import CorruptError, InvalidArgumentError, NotFoundError, NotSupportedError
from pudi.filegroup import BaseFile, LogFile, open_base_file, read_blocks, virtual_keys
from pudi.format import (
    BUCKET_INDEX_DIR,
    CONSISTENT_HASHING_DIR,
    PROPERTIES,
    WriteStat,
    bucket_of_file_id,
    parse_base_file,
    parse_log_file,
)
from pudi.format.log_data import decode_data
from pudi.plan import Operation
from pudi.schema import RECORD_KEY
from pudi.tagging import Buckets, ConsistentBuckets, Index, check_key_column, key_hashes

_TYPE, _ENGINE = IndexOptions.index_type, IndexOptions.bucket_engine
_COUNT, _FIELDS = IndexOptions.bucket_count, IndexOptions.bucket_hash_fields
_CONSISTENT = "CONSISTENT_HASHING"

_MOVES = {
    "GLOBAL_SIMPLE": IndexOptions.simple_index_moves,
    "GLOBAL_BLOOM": IndexOptions.bloom_index_moves,
    "RECORD_INDEX": IndexOptions.record_index_moves,
    "GLOBAL_RECORD_LEVEL_INDEX": IndexOptions.record_index_moves,
}
_BY_RECORDS = {"RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX", "RECORD_LEVEL_INDEX"}
_SAMPLE_COMMITS = 10
_SAMPLE_FILES = 16
"""The number of commits to search for files, and of files to read keys from, if file names are not enough."""
_SAMPLE_HASHES = 16
"""Hashes of keys after which one possible number of buckets is believed."""
_SAMPLE_FIELDS = 30
"""Sets of key columns that are tried where no option says which are hashed."""
_PLAUSIBLE_BUCKETS = 100_000
"""More buckets in a partition than this are not believed unless an option says BUCKET."""


def has_index_options(options: Options) -> bool:
    """Return whether options set anything about the index that the table may contradict."""
    return any(options.explicit(option) is not None for option in (_TYPE, _ENGINE, _COUNT, _FIELDS))


def check_index_options(config: TableConfig, options: Options, table: str) -> None:
    """Refuse options of the index that contradict each other or the table's properties.

    Raises:
        InvalidArgumentError: options contradict each other or the table; the message names them.
        NotSupportedError: consistent hashing on a copy-on-write table.
    """
    kind = _kind(config, options, table)
    if kind in {"BLOOM", "GLOBAL_BLOOM", *_BY_RECORDS} and not config.populate_meta_fields:
        raise NotSupportedError(
            f"{_TYPE}={kind} in a table without meta fields, whose files have no bloom filters, and for which Apache "
            "Hudi keeps no record index: use SIMPLE, GLOBAL_SIMPLE or BUCKET",
            table=table,
        )
    if options.explicit(_ENGINE) == _CONSISTENT:
        _check_consistent(config, table)
    fields = _hash_fields(config, options)
    beyond = [name for name in fields if name not in config.record_key_fields]
    if beyond:
        raise InvalidArgumentError(
            f"option {_FIELDS} names {beyond[0]!r}, which is not a column of the record key "
            f"({', '.join(config.record_key_fields)}): equal keys must be in one bucket",
            table=table,
        )


def _check_consistent(config: TableConfig, table: str) -> None:
    if config.table_type != MERGE_ON_READ:
        raise NotSupportedError(
            f"{_ENGINE}={_CONSISTENT} is for merge-on-read tables: Apache Hudi has it for no others; use SIMPLE",
            table=table,
        )


def check_index(meta: MetaClient, options: Options) -> None:
    """Refuse index options that contradict the table, when it is opened; read nothing if there are none.

    Raises:
        InvalidArgumentError: see `find_index`, except that an undecided number of buckets is no error here.
        NotSupportedError: as `find_index`.
    """
    if not has_index_options(options):
        return
    check_index_options(meta.config, options, meta.storage.root)
    _Finder(TableSnapshot.load(meta, options)).find()


def find_index(snapshot: TableSnapshot) -> Index:
    """Return the index that writes use.

    A table whose files are buckets has the bucket index, with or without an option. Its files also state the number of
    buckets: it divides the difference between the hash of every key and the bucket of its file.

    Args:
        snapshot: the table, with the writer's options.

    Raises:
        InvalidArgumentError: the options contradict each other or the table, so that writes would miss keys: another
            number of buckets or other hashed columns, a bucket index on files without buckets, another index on files
            with buckets; or nothing decides the number of buckets.
        NotSupportedError: the table's buckets are numbered partition by partition.
    """
    check_index_options(snapshot.config, snapshot.options, snapshot.table)
    found = _Finder(snapshot).find()
    if found is None:
        raise InvalidArgumentError(
            f"nothing says how many buckets a partition has, which aren't {snapshot.options[_COUNT]}: give option "
            f"{_COUNT}",
            table=snapshot.table,
        )
    return found


def key_scope(index: Index, operation: Operation) -> KeyScope | None:
    """Return where an operation keeps a key in one file group: bucket, ring, partition or table; None if nowhere."""
    if index.buckets is not None:
        return KeyScope.BUCKET if isinstance(index.buckets, Buckets) else KeyScope.RING
    if operation is not Operation.UPSERT:
        return None
    return KeyScope.TABLE if index.is_global else KeyScope.PARTITION


def check_resolution(index: Index, options: Options, table: str) -> None:
    """Refuse a conflict strategy that compares buckets in a table without them, where Hudi fails at the commit.

    Raises:
        InvalidArgumentError: it does.
    """
    if LockSettings.of(options).resolution == BY_BUCKET and index.buckets is None:
        raise InvalidArgumentError(
            f"{LockSettings.conflict_strategy}={BY_BUCKET} compares buckets, and this table has no bucket index: leave "
            "the option out",
            table=table,
        )


def _kind(config: TableConfig, options: Options, table: str) -> str | None:
    """Return the type of index that options or properties name."""
    given = options.explicit(_TYPE)
    persisted = config.raw.get(_TYPE.key)
    if given is not None and persisted is not None and str(given) != persisted.strip().upper():
        raise InvalidArgumentError(
            f"option {_TYPE}={given} contradicts the table, which has {persisted}: leave the option out", table=table
        )
    return str(given) if given is not None else persisted.strip().upper() if persisted is not None else None


def _given_count(config: TableConfig, options: Options, table: str) -> int | None:
    """Return the number of buckets that an option or a property gives; None if neither does.

    Raises:
        CorruptError: the property is no number of buckets.
    """
    given, persisted = options.explicit(_COUNT), config.raw.get(_COUNT.key)
    if given is None and persisted is None:
        return None
    try:
        return int(_COUNT.parse(str(persisted)) if given is None else given)
    except InvalidArgumentError as error:
        raise CorruptError(
            f"the table's properties do not parse: {error.message}; mend the property", table=table, path=PROPERTIES
        ) from error


def _hash_fields(config: TableConfig, options: Options) -> tuple[str, ...]:
    text = options[_FIELDS] or config.raw.get(_FIELDS.key)
    return tuple(text.split(",")) if text else config.record_key_fields


@dataclass(frozen=True, slots=True)
class _Evidence:
    """Facts about buckets that the files of a table reveal.

    Attributes:
        files: whether any were found.
        divided: whether all of them are named as files of buckets.
        most: the greatest bucket.
        divisor: greatest common divisor of the differences between the hash of a key and the bucket of its file; 0
            without keys.
    """

    files: bool = False
    divided: bool = False
    most: int = -1
    divisor: int = 0

    @property
    def fits(self) -> bool:
        """Return whether some number of buckets explains the file of every key."""
        return self.divisor == 0 or self.divisor > self.most

    @property
    def looks_divided(self) -> bool:
        """Return whether the files are buckets: names of others may match by chance, but hardly their keys too."""
        return self.divided and self.most < _PLAUSIBLE_BUCKETS and self.divisor > self.most

    def allows(self, count: int) -> bool:
        """Return whether a number of buckets is plausible."""
        return count > self.most and self.divisor % count == 0

    def counts(self) -> list[int]:
        """Return the possible numbers of buckets, by the keys read."""
        if not self.divisor:
            return []
        small = [n for n in range(1, math.isqrt(self.divisor) + 1) if self.divisor % n == 0]
        return sorted({n for low in small for n in (low, self.divisor // low) if n > self.most})


@dataclass(frozen=True)
class _Finder:
    """Find the index of one table at one timeline."""

    snapshot: TableSnapshot

    @cached_property
    def _described(self) -> Sequence[str]:
        """The files that describe buckets: hash rings, and numbers of buckets by partition."""
        return [info.path for info in self.snapshot.meta.storage.list(BUCKET_INDEX_DIR)]

    def find(self) -> Index | None:
        """See `find_index`; None where nothing decides the number of buckets."""
        table = self.snapshot.table
        kind = _kind(self.snapshot.config, self.snapshot.options, table)
        fields = _hash_fields(self.snapshot.config, self.snapshot.options)
        wanted = (self.snapshot.options.explicit(_ENGINE) or self.snapshot.config.raw.get(_ENGINE.key)) == _CONSISTENT
        if wanted or self.snapshot.meta.merges_on_read:  # elsewhere there are none, and a listing costs
            rings = [path for path in self._described if path.startswith(f"{CONSISTENT_HASHING_DIR}/")]
            if rings or (wanted and kind == "BUCKET"):
                return self._consistent(kind, fields, rings)
        seen = self._evidence(fields)
        if kind != "BUCKET" and not seen.looks_divided and seen.divided and self.snapshot.options[_FIELDS] is None:
            # the same, if only some key columns were hashed
            parts = (part for size in range(1, len(fields)) for part in itertools.combinations(fields, size))
            tried = ((self._evidence(part), part) for part in itertools.islice(parts, _SAMPLE_FIELDS))
            seen, fields = next((found for found in tried if found[0].looks_divided), (seen, fields))
        if kind == "BUCKET" or (kind is None and seen.looks_divided):
            return self._divided(seen, fields)
        if self.snapshot.meta.merges_on_read:  # elsewhere there are none, and a listing costs
            self._check_one_numbering(seen)
        if seen.looks_divided:
            raise InvalidArgumentError(
                f"{_TYPE}={kind} contradicts the table, whose files are buckets: inserts would go to buckets where "
                f"they are not found; use {_TYPE}=BUCKET",
                table=table,
            )
        if kind not in {None, "SIMPLE", "BLOOM", "GLOBAL_SIMPLE", "GLOBAL_BLOOM", "INMEMORY", *_BY_RECORDS}:
            raise NotSupportedError(f"a table with {_TYPE}={kind} can't be written yet", table=table)
        if kind not in _MOVES:
            return Index(bloom=kind == "BLOOM", records=kind in _BY_RECORDS)
        moves = bool(self.snapshot.config.partition_fields) and self.snapshot.options[_MOVES[kind]]
        return Index(is_global=True, moves=moves, bloom=kind == "GLOBAL_BLOOM", records=kind in _BY_RECORDS)

    def _divided(self, seen: _Evidence, fields: tuple[str, ...]) -> Index | None:
        """Return the bucket index, with the number of buckets from options or files."""
        table = self.snapshot.table
        by_chance = seen.most >= _PLAUSIBLE_BUCKETS and not seen.fits  # ids of digits alone
        if seen.files and (by_chance or not seen.divided):
            raise InvalidArgumentError(
                f"{_TYPE}=BUCKET contradicts the table, whose files are no buckets: their keys would not be found; "
                "use the index that wrote them, or write the records to a new table",
                table=table,
            )
        self._check_one_numbering(seen)
        given = _given_count(self.snapshot.config, self.snapshot.options, table)
        counts = seen.counts()
        if not seen.fits or (given is not None and not seen.allows(given)):
            given_as = f"{_COUNT}={given}" if seen.fits else f"{_FIELDS}={','.join(fields)}"
            hint = f"it has {counts[0]} buckets" if len(counts) == 1 else "keys do not lie where it would put them"
            raise InvalidArgumentError(
                f"{given_as} contradicts the table: {hint}; buckets are fixed by the first write", table=table
            )
        if given is not None:
            return Index(buckets=Buckets(given, fields))
        if len(counts) == 1:
            return Index(buckets=Buckets(counts[0], fields))
        default = self.snapshot.options[_COUNT]  # where the keys lie as by Hudi's number, that is it
        return Index(buckets=Buckets(default, fields)) if seen.allows(default) else None

    def _consistent(self, kind: str | None, fields: tuple[str, ...], paths: Sequence[str]) -> Index | None:
        """Return the consistent bucket index, with the hash ring of each partition."""
        table, engine = self.snapshot.table, self.snapshot.options.explicit(_ENGINE)
        if kind not in {None, "BUCKET"} or engine not in {None, _CONSISTENT}:
            raise InvalidArgumentError(
                f"{_TYPE}={kind or 'BUCKET'} and {_ENGINE}={engine or 'SIMPLE'} contradict the table, which has "
                f"consistent hashing; use BUCKET and {_CONSISTENT}",
                table=table,
            )
        _check_consistent(self.snapshot.config, table)
        if not paths and next(self._written(), None):
            raise InvalidArgumentError(
                f"{_ENGINE}={_CONSISTENT} contradicts the table, whose files are of another index: their keys would "
                "not be found; use the index that wrote them, or write the records to a new table",
                table=table,
            )
        rings = read_rings(self.snapshot, paths)
        known = [ring.initial or len(ring.values) for _, ring in sorted(rings.items())]
        given = _given_count(self.snapshot.config, self.snapshot.options, table)
        by_rings = known[0] if known else self.snapshot.options[_COUNT]
        return Index(buckets=ConsistentBuckets(by_rings if given is None else given, fields, rings))

    def _check_one_numbering(self, seen: _Evidence) -> None:
        """Refuse a number of buckets per partition: file names don't show the number."""
        if seen.files and self._described:
            raise NotSupportedError(
                "the table's buckets are numbered partition by partition; use Apache Hudi",
                table=self.snapshot.table,
            )

    def _evidence(self, fields: tuple[str, ...]) -> _Evidence:
        """Collect evidence from the newest files; read keys of few files, and only if names look like buckets."""
        seen, read, hashed = _Evidence(), 0, 0
        for files in self._written():
            known = [bucket for file in files if (bucket := bucket_of_file_id(file.file_id)) is not None]
            if len(known) < len(files):
                return _Evidence(files=True)
            seen = _Evidence(True, True, max(seen.most, *known), seen.divisor)
            for file, bucket in sorted(zip(files, known, strict=True), key=lambda pair: pair[0].size):
                hashes = self._hashes(file, fields)
                divisor = math.gcd(seen.divisor, int(np.gcd.reduce(np.abs(hashes - bucket))))
                seen, read, hashed = replace(seen, divisor=divisor), read + 1, hashed + len(hashes)
                enough = hashed >= _SAMPLE_HASHES and len(seen.counts()) == 1
                if enough or not seen.fits or read == _SAMPLE_FILES:
                    return seen
        return seen

    def _hashes(self, file: BaseFile | LogFile, fields: tuple[str, ...]) -> np.ndarray:
        """Return distinct hashes of a file's first keys; none if the file was cleaned meanwhile."""
        try:
            keys = self._logged(file) if isinstance(file, LogFile) else self._stored(file)
        except NotFoundError:
            return np.empty(0, dtype=np.int64)
        return np.unique(key_hashes(keys, fields)).astype(np.int64)

    def _stored(self, file: BaseFile) -> pa.ChunkedArray:
        reader = open_base_file(self.snapshot.meta.storage, replace(file, keys=self.snapshot.meta.virtual_keys))
        check_key_column(reader)
        return reader.read([RECORD_KEY], range(min(1, reader.num_groups)))[RECORD_KEY]

    def _logged(self, file: LogFile) -> pa.ChunkedArray:
        """Return the keys of the records in a log file's first data block."""
        for block in read_blocks(self.snapshot.meta.storage, file):
            if block.kind.is_data and self.snapshot.meta.virtual_keys is not None:
                return virtual_keys(
                    decode_data(block, set(self.snapshot.meta.keys.columns)), self.snapshot.meta.virtual_keys
                )
            if block.kind.is_data:
                return decode_data(block, {RECORD_KEY})[RECORD_KEY]
        return pa.chunked_array([], pa.string())

    def _written(self) -> Iterator[list[BaseFile | LogFile]]:
        """Yield the files of each of the newest commits that wrote any, newest first."""
        for instant in itertools.islice(reversed(self.snapshot.commits), _SAMPLE_COMMITS):
            stats = self.snapshot.meta.store.read_commit_metadata(instant).partition_to_write_stats
            files = [file for partition, group in stats.items() for s in group if (file := _file(partition, s))]
            if files:
                yield files


def _file(partition: str, stat: WriteStat) -> BaseFile | LogFile | None:
    name = basename(stat.path or "")
    size = stat.file_size_in_bytes or stat.total_write_bytes
    base, log = parse_base_file(name), parse_log_file(name)
    if not size or (base is None and log is None):
        return None
    return LogFile(partition, log, size) if log is not None else BaseFile(partition, base, size)  # type: ignore[arg-type]
