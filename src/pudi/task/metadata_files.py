"""Write files of the metadata table: a file group's changes in, a log file or base file with its statistics out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import pyarrow as pa

from pudi.context import Storage
from pudi.errors import ConflictError, TableExistsError
from pudi.filegroup import FileSlice, LogFile, Markers
from pudi.format import BaseFileName, IOType, Layout, LogFileName, RuntimeStats, WriteStat, write_token
from pudi.format.delete_encode import encode_deletes
from pudi.format.hfile_write import encode_hfile
from pudi.format.layout import rules_of
from pudi.format.log_block import BlockKind, Header, decode_blocks, encode_block
from pudi.format.metadata_partitions import FILES
from pudi.metadata import RECORD_AVRO
from pudi.metadata.changes import Changes
from pudi.metadata.decode import SMALL
from pudi.metadata.plain_records import keep_written
from pudi.plan.log_files import Append, log_io_type
from pudi.timeline import NO_COMMIT

DEFAULT_TOKEN = "0-0-0"
"""The write token of log files that create file groups (HoodieLogFormat.DEFAULT_WRITE_TOKEN)."""
_MOST_TAKEN = 1000
"""Names of log files in layout 1 that are tried before giving up."""


def encode_delete_block(requested: str, gone: pa.Array, more: Mapping[Header, str] = MappingProxyType({})) -> bytes:
    """Return a delete block with additional headers; without keys it creates an empty file group."""
    headers = {Header.INSTANT_TIME: requested, **more}
    if len(gone):
        headers[Header.SCHEMA] = RECORD_AVRO
    return encode_block(BlockKind.DELETE, headers, encode_deletes(gone, pa.nulls(len(gone), pa.string())))


def make_group(storage: Storage, requested: str, partition: str, file_id: str) -> None:
    """Create a file group by an empty log file, so that the group exists without records.

    Args:
        storage: the metadata table's files.
        requested: the instant.
        partition: partition of the metadata table.
        file_id: the file group.
    """
    name = LogFileName(file_id, requested, 1, DEFAULT_TOKEN).name
    storage.create(f"{partition}/{name}", encode_delete_block(requested, pa.array([], pa.string())))


@dataclass(frozen=True, slots=True)
class LogTarget:
    """A file group of the metadata table to which an instant appends a log file.

    Attributes:
        requested: the instant.
        layout: the layout of the metadata table's timeline.
        slice: the file group's latest slice.
        number: number of the file group in the commit.
        attempt: number of the attempt at writing it.
        of_plan: whether a run of a plan writes it.
    """

    requested: str
    layout: Layout
    slice: FileSlice
    number: int = 0
    attempt: int = 0
    of_plan: bool = False

    @property
    def token(self) -> str:
        """The write token; in layout 1 all log files of a slice have the first one's.

        It differs from the token of log files that create file groups: one commit may create a group and write to it.
        Runs of a plan have the same.
        """
        known = [log.name.write_token for log in self.slice.logs if log.name.write_token]
        if rules_of(self.layout).logs_name_their_slice and known:
            return known[-1]
        return write_token(0, 1, 0) if self.of_plan else write_token(self.number, 1, self.attempt)


def append_changes(storage: Storage, target: LogTarget, changes: Changes) -> WriteStat:
    """Write the log file of one file group.

    In layout 1, where names don't hold the commit's instant, a name that another writer took since is passed over.

    Two runs of a plan write blocks of one instant, and those of a run that was displaced would count as well. So their
    files have the same names: a run that finds the file of another one there gives up.

    Args:
        storage: the metadata table's files.
        target: the file group.
        changes: the changes, sorted.

    Raises:
        TableExistsError: in layout 2, the file is there.
        ConflictError: another run of the plan has written it.
    """
    requested, layout, file_slice = target.requested, target.layout, target.slice
    over = Append(file_slice)
    headers = {Header.INSTANT_TIME: requested, Header.SCHEMA: RECORD_AVRO}
    blocks = []
    if len(changes.keys):
        records = encode_hfile(changes.keys, changes.values, avro_schema=RECORD_AVRO)
        blocks.append(encode_block(BlockKind.HFILE, headers, records))
        if file_slice.partition == FILES and len(records) <= SMALL:
            keep_written(records, changes.keys.to_pylist(), changes.values.to_pylist())
    if len(changes.gone):
        blocks.append(encode_delete_block(requested, changes.gone))
    content = b"".join(blocks)
    base_instant, first = over.instant(requested, layout), over.version(layout)
    token = target.token
    for version in range(first, first + _MOST_TAKEN):
        log = LogFile(file_slice.partition, LogFileName(file_slice.file_id, base_instant, version, token), len(content))
        try:
            storage.create(log.path, content)
            break
        except TableExistsError:
            if target.of_plan and _is_there(storage, log.path, content, requested):
                break
            if rules_of(layout).logs_name_their_commit or version == first + _MOST_TAKEN - 1:
                raise
    return _log_stat(target, log, changes, base_instant)


def _is_there(storage: Storage, path: str, content: bytes, requested: str) -> bool:
    """Return whether an earlier attempt of this run wrote a log file; False if another commit did.

    Raises:
        ConflictError: another run of the plan did.
    """
    found = storage.read(path)
    if found == content:
        return True
    if any(block.instant == requested for block in decode_blocks(found, path=path)):
        raise ConflictError(
            "another process runs the plan too, and has written this file; run the plan again if it is still pending",
            path=path,
            instant=requested,
        )
    return False


def write_compacted_logs(
    storage: Storage, target: LogTarget, changes: Changes, instants: Sequence[str], token: str
) -> WriteStat:
    """Write a log file that replaces the log files of a slice.

    Args:
        storage: the metadata table's files.
        target: the slice and the log compaction.
        changes: the merged content of its log files, sorted; deletes come first.
        instants: the instants of the replaced blocks.
        token: the write token.
    """
    requested, layout, file_slice = target.requested, target.layout, target.slice
    over = Append(file_slice)
    name = LogFileName(file_slice.file_id, over.instant(requested, layout), over.version(layout), token)
    Markers(storage, requested).create(file_slice.partition, name.name, log_io_type(layout))
    stands_for = {Header.COMPACTED_BLOCK_TIMES: ",".join(instants)}
    blocks = []
    if len(changes.gone) or not len(changes.keys):
        blocks.append(encode_delete_block(requested, changes.gone, stands_for))
    if len(changes.keys):
        headers = {Header.INSTANT_TIME: requested, Header.SCHEMA: RECORD_AVRO, **stands_for}
        records = encode_hfile(changes.keys, changes.values, avro_schema=RECORD_AVRO)
        blocks.append(encode_block(BlockKind.HFILE, headers, records))
    content = b"".join(blocks)
    log = LogFile(file_slice.partition, name, len(content))
    storage.create(log.path, content)
    stat = _log_stat(target, log, changes, file_slice.instant)
    return replace(stat, total_log_files_compacted=len(file_slice.logs))


def _log_stat(target: LogTarget, log: LogFile, changes: Changes, prev_commit: str) -> WriteStat:
    """Return the write statistics of a log file; in layout 1 they name the other files of its slice too."""
    over = Append(target.slice)
    by_slice = rules_of(target.layout).logs_name_their_slice
    return WriteStat(
        file_id=log.name.file_id,
        path=log.path,
        prev_commit=prev_commit,
        base_file=over.base_file if by_slice else "",
        log_files=(*over.logs, log.name.name) if by_slice else (log.name.name,),
        log_version=log.name.version,
        log_offset=0,
        num_writes=len(changes.keys),
        num_update_writes=len(changes.keys),
        num_deletes=len(changes.gone),
        total_write_bytes=log.size,
        partition_path=log.partition,
        file_size_in_bytes=log.size,
        runtime_stats=RuntimeStats(),
    )


def base_name(file_id: str, requested: str, token: str) -> BaseFileName:
    """Return the name of a base file of the metadata table.

    Args:
        file_id: the file group.
        requested: the instant.
        token: the write token.
    """
    return BaseFileName(file_id, token, requested, "hfile")


def write_base(
    storage: Storage, partition: str, name: BaseFileName, changes: Changes, *, marked: bool = False
) -> WriteStat:
    """Write the base file of one file group; its statistics state that the group is new.

    Args:
        storage: the metadata table's files.
        partition: partition of the metadata table.
        name: the file's name, see `base_name`.
        changes: its records.
        marked: whether a marker is created first, for a plan that may run more than once.
    """
    records = changes.sorted()
    if marked:
        Markers(storage, name.instant).create(partition, name.name, IOType.MERGE)
    content = encode_hfile(records.keys, records.values, avro_schema=RECORD_AVRO)
    path = f"{partition}/{name.name}"
    storage.create(path, content)
    return WriteStat(
        file_id=name.file_id,
        path=path,
        prev_commit=NO_COMMIT,
        num_writes=len(records.keys),
        num_inserts=len(records.keys),
        total_write_bytes=len(content),
        partition_path=partition,
        file_size_in_bytes=len(content),
        runtime_stats=RuntimeStats(),
    )
