"""Storages that fail on purpose: at the n-th call, or by a simulated power cut on a local folder."""

from __future__ import annotations

import os
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

from pudi.context import FileInfo, Storage
from pudi.errors import PudiError, UnavailableError
from pudi.storage import LocalStorage, StorageWrapper

T = TypeVar("T")

FaultMode = Literal["error", "crash", "lost_answer", "delay"]


class SimulatedCrash(BaseException):
    """The process died. Not an `Exception`: nothing that would have died with it may handle it."""


class FaultStorage(StorageWrapper):
    """A storage around another that goes wrong at one call, reading or changing, counted from 1.

    A test runs once without a fault to learn `calls`, then once for every n up to it:

        for n in range(1, calls + 1):
            with pytest.raises(SimulatedCrash):
                write(FaultStorage(fresh(), fail_at=n, mode="crash"))

    Args:
        inner: the storage that does the work.
        fail_at: number of the call that goes wrong; None only counts.
        mode: `error` raises `UnavailableError` and does nothing; `lost_answer` does it and raises the same; `crash`
            raises `SimulatedCrash` then and at every later call; `delay` calls `on_delay` and goes on.
        crash_after: whether `crash` does the call first.
        on_delay: what happens during the delay, say another writer's commit.
    """

    def __init__(
        self,
        inner: Storage,
        *,
        fail_at: int | None = None,
        mode: FaultMode = "error",
        crash_after: bool = False,
        on_delay: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(inner)
        self.fail_at = fail_at
        self.mode = mode
        self._crash_after = crash_after
        self._on_delay = on_delay
        self._guard = threading.Lock()
        self._log: list[tuple[str, str]] = []
        self._dead = False

    @property
    def calls(self) -> int:
        """Number of calls made while the process lived."""
        with self._guard:
            return len(self._log)

    @property
    def log(self) -> tuple[tuple[str, str], ...]:
        """Kind and path of each of those calls, in order."""
        with self._guard:
            return tuple(self._log)

    @property
    def dead(self) -> bool:
        """Whether the crash has happened."""
        return self._dead

    def list(self, prefix: str = "") -> Iterator[FileInfo]:
        """Return every file below folder `prefix` in one call, so that a dead process reads no further."""
        return self._call("list", prefix, lambda: iter(tuple(self.inner.list(prefix))))

    def _call(self, kind: str, path: str, do: Callable[[], T]) -> T:
        with self._guard:
            if self._dead:
                raise SimulatedCrash(f"{kind} {path}: the process is dead")
            self._log.append((kind, path))
            number = len(self._log)
            faulty = number == self.fail_at
            self._dead = faulty and self.mode == "crash" and not self._crash_after
        if not faulty:
            return do()
        if self.mode == "delay":
            if self._on_delay is not None:
                self._on_delay()
            return do()
        if self.mode == "lost_answer":
            do()
        if self.mode == "crash":
            if self._crash_after:
                with suppress(PudiError):  # a process that sees the simulated crash counts as dead
                    do()
                self._dead = True
            raise SimulatedCrash(f"call {number}: {kind} {path}")
        raise UnavailableError(f"simulated: no answer to call {number}, {kind}", table=self.root, path=path)


Outcome: TypeAlias = Literal["lost", "kept", "mixed"]
"""Kinds of a power cut: unflushed data is lost, names survive without content, or chance decides for each."""

_AGE_NS = 3_600_000_000_000
"""Nanoseconds without power: long enough that every running process counts as dead."""
_Entry: TypeAlias = tuple[int, bool]
"""Inode of a name, and whether it's a folder."""


@dataclass(slots=True)
class _File:
    content: bytes
    modified_ns: int


@dataclass(slots=True)
class _Disk:
    """Durable state of the disk: contents and names by inode, as flushed last.

    What was flushed is held open, so that no other file gets its inode.
    """

    base: Path
    files: dict[int, _File] = field(default_factory=dict)
    folders: dict[int, dict[str, _Entry]] = field(default_factory=dict)
    _held: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        for folder, _, names in os.walk(self.base):
            for path in (folder, *(f"{folder}/{name}" for name in names)):
                descriptor = os.open(path, os.O_RDONLY)
                self.flush(descriptor)
                os.close(descriptor)

    def flush(self, descriptor: int) -> None:
        facts = os.fstat(descriptor)
        path = Path(f"/proc/self/fd/{descriptor}")
        if path.is_dir():
            self.folders[facts.st_ino] = _names(path)
        else:
            self.files[facts.st_ino] = _File(path.read_bytes(), facts.st_mtime_ns)
        self._held.append(os.dup(descriptor))

    def close(self) -> None:
        while self._held:
            os.close(self._held.pop())


class PowerStorage(FaultStorage):
    """A folder on a local disk, and what of it a loss of power would leave.

    What was there when it was opened is on the disk. The power is cut at a call, as `FaultStorage` counts them: calls
    of the storage and, within them, each bringing of a file or folder to the disk (kind `flush`).

        for n in range(1, calls + 1):
            with pytest.raises(SimulatedCrash), closing(PowerStorage(fresh(), fail_at=n)) as storage:
                write(storage)
            storage.restore(folder, "lost")

    Only on Linux. Nothing is really flushed.

    Args:
        root: the folder, which need not be there.
        fail_at: number of the call at which the power is cut; None to cut it at the end (`restore`).
        crash_after: whether that call is done first.
    """

    def __init__(self, root: str, *, fail_at: int | None = None, crash_after: bool = False) -> None:
        local = LocalStorage(root, flush=self._flush)
        super().__init__(local, fail_at=fail_at, mode="crash", crash_after=crash_after)
        self._base = Path(local.local_root)
        parent = self._base
        while not parent.exists():
            parent = parent.parent
        self._disk = _Disk(parent)
        self._top = parent

    def __repr__(self) -> str:
        return f"PowerStorage({self.inner!r})"

    def close(self) -> None:
        """Let go of the files; `restore` comes before."""
        self._disk.close()

    def restore(self, to: Path, outcome: Outcome, seed: int = 0) -> None:
        """Return the folder's state after the power is back, an hour later.

        Args:
            to: where to put it: not there yet, and outside of the folder, or where that was not there at first, outside
                of the one that it was made in.
            outcome: what became of that which was not flushed.
            seed: of the chances.
        """
        whole = to.parent / f"{to.name}-disk" if self._top != self._base else to
        whole.mkdir(parents=True)
        _Cut(self._disk, outcome, seed).folder(self._top.stat().st_ino, self._top, whole)
        if whole != to:
            found = whole / self._base.relative_to(self._top)
            with suppress(FileNotFoundError):
                found.rename(to)

    def _flush(self, descriptor: int) -> None:
        self._call("flush", "", lambda: self._disk.flush(descriptor))


@dataclass(frozen=True, slots=True)
class _Cut:
    """One loss of power."""

    disk: _Disk
    outcome: Outcome
    seed: int

    def folder(self, inode: int, live: Path | None, to: Path) -> None:
        """Restore a folder.

        Args:
            inode: the folder.
            live: where it was before the cut; None where it had been removed.
            to: where to, an empty folder.
        """
        safe = self.disk.folders.get(inode, {})
        seen = {} if live is None else _names(live)
        for name in sorted({*safe, *seen}):
            entry = self._entry(safe.get(name), seen.get(name))
            if entry is None:
                continue
            was = live / name if live is not None and seen.get(name) == entry else None
            if entry[1]:
                (to / name).mkdir()
                self.folder(entry[0], was, to / name)
            else:
                self._file(entry[0], was, to / name)

    def _entry(self, safe: _Entry | None, seen: _Entry | None) -> _Entry | None:
        if safe == seen or self.outcome == "lost":
            return safe
        return seen if self.outcome == "kept" or self._chance(safe, seen) % 2 else safe

    def _file(self, inode: int, live: Path | None, to: Path) -> None:
        file = self.disk.files.get(inode)
        if file is None:
            whole = b"" if live is None else live.read_bytes()
            file = _File(self._content(whole, inode), 0 if live is None else live.stat().st_mtime_ns)
        to.write_bytes(file.content)
        os.utime(to, ns=(file.modified_ns - _AGE_NS,) * 2)

    def _content(self, whole: bytes, inode: int) -> bytes:
        """Return the surviving part of a content that was not flushed."""
        if self.outcome == "lost":
            return b""
        sizes = (0, len(whole) // 2, len(whole))[: 2 if self.outcome == "kept" else 3]
        return whole[: sizes[self._chance(inode) % len(sizes)]]

    def _chance(self, *of: object) -> int:
        return zlib.crc32(repr((self.seed, of)).encode()) >> 8


def _names(folder: Path) -> dict[str, _Entry]:
    with os.scandir(folder) as entries:
        return {each.name: (each.inode(), each.is_dir(follow_symlinks=False)) for each in entries}
