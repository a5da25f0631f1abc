"""Import Parquet files as one bulk insert: their keys are checked, then jobs copy or rewrite their row groups."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial

from pudi.client import CommitResult
from pudi.client.settings import file_options
from pudi.errors import CorruptError, NotSupportedError, TableExistsError
from pudi.filegroup.basefile_copies import ForeignFile
from pudi.format import staging_dir
from pudi.format.parquet_chunks import NotMovableError
from pudi.merge import DELETED
from pudi.plan import Operation, WriteSpec
from pudi.plan.imports import ImportUnit, SourceFile, plan_import
from pudi.task import FileResult
from pudi.task.import_files import CheckedKeys, ImportJob, ImportSource, UniqueKeys, shard_count
from pudi.task.staged_keys import portions_by_shard, staged_of
from pudi.timeline.timeline import NOTHING
from pudi.writes.write import run_write
from pudi.writes.write_recipe import Placement, WriteAttempt, WriteRecipe, WriteRequest, never, take_nothing


def import_files(
    request: WriteRequest, source: ImportSource, files: Sequence[SourceFile], *, copy: bool
) -> CommitResult | None:
    """Import files into a table without commits, in one commit.

    Args:
        request: what the caller asks for.
        source: where the files are.
        files: the files.
        copy: whether column chunks are copied where that is possible.

    Returns:
        What was done; None if the files have no rows.

    Raises:
        NotSupportedError: the table's index decides by the key in which file a record is.
        InvalidArgumentError: a key is null, or comes more than once.
        CorruptError: a file is damaged, or changed meanwhile.
        TableExistsError: the table has commits.
        ChangedSinceError: another write completed meanwhile.
    """
    meta, options = request.meta, request.write_options

    def place(write: WriteAttempt, records: object) -> Placement:
        if write.timeline.commits:
            raise TableExistsError("the table has commits: an import makes a new one", table=write.table)
        if write.index.buckets is not None:
            raise NotSupportedError(
                "an import keeps records together as their files have them, and a bucket index places each by its key: "
                "write the files with bulk_insert instead",
                table=write.table,
            )
        marked = DELETED in write.schema.names or bool(meta.config.delete_marker)
        known = _movable(write, source, files) if copy and not marked else files
        units = plan_import(known, options.max_file_size)
        return Placement(records, None, write.index, _all_partitions, by_jobs=partial(_run, write, source, units))

    recipe = WriteRecipe(Operation.BULK_INSERT, place, take_nothing, never, evolves=False, is_planned=True)
    return run_write(replace(request, since=NOTHING), recipe, None)


def _all_partitions(partitions: Collection[str]) -> Collection[str]:
    """Return that an import reads all partitions: its keys are unique only in a table that stays empty until then."""
    return partitions


def _movable(write: WriteAttempt, source: ImportSource, files: Sequence[SourceFile]) -> list[SourceFile]:
    """Return the files, those marked whose column chunks can be copied."""
    settings = file_options(write.meta, write.write_options, source.schema.names)
    if settings.hfile is not None:
        return list(files)

    def look(file: SourceFile) -> SourceFile:
        if file.partition is None:
            return file
        opened = ForeignFile(source.storage, file.path, file.size)
        try:
            return replace(file, copies=True, layout=opened.movable(source.schema, settings.parquet).layout)
        except NotMovableError:
            return file
        finally:
            opened.close()

    return write.meta.context.executor.map(look, files)


def _run(
    write: WriteAttempt, source: ImportSource, units: Sequence[ImportUnit], spec: WriteSpec
) -> Sequence[FileResult]:
    storage, engine, rows = write.meta.storage, write.engine, sum(unit.rows for unit in units)
    if not units:
        return ()
    if not source.keys.generates:
        with write.report.phase("check keys"):
            _check_keys(write, source, units, spec)
    jobs = [ImportJob(unit.number, spec, source, unit, write.meta.context.new_id()) for unit in units]
    results = engine.run_jobs(storage, spec.instant, jobs)
    received = sum(result.received for result in results)
    if received != rows:
        raise CorruptError(
            f"{received} rows were read, and the footers of the files say {rows}: nothing was imported",
            table=source.storage.root,
        )
    return results


def _check_keys(write: WriteAttempt, source: ImportSource, units: Sequence[ImportUnit], spec: WriteSpec) -> None:
    storage, engine, shards = write.meta.storage, write.engine, shard_count(sum(unit.rows for unit in units))
    folder = f"{staging_dir(spec.instant)}/imported"
    staging = [
        CheckedKeys(unit.number, source, unit, f"{folder}/{unit.number}", shards, write.index.is_global)
        for unit in units
    ]
    staged = staged_of(engine.run_jobs(storage, spec.instant, staging))
    portions = portions_by_shard(staged)
    checks = [UniqueKeys(n, source, each, write.index.is_global) for n, each in enumerate(portions.values())]
    engine.run_jobs(storage, spec.instant, checks)
    storage.delete([each.rows.path for each in staged])
