"""SET and RESET, USE, ATTACH and DETACH, REFRESH: statements about the session.

Options of Hudi and pudi are set on both engines, and the settings of Spark, which on this machine have one value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pudi.config import KEY_PREFIXES, option
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.statement.attached_catalogs import ATTACHED
from pudi.statement.host import DATABASE, NAMED_TABLE, WAREHOUSE, result_table
from pudi.statement.session import Session
from pudi.statement.shared_meaning import UTC
from pudi.statement.tree import (
    TIME_ZONE,
    Attach,
    Refresh,
    ResetOption,
    SetOption,
    Use,
)

_OF_SQL = "pudi.sql."
_NAMES = (NAMED_TABLE, ATTACHED, DATABASE)
"""Beginnings of the settings that RESET without a key keeps."""
_MEANINGS: Mapping[str, frozenset[str]] = {
    TIME_ZONE: UTC,
    "spark.sql.ansi.enabled": frozenset({"TRUE"}),
    "spark.sql.ansi.doubleQuotedIdentifiers": frozenset({"FALSE"}),
    "spark.sql.caseSensitive": frozenset({"FALSE"}),
    "spark.sql.mapKeyDedupPolicy": frozenset({"EXCEPTION"}),
    "spark.sql.parser.escapedStringLiterals": frozenset({"FALSE"}),
    "spark.sql.storeAssignmentPolicy": frozenset({"ANSI"}),
    "spark.sql.timestampType": frozenset({"TIMESTAMP_LTZ"}),
}
"""The settings of Spark that say what a statement means, with the values that statements have on this machine."""
_OLD_MEANINGS = "spark.sql.legacy."
"""The settings that begin so bring back what statements of older releases meant."""
_SHOWN = (("key", "string"), ("value", "string"))
_SECRET = re.compile(r"secret|password|token|access[.-]?key|credential", re.IGNORECASE)
"""Found in the keys of values that nobody may see (spark.redaction.regex, and what AWS and Polaris call theirs)."""
_REDACTED = "*********(redacted)"


def redacted(key: str, value: str) -> str:
    """Return the value of a setting as it may be shown."""
    return _REDACTED if _SECRET.search(key) else value


def set_option(session: Session, statement: SetOption) -> Any:
    """Run SET: set a key, show its value, or list all of them; secrets aren't shown.

    Raises:
        InvalidArgumentError: Hudi and pudi have no such option.
        NotSupportedError: a setting of Spark gives statements a meaning that they don't have on this machine.
    """
    key, value = statement.key, statement.value
    own = key is not None and key.startswith(KEY_PREFIXES)
    local = session.host.spark is None
    if not (own or local or key is None):
        return session.by_engine()
    if key is None:
        known = ((name, redacted(name, text)) for name, text in session.host.settings.items().items())
        return session.host.result(result_table(_SHOWN, sorted(known)))
    if value is not None:
        with session.at(0):
            if own:
                _check_known(key)
            if local:
                _check_meaning(key, value)
        session.host.settings.set(key, value)
    shown = session.host.settings.get(key)
    return session.host.result(result_table(_SHOWN, [(key, "<undefined>" if shown is None else redacted(key, shown))]))


def reset_option(session: Session, statement: ResetOption) -> Any:
    """Run RESET: take back what SET set; the names of tables and attached catalogs stay."""
    if session.host.spark is not None:
        return session.by_engine()
    settings, key = session.host.settings, statement.key
    for each in [key] if key is not None else [name for name in settings.items() if not name.startswith(_NAMES)]:
        settings.unset(each)
    return session.host.result(result_table((), []))


def _check_known(key: str) -> None:
    """Refuse a key that nothing reads."""
    if not key.startswith(_OF_SQL):
        option(key)
    elif key not in {WAREHOUSE, DATABASE} and not key.startswith((NAMED_TABLE, ATTACHED)):
        raise InvalidArgumentError(f"unknown option {key!r}: there are {WAREHOUSE}, {DATABASE} and {ATTACHED}NAME")


def _check_meaning(key: str, value: str) -> None:
    """Refuse what would leave a statement with another meaning than its session asks for."""
    meanings = _MEANINGS.get(key)
    if meanings is not None and value.strip().upper() not in meanings:
        raise NotSupportedError(
            f"{key} = {value}: on this machine statements mean what they mean under {min(meanings).lower()}; "
            "run them on Spark, or leave the setting out"
        )
    if key.startswith(_OLD_MEANINGS):
        raise NotSupportedError(
            f"{key} brings back what statements of older releases of Spark meant, which they don't on this machine; "
            "run them on Spark, or leave the setting out"
        )


def attach(session: Session, statement: Attach) -> Any:
    """Run ATTACH or DETACH: know a catalog by name, or no more."""
    with session.at(statement.at):
        if statement.address is None:
            session.attached.detach(statement.name)
        else:
            session.attached.attach(statement.name, statement.address)
    return session.done()


def refresh(session: Session, statement: Refresh) -> Any:
    """Run REFRESH TABLE or ANALYZE TABLE: nothing for a Hudi table, whose statistics its writes keep."""
    with session.at(statement.table):
        if session.find(statement.table) is None:
            return session.by_engine()
    return session.done()


def use(session: Session, statement: Use) -> Any:
    """Run USE: choose the database of names that say none."""
    if session.host.spark is not None:
        return session.by_engine()
    if statement.database is not None:  # on this machine a database is a part of names
        session.host.settings.set(DATABASE, statement.database.lower())
    return session.done()
