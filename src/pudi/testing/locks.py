"""The contract of a `Lock`, as tests: a new lock subclasses `LockTests` and gives the fixtures."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

import pytest

from pudi.context import Lock, Storage
from pudi.errors import UnavailableError
from pudi.testing.race import START_TIMEOUT, Barrier, race

Opener: TypeAlias = Callable[[], Lock]
"""Makes a new lock object for one table; picklable where other processes can hold the lock."""

ROUNDS = 15


def count_up(barrier: Barrier, number: int, opener: Opener, storage: Storage, rounds: int) -> None:
    """Add to a number in a file by reading and writing it, under the lock."""
    del number
    lock = opener()
    barrier.wait(START_TIMEOUT)
    for _ in range(rounds):
        with lock:
            storage.put("counter", str(int(storage.read("counter")) + 1).encode())


class LockTests:
    """What every lock keeps. Subclasses give the fixtures `opener`, `impatient` and `storage`."""

    processes = True
    """Whether it locks other processes out."""

    @pytest.fixture
    def opener(self) -> Opener:
        """Makes locks of one table, the same for the whole test."""
        raise NotImplementedError("give a fixture `opener`")

    @pytest.fixture
    def impatient(self) -> Opener:
        """Makes locks of that table that wait some milliseconds only."""
        raise NotImplementedError("give a fixture `impatient`")

    @pytest.fixture
    def storage(self) -> Storage:
        """A storage that all lock holders can reach."""
        raise NotImplementedError("give a fixture `storage`")

    def test_it_is_a_lock(self, opener: Opener) -> None:
        """The protocol's methods are there, and entering gives the lock."""
        lock = opener()
        assert isinstance(lock, Lock)
        with lock as held:
            assert held is lock

    def test_it_can_be_taken_again(self, opener: Opener) -> None:
        """After it's given back, by the same object and by another."""
        lock, other = opener(), opener()
        for each in (lock, other, lock):
            with each:
                pass

    def test_it_is_reentrant(self, opener: Opener, impatient: Opener) -> None:
        """For its thread, through any object, and it's free only after the last exit."""
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
        """Of the block under it."""
        with pytest.raises(ZeroDivisionError), opener():
            raise ZeroDivisionError
        assert _free(impatient)

    def test_waiting_ends(self, opener: Opener, impatient: Opener) -> None:
        """With an error that may be retried, and says what's wrong."""
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
