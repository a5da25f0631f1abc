"""Commands that check, examine and repair a table. They leave with 2 where something is wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer
from rich.console import Console
from rich.table import Table as Report
from rich.text import Text

from pudi.cli.common import (
    WRONG,
    DryRun,
    Json,
    Merger,
    Path,
    StorageOption,
    WriteOption,
    Yes,
    asks,
    console,
    opened,
    pairs,
    plain,
    say,
    say_json,
)
from pudi.cli.output import add

if TYPE_CHECKING:
    from pudi.table.diagnosis import ClusteringFacts, Diagnosis, SizeClass
    from pudi.table.repair import RepairPlan


def check(path: Path, as_json: Json = False, storage_option: StorageOption = None, merger: Merger = None) -> None:
    """Compare a table's metadata table with its files; exits with 2 if they differ."""
    found = opened(path, storage_option, merger).check()
    say_json(found.to_json() if as_json else str(found))
    if not found.ok:
        raise typer.Exit(WRONG)


def repair(
    path: Path,
    yes: Yes = False,
    dry_run: DryRun = False,
    as_json: Json = False,
    option: WriteOption = None,
    storage_option: StorageOption = None,
    merger: Merger = None,
) -> None:
    """Rebuild damaged parts of a table's metadata table, and delete files of dead writers; asks first.

    Exits with 2 if a difference was not repaired.
    """
    asking = not dry_run and asks(yes=yes, as_json=as_json)
    table = opened(path, storage_option, merger)

    def confirm(plan: RepairPlan) -> bool:
        if not as_json:
            say(str(plan))
        return not dry_run and (not asking or typer.confirm("repair this?"))

    done = table.repair(confirm=confirm, options=pairs("--option", option))
    if as_json:
        say_json(done.to_json())
    else:
        if done.plan.is_empty and not done.plan.found.ok:
            say(str(done.plan))
        say(str(done))
    if not done.ok:
        raise typer.Exit(WRONG)


def doctor(path: Path, as_json: Json = False, option: WriteOption = None, storage_option: StorageOption = None) -> None:
    """Report the state of a table: versions, compatible readers and writers, files, pending instants, and advice.

    Exits with 2 if there is a warning.
    """
    found = opened(path, storage_option).doctor(options=pairs("--option", option))
    if as_json:
        say_json(found.to_json())
    else:
        _show(found, console())
    if not found.ok:
        raise typer.Exit(WRONG)


def _show(found: Diagnosis, out: Console) -> None:
    facts = Report(title=Text(plain(found.path)), show_header=False)
    for name, value in found.facts.items():
        add(facts, [name, value])
    out.print(facts)
    access = Report("who", "reads", "writes", "", title="who can read and write it")
    for each in found.access:
        add(access, [each.who, _yes(each.reads), _yes(each.writes), each.why])
    out.print(access)
    sizes = Report("base files of", "files", "bytes", "", title=_title(found))
    most = max((size.files for size in found.files.histogram), default=0)
    for size in found.files.histogram:
        bar = "█" * round(30 * size.files / most) if most else ""
        add(sizes, [_range(size), f"{size.files:,}", f"{size.bytes:,}", bar])
    out.print(sizes)
    if found.pending:
        pending = Report("instant", "action", "state", "age", "writer", "blocks", title="pending")
        for one in found.pending:
            add(pending, [one.instant, one.action, one.state, f"{one.age_seconds:,} s", one.writer, one.blocks])
        out.print(pending)
    if found.backlog:
        backlog = Report("service", "of the", "commits", "blocked by", "", title="what waits for services")
        for waits in found.backlog:
            add(backlog, [waits.service, waits.on, f"{waits.commits:,}", waits.blocked_by or "", waits.reason])
        out.print(backlog)
    if found.catalogs:
        entries = Report("registered in", "as", "last sync", "", title="catalogs")
        for state in found.catalogs:
            said = state.problem or "; ".join(state.differences) or "nothing differs"
            add(entries, [state.catalog, state.name, state.last_sync or "", said])
        out.print(entries)
    if found.clustering is not None:
        out.print(_clustering(found.clustering))
    for advice in found.advice:
        out.print(f"{advice.level.value}: {plain(advice.text)}", markup=False, highlight=False)
    if not found.advice:
        out.print("`pudi maintain` does what waits" if found.backlog else "nothing to do", highlight=False)


def _clustering(found: ClusteringFacts) -> Report:
    by = f" by {', '.join(found.columns)}" if found.columns else ""
    shown = Report(
        "filter for one value of",
        "before",
        "after",
        "now",
        title=Text(
            f"clustering {found.instant}{plain(by)} ({found.layout or 'layout not stated'}): {found.groups:,} groups, "
            f"{found.files_before:,} files became {found.files_after:,}; files that a filter keeps"
        ),
    )
    for each in found.overlaps:
        shares = ("?" if share is None else f"{share:.0%}" for share in (each.before, each.after, each.now))
        add(shown, [each.column, *shares])
    return shown


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _title(found: Diagnosis) -> str:
    files = found.files
    return (
        f"{files.partitions:,} partitions, {files.file_groups:,} file groups, {files.base_files:,} base and "
        f"{files.log_files:,} log files, {files.older_files:,} older ones"
    )


def _range(size: SizeClass) -> str:
    if size.most is None:
        return f"{size.least >> 20:,} MiB and more"
    return f"{size.least >> 20:,} to {size.most >> 20:,} MiB"
