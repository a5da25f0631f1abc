"""What each verb must answer on a damaged table: the right rows, or an error that names the file."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pudi
from support.matrix.damages import Damage, damages, kinds
from support.matrix.tables import Made, Rows, rows

SECONDS = 120
MOST_MEMORY = 1 << 20
"""Kilobytes that a case may take beyond what the process had at most before it."""


@dataclass(frozen=True)
class Case:
    """One damage of one kind of file, and one verb behind it."""

    table: str
    kind: str
    damage: str
    verb: str

    def __str__(self) -> str:
        return f"{self.table} | {self.kind} | {self.damage} | {self.verb}"


class WrongRows(AssertionError):
    """An answer that isn't the model's."""


class Hung(BaseException):
    """A verb took longer than any verb takes."""


def _rows(scan: Any) -> Rows:
    got = scan.to_arrow().select(["k", "v"]).to_pylist()
    found = {row["k"]: row["v"] for row in got}
    if len(found) != len(got):
        raise WrongRows(f"keys come twice: {got}")
    return found


def _same(got: Rows, expected: Rows) -> None:
    if got != expected:
        raise WrongRows(f"rows {got} where {expected} is right")


def _scan(made: Made, table: Any) -> None:
    _same(_rows(table.scan(["k", "v"])), made.now)


def _time_travel(made: Made, table: Any) -> None:
    refused = None
    for instant, then in made.then.items():  # every moment is asked for: one that is refused excuses no other
        try:
            _same(_rows(table.scan(["k", "v"], as_of=instant)), then)
        except pudi.PudiError as error:
            refused = error
    if refused:
        raise refused


def _changes(made: Made, table: Any) -> None:
    instants = list(made.then)
    if not table.config.populate_meta_fields:  # refused, damaged or not
        return
    _same(_rows(table.changes(columns=["k", "v"])), made.now)
    middle = instants[len(instants) // 2]
    late = {key: value for key, value in made.now.items() if made.touched[key] > middle}
    # since is a completion time from version 8 on
    since = middle if table.config.version < 8 else made.completed[middle]
    _same(_rows(table.changes(since=since, columns=["k", "v"])), late)
    if made.logs_changes:
        _change_data(made, table)


def _change_data(made: Made, table: Any) -> None:
    """Every change, one after the other, leads to what the table holds; each begins with what was there."""
    held: Rows = {}
    for change in table.changes(format="cdc", images="struct").to_arrow().to_pylist():
        before, after = ({} if row is None else {row["k"]: row["v"]} for row in (change["before"], change["after"]))
        if any(held.get(key) != value for key, value in before.items()):
            raise WrongRows(f"{before} was never there")
        held = {key: value for key, value in held.items() if key not in before} | after
    _same(held, made.now)


def _upsert(made: Made, table: Any) -> None:
    table.upsert(rows(90, "new", 0, 9, 10))
    _same(_rows(table.scan(["k", "v"])), made.now | {"k00": "new0", "k09": "new9", "k10": "new10"})


def _compact(made: Made, table: Any) -> None:
    table.compact()
    _same(_rows(table.scan(["k", "v"])), made.now)


def _lookup(made: Made, table: Any) -> None:
    for key in ("k02", "k10"):
        found = _rows(table.scan(["k", "v"], where=f"k = '{key}'"))
        _same(found, {k: v for k, v in made.now.items() if k == key})


Verbs = dict[str, Callable[[Made, Any], None]]

VERBS: Verbs = {
    "scan": _scan,
    "time travel": _time_travel,
    "changes": _changes,
    "upsert": _upsert,
    "compact": _compact,
    "lookup": _lookup,
}


def cases(made: Made, name: str, kind: str, every: int = 1) -> Iterator[tuple[Case, Path, Damage]]:
    """The cases of a kind of file, or one of so many: of neighbours in damage and verb, each another one."""
    file, older = kinds(made.path)[kind]
    verbs = [verb for verb in VERBS if verb != "compact" or made.mor]
    start = zlib.crc32(f"{name} {kind}".encode())
    for row, (damage, run) in enumerate(damages(file, older).items()):
        for column, verb in enumerate(verbs):
            if (start + 2 * row + column) % every == 0:
                yield Case(name, kind, damage, verb), file, run


def judge(
    made: Made, case: Case, file: Path, damage: Damage, folder: Path, verbs: Verbs = VERBS
) -> BaseException | None:
    """Carry a case out on a copy of the table; what is wrong with its outcome, None where nothing is."""
    copy = folder / "copy"
    shutil.copytree(made.path, copy, copy_function=os.link)  # pudi replaces files and never changes one in its place
    try:
        hit = copy / file.relative_to(made.path)
        data = damage(hit.read_bytes())
        if data is None:
            hit.unlink()
        else:
            kept = hit.stat()
            hit.unlink()
            hit.write_bytes(data)
            os.utime(hit, ns=(kept.st_atime_ns, kept.st_mtime_ns))
        with _bounded():
            verbs[case.verb](made, pudi.Table(str(copy), options=made.options))
    except pudi.PudiError as error:
        return None if names_file(error, file) else error
    except (Exception, Hung) as error:  # noqa: BLE001 - whatever it is, it is told of
        told_by_spark = "pudi.errors." in str(error)  # an error of a task, in Spark's own
        return None if told_by_spark and names_file(error, file) else error
    finally:
        shutil.rmtree(copy)
    return None


def names_file(error: BaseException, file: Path) -> bool:
    """Whether it names the file, or the instant whose file it is."""
    text = str(error)
    if file.name in text and file.name != "hoodie.properties":
        return True
    if file.name == "hoodie.properties":
        inner = ".hoodie/metadata/.hoodie/hoodie.properties"
        return (inner if inner in file.as_posix() else file.name) in text
    instant = file.name.partition(".")[0].partition("_")[0]
    return instant.isdigit() and len(instant) >= 14 and instant in text


@contextmanager
def _bounded() -> Iterator[None]:
    """No longer and with no more memory than any verb takes."""

    def stop(*_: object) -> None:
        raise Hung(f"it took longer than {SECONDS} s")

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    previous = signal.signal(signal.SIGALRM, stop)
    rest = signal.alarm(SECONDS)
    try:
        yield
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > before + MOST_MEMORY:
            raise MemoryError("it took a gigabyte")
    finally:
        signal.alarm(rest)
        signal.signal(signal.SIGALRM, previous)
