"""Locks that a service outside of the table keeps: the contract of such a lock in, the table's lock out."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TypeVar

from pudi.config.option import checked_name
from pudi.errors import ConflictError, InvalidArgumentError, PudiError, UnavailableError, cause_text
from pudi.locks.file_locks import MachineLock
from pudi.locks.table_lock import LockSite

_log = logging.getLogger(__name__)

_Answer = TypeVar("_Answer")

_USUAL_POLL_S = 0.2


class LockProvider(ABC):
    """A table's lock that a service keeps (Hudi's LockProvider).

    pudi opens one object for each open table, and calls it by one thread at a time. pudi itself makes the lock
    reentrant, keeps the threads of a process apart, and waits. `pudi.testing.LockTests` is the contract.

    Args:
        table: the table's root, in one spelling for all its names.
        options: the options of the `Table` or verb as they were given. The constructor only looks at them: it runs
            when a table is opened, also by readers.

    Raises:
        pudi.InvalidArgumentError: an option is missing or wrong.
    """

    def __init__(self, table: str, options: Mapping[str, str]) -> None:
        self.table = table
        self.options = options

    @abstractmethod
    def try_lock(self, seconds: float) -> bool:
        """Take the lock, and wait up to `seconds` for it; return whether it was taken.

        It may return False earlier: pudi asks again until the time is over.

        Raises:
            pudi.UnavailableError: the service can't be reached. Other errors become one.
        """

    @abstractmethod
    def unlock(self) -> None:
        """Give the lock back. It may be another's by now, and then stays so. Errors are logged."""

    @abstractmethod
    def holds(self) -> bool:
        """Ask the service whether the lock is still held by this object.

        pudi asks just before a commit appears, and doesn't commit unless the answer is True. A lock whose lease has
        expired is no longer held, even if nobody has taken it.
        """

    def check_ready(self) -> None:
        """Make sure that the service can be asked, in seconds at most; nothing is locked.

        pudi calls it once, before the first write does any work. By default nothing is asked.

        Raises:
            pudi.SetupError: a package is missing.
            pudi.UnavailableError: the service can't be reached. Other errors become one.
        """
        return

    def holder(self) -> str:
        """Who holds the lock, for the message of a wait that was too long."""
        return "another writer"


class ProvidedLock(MachineLock):
    """The table's lock, kept by a `LockProvider`.

    Args:
        name: the provider's name, for messages.
        provider: the lock in the service.
        site: the table. On a local disk the file lock keeps out writers of pudi that don't name the provider.
    """

    def __init__(self, name: str, provider: LockProvider, site: LockSite) -> None:
        super().__init__(site.storage, site.settings, site.context)
        self._name, self._provider = name, provider
        self._ready = False

    def check_ready(self) -> None:
        """Ask the service once.

        Raises:
            SetupError: a package is missing.
            UnavailableError: the service doesn't answer.
        """
        if not self._ready:
            self._ask(self._provider.check_ready)
            self._ready = True

    def verify(self) -> None:
        """Ask the service.

        Raises:
            ConflictError: the lock is no longer held.
            UnavailableError: the service doesn't answer.
        """
        if not self._ask(self._provider.holds):
            raise ConflictError(
                f"the table's lock was lost: {self._name} no longer counts this writer as its holder. Nothing of what "
                "it did under the lock is visible; do it again",
                table=self._table,
            )

    def _take(self, deadline: float) -> None:
        clock = self._context.clock
        while not self._ask(lambda: self._provider.try_lock(max(0.0, deadline - clock.monotonic()))):
            self._wait(deadline, _USUAL_POLL_S, self._ask(self._provider.holder))

    def _give_back(self) -> None:
        try:
            self._provider.unlock()
        except Exception as error:  # noqa: BLE001 - what was done under the lock is done, whatever a provider raises
            _log.warning("%s: %s couldn't release the lock: %s", self._table, self._name, cause_text(error))

    def _ask(self, question: Callable[[], _Answer]) -> _Answer:
        try:
            return question()
        except PudiError:
            raise
        except Exception as error:
            raise UnavailableError(
                f"the lock provider {self._name} failed: {cause_text(error)}; nothing was committed",
                table=self._table,
            ) from error


_REGISTERED: dict[str, type[LockProvider]] = {}


def register_lock_provider(name: str, provider: type[LockProvider]) -> None:
    """Make a lock of your own known to this process.

    Tables that are opened with `hoodie.write.lock.provider=NAME` are locked by it. A name in an option or a table never
    imports code: pudi only looks it up in the list of what was registered.

    Args:
        name: the name in the option; any but those of Hudi's own classes. A class registered before under the same
            name is replaced for tables that are opened from now on.
        provider: a subclass of `pudi.LockProvider`, called with the table's root and the options.

    Raises:
        InvalidArgumentError: the name is empty, has a comma or is one of Hudi's, or `provider` is no such class.
    """
    name = checked_name("lock provider", name, provider)
    if not (isinstance(provider, type) and issubclass(provider, LockProvider)):
        raise InvalidArgumentError(f"lock provider {name!r} is no subclass of pudi.LockProvider, but {provider!r:.100}")
    _REGISTERED[name] = provider


def registered_provider(name: str) -> type[LockProvider] | None:
    """The class that was registered under a name."""
    return _REGISTERED.get(name)
