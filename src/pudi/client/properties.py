"""`hoodie.properties` in storage: created once, updated with a backup, recovered after a crash (HoodieTableConfig)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pudi.config import TableConfig
from pudi.config.new_table import with_older_names
from pudi.context import Context, Lock, Storage
from pudi.errors import CorruptError, NotFoundError, StoreNotFoundError, TableExistsError, TableNotFoundError
from pudi.format import PROPERTIES, PROPERTIES_BACKUP, MaxBytes, decode_table_properties, encode_table_properties

_READ_ATTEMPTS = 5
_READ_PAUSE_SECONDS = 0.2


def create_properties(storage: Storage, properties: Mapping[str, str], context: Context) -> None:
    """Create a table's properties, the step that makes it a table; `check_no_table` comes before it.

    Raises:
        TableExistsError: there is a table already.
    """
    try:
        storage.create(PROPERTIES, encode_table_properties(properties, context.clock.now_ms()), durable=True)
    except TableExistsError:
        raise TableExistsError("there is a table already; open it with pudi.Table(path)", table=storage.root) from None


def check_no_table(storage: Storage) -> None:
    """Raise TableExistsError where a table is."""
    for path in (PROPERTIES, PROPERTIES_BACKUP):
        if _try_read(storage, path) is not None:
            raise TableExistsError("there is a table already; open it with pudi.Table(path)", table=storage.root)


def read_properties(storage: Storage, context: Context) -> dict[str, str]:
    """Read a table's properties, or their backup during an update (ConfigUtils.fetchConfigs).

    Raises:
        TableNotFoundError: neither file exists.
        CorruptError: neither can be read.
    """
    problem: CorruptError | None = None
    absent = False
    for attempt in range(_READ_ATTEMPTS):
        found = False
        for path in (PROPERTIES, PROPERTIES_BACKUP):
            try:
                content = _try_read(storage, path)
                if content is not None:
                    return decode_table_properties(content, path=path)
            except CorruptError as error:
                found, problem = True, error
            except StoreNotFoundError as error:
                raise TableNotFoundError(error.message, table=storage.root) from error
        if not found and not absent:
            # An update may have written the new file and deleted the backup between the two reads.
            absent = True
            continue
        if not found:
            raise TableNotFoundError(
                "there is no Hudi table here (no .hoodie/hoodie.properties); make one with pudi.create(path, …)",
                table=storage.root,
            )
        absent = False
        if attempt + 1 < _READ_ATTEMPTS:
            context.clock.sleep(_READ_PAUSE_SECONDS)
    assert problem is not None
    problem.table = problem.table or storage.root
    raise problem


def read_config(storage: Storage, context: Context) -> TableConfig:
    """Read a table's properties as a value; errors as of `read_properties` and `TableConfig.parse`."""
    return TableConfig.parse(read_properties(storage, context), table=storage.root)


def update_properties(
    storage: Storage, context: Context, lock: Lock, change: Callable[[dict[str, str]], Mapping[str, str]]
) -> dict[str, str]:
    """Replace a table's properties by the result of `change`. Called under the table's lock.

    Names that releases of the table's version know are added where they lack.

    Readers see the old or the new properties: a backup holds the old ones until the new file is written
    (HoodieTableConfig.modify). A backup that a crash left is restored first.

    Args:
        storage: the files of the table, or of its metadata table.
        context: the clock.
        lock: the table's lock.
        change: returns the new properties.

    Returns:
        The new properties.

    Raises:
        ConflictError: the lock was lost; the properties are as they were.
    """
    recover_properties(storage)
    before = storage.read(PROPERTIES, MaxBytes.PROPERTIES)
    after = with_older_names(change(decode_table_properties(before, path=PROPERTIES)))
    lock.verify()  # another process may have changed them since
    storage.create(PROPERTIES_BACKUP, before, durable=True)
    storage.delete([PROPERTIES])
    storage.create(PROPERTIES, encode_table_properties(after, context.clock.now_ms()), durable=True)
    storage.delete([PROPERTIES_BACKUP])
    return after


def recover_properties(storage: Storage) -> None:
    """Finish or undo an interrupted update (HoodieTableConfig.recoverIfNeeded); under the table's lock."""
    backup = _try_read(storage, PROPERTIES_BACKUP)
    if backup is None:
        return
    current = _try_read(storage, PROPERTIES)
    if current is None or not _is_valid(current):
        decode_table_properties(backup, path=PROPERTIES_BACKUP)
        storage.put(PROPERTIES, backup, durable=True)
    storage.delete([PROPERTIES_BACKUP])


def _is_valid(content: bytes) -> bool:
    try:
        decode_table_properties(content)
    except CorruptError:
        return False
    return True


def _try_read(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read(path, MaxBytes.PROPERTIES)
    except StoreNotFoundError:
        raise
    except NotFoundError:
        return None
