"""The storage that fails: at the call said, in the way said."""

from __future__ import annotations

import itertools

import pytest

from pudi.context import Storage
from pudi.errors import NotFoundError, UnavailableError
from pudi.storage import open_storage
from pudi.testing import FaultMode, FaultStorage, SimulatedCrash

_numbers = itertools.count()


@pytest.fixture
def inner() -> Storage:
    return open_storage(f"memory://faults-{next(_numbers)}")


def _work(storage: Storage) -> None:
    storage.create("a", b"")
    storage.read("a")
    storage.put("b", b"")
    storage.delete(["a"])


@pytest.mark.parametrize("mode", ["error", "lost_answer"])
@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_one_call_fails(inner: Storage, mode: FaultMode, n: int) -> None:
    storage = FaultStorage(inner, fail_at=n, mode=mode)
    with pytest.raises(UnavailableError) as raised:
        _work(storage)
    assert raised.value.retryable
    done = n if mode == "lost_answer" else n - 1
    files = [set(), {"a"}, {"a"}, {"a", "b"}, {"b"}][done]
    assert {info.path for info in inner.list()} == files
    assert storage.calls == n
    assert list(storage.list()) == list(inner.list())


@pytest.mark.parametrize("after", [True, False])
def test_a_crash_is_for_ever(inner: Storage, after: bool) -> None:
    storage = FaultStorage(inner, fail_at=3, mode="crash", crash_after=after)
    with pytest.raises(SimulatedCrash):
        _work(storage)
    for call in (storage.read, storage.head, lambda p: storage.put(p, b"x"), storage.list):
        with pytest.raises(SimulatedCrash):
            call("a")
    assert storage.dead
    assert {info.path for info in inner.list()} == ({"a", "b"} if after else {"a"})
    assert storage.log == (("create", "a"), ("read", "a"), ("put", "b"))


def test_a_crash_passes_handlers_of_errors(inner: Storage) -> None:
    storage = FaultStorage(inner, fail_at=1, mode="crash")
    with pytest.raises(SimulatedCrash):
        try:
            storage.read("a")
        except Exception:  # noqa: BLE001
            pytest.fail("a dead process handles nothing")


def test_a_crash_after_a_call_that_fails_is_one(inner: Storage) -> None:
    storage = FaultStorage(inner, fail_at=1, mode="crash", crash_after=True)
    with pytest.raises(SimulatedCrash):
        storage.read("nothing")
    assert storage.dead


def test_others_act_during_a_delay(inner: Storage) -> None:
    storage = FaultStorage(inner, fail_at=2, mode="delay", on_delay=lambda: inner.delete(["a"]))
    with pytest.raises(NotFoundError):
        _work(storage)


def test_without_a_fault_it_only_counts(inner: Storage) -> None:
    storage = FaultStorage(inner)
    _work(storage)
    assert storage.calls == 4
