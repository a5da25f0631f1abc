"""A contestant's process as the bench sees it: started, asked, watched, ended."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil
from operations import Setting

HERE = Path(__file__).resolve().parent
LIMIT = 900.0  # seconds that one operation may take


class Failed(Exception):
    """A contestant is gone; its log says why."""


@dataclass(frozen=True)
class Measured:
    """One operation, once.

    Attributes:
        seconds: wall time.
        planning: what of it came before any data was read; None where that isn't told apart.
        peak_bytes: most memory resident in the process and its children while it ran.
        written_bytes: size of the files that are there after it and weren't before.
        answer: what a read found.
    """

    seconds: float
    planning: float | None
    peak_bytes: int
    written_bytes: int
    answer: list[float] | None

    def as_json(self) -> dict[str, Any]:
        return {k: round(v, 4) if isinstance(v, float) else v for k, v in asdict(self).items() if v is not None}


class Process:
    """One contestant.

    Args:
        name: which, as `worker.py` knows it.
        python: the interpreter, which decides on the versions.
        memory: for Spark's driver, as `3g`.
        log: file for what it prints.
    """

    def __init__(self, name: str, python: str, memory: str, log: Path) -> None:
        self.name = name
        self._log = log.open("w")
        path = os.pathsep.join(filter(None, [str(HERE.parent / "src"), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            [python, str(HERE / "worker.py"), name, memory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        self.hello = self._answer()

    def open(self, data: Path, table: Path, setting: Setting) -> None:
        """Let it take up batches and the place of a table."""
        self.table = table
        self._ask({"do": "open", "data": str(data), "table": str(table), "setting": asdict(setting)})

    def run(self, operation: str) -> Measured | None:
        """Let it do an operation; None if it doesn't offer that."""
        before = files(self.table)
        with MemoryWatch(self._process.pid) as memory:
            answer = self._ask({"do": operation})
        if answer.get("offered") is False:
            return None
        written = sum(size for file, (size, when) in files(self.table).items() if before.get(file) != (size, when))
        return Measured(answer["seconds"], answer["planning"], memory.peak, written, answer["answer"])

    def close(self) -> None:
        """End it."""
        if self._process.poll() is None:
            self._process.stdin.close()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()
        self._log.close()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        try:
            print(json.dumps(request), file=self._process.stdin, flush=True)
        except BrokenPipeError:
            raise Failed(f"{self.name} has ended: see {self._log.name}") from None
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        timer = threading.Timer(LIMIT, self._process.kill)
        timer.start()
        try:
            line = self._process.stdout.readline()
        finally:
            timer.cancel()
        if not line:
            raise Failed(f"{self.name} has ended or took longer than {LIMIT:.0f} s: see {self._log.name}")
        return json.loads(line)


class MemoryWatch:
    """Looks ten times a second at the memory resident in a process and its children; keeps the most."""

    def __init__(self, pid: int) -> None:
        self.peak = 0
        self._root = psutil.Process(pid)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> MemoryWatch:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._look()

    def _watch(self) -> None:
        while not self._stop.wait(0.1):
            self._look()

    def _look(self) -> None:
        total = 0
        try:
            for process in [self._root, *self._root.children(recursive=True)]:
                try:
                    total += process.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
        except psutil.NoSuchProcess:
            return
        self.peak = max(self.peak, total)


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of each file under a folder; Hadoop's checksum files are left out."""
    found = {}
    for file in folder.rglob("*"):
        if file.is_file() and file.suffix != ".crc":
            status = file.stat()
            found[str(file)] = (status.st_size, status.st_mtime_ns)
    return found


def interpreters() -> list[str]:
    """This interpreter, and that of the second environment if it's there."""
    second = HERE.parent / ".venv-spark4" / "bin" / "python"
    return [sys.executable, *([str(second)] if second.exists() else [])]


def has(python: str, package: str) -> bool:
    """Whether an interpreter finds a package."""
    code = f"import importlib.util as u, sys; sys.exit(u.find_spec({package!r}) is None)"
    return subprocess.run([python, "-c", code], check=False).returncode == 0
