"""Schema on read: read and write the schema history of a table, in commits and schema files."""

from __future__ import annotations

from posixpath import basename

from pudi.client.meta_client import MetaClient
from pudi.client.snapshot import TableSnapshot
from pudi.config import TableConfig
from pudi.errors import CorruptError, NotSupportedError, cause_text, naming
from pudi.format import SCHEMA_DIR, Action, InstantFile, MaxBytes, State, parse_instant_file
from pudi.schema.internal import InternalSchema, SchemaHistory, parse_history
from pudi.timeline import new_instant


def read_history(snapshot: TableSnapshot) -> SchemaHistory | None:
    """Return the schemas by which a table's files are read; None for a table without schema on read.

    As in Hudi, the newest commit that can state a schema decides: without an internal schema it ends schema on read.

    Args:
        snapshot: the table, as the reader sees it; commits of its whole timeline make schema files valid.

    Raises:
        CorruptError: a schema can't be read, or the schema files are missing.
        NotSupportedError: a schema has a type that pudi doesn't support, or files leave out partition columns.
    """
    text = snapshot.schema_by_id
    if text is None:
        return None
    refuse_ids_of_path_columns(snapshot.meta)
    current = InternalSchema.from_json(text)
    path = _newest_file(snapshot)
    if path is None:
        raise CorruptError(
            "the table's columns are identified by id (schema on read), and the files that state the ids of its older "
            "files are gone; restore them",
            table=snapshot.table,
            path=SCHEMA_DIR,
        )
    content = snapshot.meta.storage.read(path, MaxBytes.SCHEMAS)
    try:
        with naming(path, snapshot.table):
            known = parse_history(content.decode())
    except UnicodeDecodeError as error:
        raise CorruptError(
            f"the file of the table's older schemas is no text: {cause_text(error)}; restore it from a copy",
            table=snapshot.table,
            path=path,
            offset=error.start,
        ) from error
    return SchemaHistory(current, known).with_version(current)


def refuse_ids_of_path_columns(meta: MetaClient) -> None:
    """Refuse schema on read in a table whose files leave out the partition columns.

    Raises:
        NotSupportedError: they do.
    """
    if meta.path_columns:
        raise NotSupportedError(
            f"columns that are identified by id (schema on read), in a table with {TableConfig.drop_partition_columns}"
            "=true, whose files leave out the partition columns; write the data into a new table",
            table=meta.storage.root,
        )


def write_history(meta: MetaClient, instant: str, history: SchemaHistory) -> None:
    """Store the schemas under a commit that is about to complete (FileBasedInternalSchemaStorageManager)."""
    pending = InstantFile(instant, Action.SCHEMACOMMIT, State.REQUESTED)
    completion = new_instant(meta.context.clock.now_ms(), None, meta.config.timezone)
    done = pending.completed(completion if meta.store.rules.has_completion_times else None)
    texts = ((pending, ""), (pending.inflight(), ""), (done, history.to_json()))
    for file, text in texts:
        meta.storage.put(f"{SCHEMA_DIR}/{file.file_name(meta.store.layout)}", text.encode(), durable=bool(text))


def _newest_file(snapshot: TableSnapshot) -> str | None:
    completed, start = {instant.requested for instant in snapshot.timeline.commits}, snapshot.timeline.start or ""
    found: dict[str, str] = {}
    for info in snapshot.meta.storage.list_dir(SCHEMA_DIR)[0]:
        file = parse_instant_file(basename(info.path), snapshot.meta.store.layout)
        if file is not None and file.action is Action.SCHEMACOMMIT and file.state is State.COMPLETED:
            found[file.requested] = info.path
    # a commit with a savepoint may be older than the active timeline's start, and than commits that were archived
    valid = [time for time in found if start <= time and time in completed] or [time for time in found if time < start]
    return found[max(valid)] if valid else None
