"""What the user sees: a line for each commit under progress bars, and the timeline as a picture."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from plotly.subplots import make_subplots
from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

import pudi

COLOURS = {"BULK_INSERT": "#4c78a8", "UPSERT": "#f58518", "DELETE": "#e45756"}
TABLES = ["delays", "flights"]


@dataclass(frozen=True)
class Commit:
    """A commit, and what it was for."""

    table: str
    batch: str
    result: pudi.CommitResult

    @property
    def records(self) -> int:
        """How many it changed."""
        return self.result.records_inserted + self.result.records_updated + self.result.records_deleted

    @property
    def operation(self) -> str:
        """Hudi's name of the operation."""
        return self.result.operation.upper()

    @property
    def span(self) -> tuple[datetime, datetime]:
        """When it was requested and when it was completed."""
        return moment(self.result.instant), moment(self.result.completion_time)


class Screen:
    """Progress bars for the run, and a line for each commit above them; keeps the commits."""

    def __init__(self, batches: int) -> None:
        self.console = Console(highlight=False)
        self.commits: list[Commit] = []
        columns = [TextColumn("{task.description:18}"), BarColumn(32), MofNCompleteColumn(), TimeElapsedColumn()]
        self._progress = Progress(*columns, console=self.console)
        self._batches = self._progress.add_task("batches", total=batches)
        self._phases: list[TaskID] = []

    def __enter__(self) -> Screen:
        self._progress.start()
        self.console.print(
            f"[bold]{'table':8}{'batch':11}{'operation':12}{'inserted':>8}{'updated':>8}{'deleted':>8}"
            f"{'files':>6}{'bytes':>9}{'seconds':>8}"
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def commit(self, table: str, batch: str, result: pudi.CommitResult | None) -> None:
        """Tell of a commit; None, when there was nothing to be done, is not worth a line."""
        if result is None:
            return
        commit = Commit(table, batch, result)
        self.commits.append(commit)
        self.console.print(
            f"{table:8}{batch:11}[{COLOURS.get(commit.operation, 'white')}]{commit.operation.lower():12}[/]"
            f"{result.records_inserted:>8,}{result.records_updated:>8,}{result.records_deleted:>8,}"
            f"{result.files_written:>6}{decimal(result.bytes_written):>9}{result.duration:>8.2f}"
        )

    def start(self, table: str, action: str, phase: str) -> None:
        """Draw a phase of an action (`pudi.Progress`)."""
        self._phases.append(self._progress.add_task(f"{action}: {phase}", total=None))

    def advance(self, done: int, total: int) -> None:
        """Fill the newest phase's bar."""
        if self._phases:
            self._progress.update(self._phases[-1], completed=done, total=total)

    def finish(self) -> None:
        """Take the newest phase away."""
        self._progress.remove_task(self._phases.pop())

    def batch_done(self) -> None:
        """Move the bar."""
        self._progress.advance(self._batches)

    def step(self, description: str) -> None:
        """Say what is being done beside the batches."""
        self._progress.update(self._batches, description=description)


def draw(commits: list[Commit], title: str, file: Path) -> None:
    """Draw the timeline of both tables as a page that needs nothing else: when each commit ran and what it changed."""
    start = min(c.span[0] for c in commits)
    figure = make_subplots(
        rows=2, cols=1, shared_xaxes=True, vertical_spacing=0.08, row_heights=[0.4, 0.6],
        subplot_titles=["Commits, from request to completion", "Records that each commit changed"],
    )  # fmt: skip
    for operation, colour in COLOURS.items():
        chosen = [c for c in commits if c.operation == operation]
        begins = [(c.span[0] - start).total_seconds() for c in chosen]
        lengths = [(c.span[1] - c.span[0]).total_seconds() for c in chosen]
        texts = [hover(c) for c in chosen]
        look = {
            "marker_color": colour,
            "name": operation.lower(),
            "legendgroup": operation,
            "hovertext": texts,
            "hoverinfo": "text",
        }
        figure.add_bar(
            y=[c.table for c in chosen], x=lengths, base=begins, orientation="h", width=0.6, row=1, col=1, **look
        )
        look |= {"mode": "markers", "marker_size": 7, "showlegend": False}
        symbols = ["circle" if c.table == "flights" else "diamond" for c in chosen]
        figure.add_scatter(
            x=[b + d for b, d in zip(begins, lengths, strict=True)],
            y=[c.records for c in chosen],
            marker_symbol=symbols,
            row=2,
            col=1,
            **look,
        )
    figure.update_yaxes(categoryorder="array", categoryarray=TABLES, row=1, col=1)
    figure.update_yaxes(type="log", title="records (● flights, ◆ delays)", row=2, col=1)
    figure.update_xaxes(title="seconds since the first commit", row=2, col=1)
    figure.update_layout(title=title, template="plotly_white", barmode="overlay", legend_title="operation", height=760)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.write_html(file, include_plotlyjs=True, full_html=True)


def hover(commit: Commit) -> str:
    """What a commit's mark says when pointed at."""
    result = commit.result
    return (
        f"<b>{commit.table}</b>, batch {commit.batch}<br>{result.instant} {commit.operation.lower()}<br>"
        f"+{result.records_inserted:,} ~{result.records_updated:,} −{result.records_deleted:,} records<br>"
        f"{result.files_written} files, {decimal(result.bytes_written)}, {result.duration:.2f} s"
    )


def moment(instant: str) -> datetime:
    """An instant, `20130115071500123`, as a point in time."""
    return datetime.strptime(instant + "000", "%Y%m%d%H%M%S%f")
