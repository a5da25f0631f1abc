"""The contract of a `Lock`, as tests: a new lock subclasses `LockTests` and gives the fixtures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeAlias

import pytest

from pudi.config import LockSettings
from pudi.context import Context, Lock, Storage
from pudi.errors import ConflictError, UnavailableError
from pudi.locks import LockProvider, open_lock, register_lock_provider
from pudi.storage import open_storage
from pudi.testing.race import START_TIMEOUT, Barrier, race

Opener: TypeAlias = Callable[[], Lock]
"""Makes a new lock object for one table; picklable where other processes can hold the lock."""

ROUNDS = 15

PATIENT = {LockSettings.wait_ms.key: "60000", LockSettings.poll_ms.key: "10"}
IMPATIENT = {LockSettings.wait_ms.key: "60"}


def count_up(barrier: Barrier, number: int, opener: Opener, storage: Storage, rounds: int) -> None:
    """Add to a number in a file by reading and writing it, under the lock."""
    del number
    lock = opener()
    barrier.wait(START_TIMEOUT)
    for _ in range(rounds):
        with lock:
            storage.put("counter", str(int(storage.read("counter")) + 1).encode())


def open_lock_of(
    storage: Storage, name: str | None, provider: type[LockProvider] | None, options: dict[str, str]
) -> Lock:
    """A lock of a table, by a provider's name; a class of the user's is registered first, as each process must."""
    if name is not None and provider is not None:
        register_lock_provider(name, provider)
    return open_lock(storage, name, options, Context(), "contract")


class LockTests:
    """Contract of every lock.

    For a provider of your own give its class as `provider`, a name for it as `name`, and its `options`. Other locks
    give the fixtures `opener`, `impatient` and `storage`. Where a lock can be taken from a holder that was away for
    too long, the fixture `steal` does it.

    Attributes:
        name: value of `hoodie.write.lock.provider`.
        provider: the class to register under that name; None for a lock of pudi's.
        options: options of the lock.
        processes: whether it locks other processes out.
    """

    name: ClassVar[str | None] = None
    provider: ClassVar[type[LockProvider] | None] = None
    options: ClassVar[Mapping[str, str]] = {}
    processes: ClassVar[bool] = True

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        """A storage that all lock holders can reach."""
        return open_storage(tmp_path / "table")

    @pytest.fixture
    def lock_options(self) -> Mapping[str, str]:
        """Options of the lock."""
        return self.options

    @pytest.fixture
    def opener(self, storage: Storage, lock_options: Mapping[str, str]) -> Opener:
        """Makes locks of one table, the same for the whole test."""
        return partial(open_lock_of, storage, self.name, self.provider, {**PATIENT, **lock_options})

    @pytest.fixture
    def impatient(self, storage: Storage, lock_options: Mapping[str, str]) -> Opener:
        """Makes locks of that table that wait some milliseconds only."""
        return partial(open_lock_of, storage, self.name, self.provider, {**PATIENT, **lock_options, **IMPATIENT})

    @pytest.fixture
    def steal(self, storage: Storage) -> Callable[[], None] | None:
        """Takes the lock from its holder as the service does when a lease has expired; None where nothing can."""
        del storage
        return None

    def test_it_is_a_lock(self, opener: Opener) -> None:
        """The protocol's methods are there, and entering gives the lock."""
        lock = opener()
        assert isinstance(lock, Lock)
        with lock as held:
            assert held is lock

    def test_it_can_be_taken_again(self, opener: Opener) -> None:
        """After it is released, by the same object and by another."""
        lock, other = opener(), opener()
        for each in (lock, other, lock):
            with each:
                pass

    def test_it_is_reentrant(self, opener: Opener, impatient: Opener) -> None:
        """Check that the holding thread may enter again, through any object, and that the last exit frees the lock."""
        lock = opener()
        with lock, lock, opener():
            assert not _free(impatient)
        assert _free(impatient)

    def test_inner_exit_keeps_it(self, opener: Opener, impatient: Opener) -> None:
        """The inner block's end doesn't free it."""
        lock = opener()
        with lock:
            with lock:
                pass
            assert not _free(impatient)

    def test_it_is_freed_by_an_error(self, opener: Opener, impatient: Opener) -> None:
        """Check that an error in the block frees the lock."""
        with pytest.raises(ZeroDivisionError), opener():
            raise ZeroDivisionError
        assert _free(impatient)

    def test_a_lock_that_was_lost_is_not_held(self, opener: Opener, steal: Callable[[], None] | None) -> None:
        """Its holder gets an error before it publishes anything, and may then take it again."""
        lock = opener()
        with lock:
            lock.verify()
            if steal is None:
                return
            steal()
            with pytest.raises(ConflictError, match="lost"):
                lock.verify()

    def test_waiting_ends(self, opener: Opener, impatient: Opener) -> None:
        """Check that waiting ends with an error that may be retried and names the reason."""
        with opener(), ThreadPoolExecutor(1) as pool, pytest.raises(UnavailableError, match="lock") as raised:
            pool.submit(_take, impatient).result()
        assert raised.value.retryable

    def test_threads_exclude_each_other(self, opener: Opener, storage: Storage) -> None:
        """A number that several threads count up ends at the sum."""
        storage.put("counter", b"0")
        race(count_up, (opener, storage, ROUNDS), processes=False)
        assert storage.read("counter") == str(3 * ROUNDS).encode()

    def test_processes_exclude_each_other(self, opener: Opener, storage: Storage) -> None:
        """Nor do processes lose each other's work, where the lock is for them."""
        storage.put("counter", b"0")
        race(count_up, (opener, storage, ROUNDS), processes=self.processes)
        assert storage.read("counter") == str(3 * ROUNDS).encode()


def _take(opener: Opener) -> None:
    with opener():
        return


def _free(impatient: Opener) -> bool:
    """Whether another thread gets the lock."""
    with ThreadPoolExecutor(1) as pool:
        try:
            pool.submit(_take, impatient).result()
        except UnavailableError:
            return False
    return True
