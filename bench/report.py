"""The page of results: ratios first, then the seconds, memory and bytes behind them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from operations import SETTINGS, TITLES, TRIPS

NAMES = {
    "pudi-spark": "pudi on Spark",
    "hudi-gzip": "Hudi (gzip, its default)",
    "hudi-zstd": "Hudi (zstd)",
    "delta-spark": "Delta Lake on Spark",
    "pudi-spark4": "pudi on Spark 4",
    "delta-spark4": "Delta Lake on Spark 4",
    "pudi-local": "pudi, local",
    "delta-rs": "delta-rs",
}
SIDES = {
    "pudi-spark": ["hudi-gzip", "hudi-zstd", "delta-spark"],
    "pudi-spark4": ["delta-spark4"],
    "pudi-local": ["delta-rs"],
}
BESIDE_HUDI = frozenset({"record-index"})
"""Settings in which the local engine stands beside Hudi too."""
CHANGES = ["upsert_10", "upsert_1_new", "delete_1"]


@dataclass(frozen=True)
class Goal:
    """A target: the least number of times as fast as another contestant."""

    who: str
    operations: list[str]
    other: str
    times: float


GOALS = [
    Goal("pudi-spark", CHANGES, "hudi-gzip", 5),
    Goal("pudi-spark", CHANGES, "hudi-zstd", 4),
    Goal("pudi-spark", CHANGES, "delta-spark", 3),
    Goal("pudi-spark", ["bulk_insert"], "hudi-gzip", 2),
    Goal("pudi-local", ["upsert_10"], "delta-rs", 1),
    Goal("pudi-local", ["one_row"], "delta-rs", 1),
]

GROUPS_GOALS = [Goal("pudi-spark", ["upsert:random_1"], "hudi-zstd", 3)]
MOR_GOALS = [
    Goal("pudi-spark", CHANGES, "hudi-gzip", 5),
    Goal("pudi-spark", ["aggregate"], "hudi-gzip", 1),
    Goal("pudi-spark", ["compact"], "hudi-gzip", 5),
]

MOR_LOCAL_GOALS = [Goal("pudi-local", ["upsert_10"], "delta-rs", 2)]
MOR_LOGS_GOALS = [
    Goal("pudi-spark", ["aggregate"], "hudi-gzip", 1),
    Goal("pudi-spark", ["compact"], "hudi-gzip", 5),
]
SETTINGS_GOALS = {
    "groups": GROUPS_GOALS,
    "mor": MOR_GOALS,
    "mor-local": MOR_LOCAL_GOALS,
    "mor-logs": MOR_LOGS_GOALS,
    "record-index": [
        Goal("pudi-spark", ["upsert_10", "point_lookup"], "hudi-gzip", 5),
        Goal("pudi-local", ["point_lookup"], "hudi-gzip", 5),
    ],
    "index-build": [Goal("pudi-spark", ["build_index"], "hudi-zstd", 3)],
}

HEAD = """# Benchmarks

`make bench` runs all benchmarks and writes this page; don't edit it by hand.

**What is measured.** The data are generated trips with ten columns: a UUID as key, a timestamp as ordering, texts,
doubles, and one of four cities as partition. In each round every contestant gets a new table and runs: bulk insert,
upsert of 10% of the keys spread over all files, upsert of 1% new keys, delete of 1%, an aggregate over all rows
(count, max of a timestamp and of a text, sum), the same aggregate with `city = 'nyc' AND fare > 90`, the changes
since the bulk insert, and an upsert of one row. The contestants of a group take turns for each operation. *Cold* is
the first round in a process, without the start of the process and of the Spark session; *warm* is the median of the
later rounds. All reads must return the same number of rows and the same sum, otherwise the bench fails.

**Settings.** Spark: two cores, four shuffle partitions; Spark reads the input from Parquet within the measured time.
Hudi: its defaults, including the metadata table, with a parallelism of four. Hudi's default codec is gzip, so it also
runs with zstd; pudi (zstd), delta-rs (snappy) and Delta Lake (snappy) run with their default codecs. Delta Lake can't
read changes without its change data feed, which makes writes slower, so it skips that operation. Local contestants
get their input as Arrow tables in memory. Memory is the resident memory of the process and its children together, at
most in any round; memory that Python workers share counts for each of them, and a JVM keeps its heap up to the limit
once it has grown.
"""


def write_report(results: Path, page: Path) -> None:
    """Write the page from all result files of a folder."""
    order = [setting.name for setting in [TRIPS, *SETTINGS]]
    found = [json.loads(f.read_text()) for f in results.glob("*.json")]
    found.sort(key=lambda r: (order.index(r.get("setting", TRIPS.name)), r["rows"]))
    text = "\n".join([HEAD, *(section(result) for result in found)])
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text, encoding="utf-8")


def section(result: dict[str, Any]) -> str:
    """All tables for one size."""
    data = Figures(result)
    machine = result["machine"]
    versions: dict[str, set[str]] = {}
    for contestant in data.contestants.values():
        for name, version in contestant["versions"].items():
            versions.setdefault(name, set()).add(version)
    used = ", ".join(f"{name} {' and '.join(sorted(v))}" for name, v in sorted(versions.items()))
    warm_rounds = max((len(c["rounds"]) for c in data.contestants.values()), default=1) - 1
    title = {setting.name: setting.title for setting in [TRIPS, *SETTINGS]}[result.get("setting", TRIPS.name)]
    size = f", {result['rows']:,} rows" if result["rows"] else ""
    parts = [
        f"## {title}{size}\n",
        f"{machine['date']}: {machine['cores']} cores, {machine['memory_gib']} GiB, {machine['system']}, "
        f"load before the run {machine['load_before']}; {used}. Warm rounds: {warm_rounds}.\n",
    ]
    hudi = SIDES["pudi-spark"] if result.get("setting") in BESIDE_HUDI else []
    for pudi, peers in SIDES.items():
        columns = [name for name in dict.fromkeys([pudi, *peers, *hudi]) if name in data.contestants]
        if pudi in columns and len(columns) > 1:
            parts.append(f"### {NAMES[pudi]}: how many times as fast, warm (cold)\n")
            parts.append(table(columns[1:], lambda op, peer, pudi=pudi: data.ratio(op, pudi, peer)))
        if columns:
            parts.append("### Seconds, warm (cold)\n")
            parts.append(table(columns, data.seconds))
            parts.append("### Most memory resident, MiB\n")
            parts.append(table(columns, data.peak))
            parts.append("### Written, MiB\n")
            parts.append(table(columns, data.written))
        parts.append(data.baselines(pudi))
    parts.append(data.planning())
    parts.append(data.commits())
    parts.append(data.goals(SETTINGS_GOALS.get(result.get("setting"), GOALS)))
    return "\n".join(part for part in parts if part)


class Figures:
    """Figures of one size, by contestant and operation."""

    def __init__(self, result: dict[str, Any]) -> None:
        self.contestants: dict[str, Any] = result["contestants"]

    def values(self, operation: str, who: str, key: str = "seconds") -> list[float]:
        rounds = self.contestants.get(who, {}).get("rounds", [])
        return [r[operation][key] for r in rounds if operation in r and key in r[operation]]

    def warm(self, operation: str, who: str, key: str = "seconds") -> float | None:
        values = self.values(operation, who, key)[1:]
        return statistics.median(values) if values else None

    def cold(self, operation: str, who: str, key: str = "seconds") -> float | None:
        values = self.values(operation, who, key)
        return values[0] if values else None

    def any_round(self, operation: str, who: str, key: str) -> float | None:
        """The warm figure, or the cold one where there was no other round."""
        warm = self.warm(operation, who, key)
        return self.cold(operation, who, key) if warm is None else warm

    def seconds(self, operation: str, who: str) -> str:
        return both(self.warm(operation, who), self.cold(operation, who), "{:.2f}")

    def ratio(self, operation: str, pudi: str, peer: str) -> str:
        pairs = [
            (self.warm(operation, pudi), self.warm(operation, peer)),
            (self.cold(operation, pudi), self.cold(operation, peer)),
        ]
        quotients = [theirs / ours if ours and theirs else None for ours, theirs in pairs]
        return both(*quotients, "{:.1f}")

    def peak(self, operation: str, who: str) -> str:
        return number(max(self.values(operation, who, "peak_bytes"), default=None), 2**20)

    def written(self, operation: str, who: str) -> str:
        return number(self.any_round(operation, who, "written_bytes") or None, 2**20)

    def baselines(self, pudi: str) -> str:
        """What pudi costs over the plain reader and writer on the same data."""
        lines = []
        tool = "`spark.read.parquet`" if "spark" in pudi else "pyarrow's dataset"
        ours, plain = (self.without_planning(op, pudi) for op in ("aggregate", "plain_scan"))
        if ours and plain:
            lines.append(
                f"- Full-scan aggregate without planning: **{ours / plain:.2f} times** {tool} over the same files"
            )
            lines.append(f"  ({ours:.2f} s, {plain:.2f} s).")
        ours, plain = self.warm("bulk_insert", pudi), self.warm("plain_write", pudi)
        if ours and plain:
            lines.append(
                f"- bulk_insert: **{ours / plain:.2f} times** `pyarrow.parquet.write_table` of the same columns, meta"
            )
            lines.append(f"  fields included ({ours:.2f} s, {plain:.2f} s).")
        return "\n".join([f"### {NAMES[pudi]} beside the plain reader and writer\n", *lines, ""]) if lines else ""

    def without_planning(self, operation: str, who: str) -> float | None:
        seconds, planning = self.warm(operation, who), self.warm(operation, who, "planning")
        return seconds - planning if seconds is not None and planning is not None else None

    def planning(self) -> str:
        """Seconds before any data is read."""
        who = [name for name in NAMES if name in self.contestants]
        rows = ["aggregate", "filtered", "incremental", "point_lookup", "plain_scan"]
        if not who:
            return ""
        body = table(who, lambda op, name: number(self.any_round(op, name, "planning"), 1, "{:.3f}"), rows)
        return f"### Planning: seconds before any data is read (part of the above)\n\n{body}"

    def commits(self) -> str:
        """One-row upserts at few and at many active commits."""
        found = {n: c["one_row_at_commits"] for n, c in self.contestants.items() if c.get("one_row_at_commits")}
        if not found:
            return ""
        lines = [
            "### One-row upsert at 10 and at 100 active commits, seconds\n",
            "| | 10 | 100 | times |",
            "|---|---|---|---|",
        ]
        for name, at in found.items():
            few, many = at.get("10"), at.get("100")
            times = f"{many / few:.2f}" if few and many else "–"
            lines.append(f"| {NAMES[name]} | {number(few, 1, '{:.3f}')} | {number(many, 1, '{:.3f}')} | {times} |")
        return "\n".join([*lines, ""])

    def goals(self, wanted: Iterable[Goal]) -> str:
        """What is wanted and whether it's there."""
        lines = []
        for goal in wanted:
            for operation in goal.operations:
                ours, theirs = self.warm(operation, goal.who), self.warm(operation, goal.other)
                if ours and theirs:
                    title = f"{NAMES[goal.who]}, {TITLES[operation]}: times as fast as {NAMES[goal.other]}"
                    lines.append(verdict(title, f"≥ {goal.times:g}", theirs / ours, theirs / ours >= goal.times))
        lines += self.limits()
        return (
            "\n".join(["### Goals (warm)\n", "| | wanted | measured | |", "|---|---|---|---|", *lines, ""])
            if lines
            else ""
        )

    def limits(self) -> list[str]:
        """Goals that are upper limits."""
        lines = []
        scan, plain = (self.without_planning(op, "pudi-spark") for op in ("aggregate", "plain_scan"))
        if scan and plain:
            lines.append(
                verdict(
                    "pudi on Spark, full scan without planning: of `spark.read.parquet`",
                    "≤ 1.1",
                    scan / plain,
                    scan / plain <= 1.1,
                )
            )
        write, plain = self.warm("bulk_insert", "pudi-local"), self.warm("plain_write", "pudi-local")
        if write and plain:
            lines.append(
                verdict("pudi, local, bulk_insert: of `write_table`", "≤ 1.5", write / plain, write / plain <= 1.5)
            )
        at = self.contestants.get("pudi-local", {}).get("one_row_at_commits", {})
        if at.get("10") and at.get("100"):
            times = at["100"] / at["10"]
            lines.append(
                verdict("pudi, local, one-row upsert at 100 commits: of that at 10", "≤ 1.5", times, times <= 1.5)
            )
        return lines


def table(columns: list[str], cell: Callable[[str, str], str], rows: Iterable[str] = TITLES) -> str:
    """A Markdown table of operations by contestants; rows without a figure are left out."""
    lines = [f"| | {' | '.join(NAMES[name] for name in columns)} |", "|---" * (len(columns) + 1) + "|"]
    for row in rows:
        cells = [cell(row, name) for name in columns]
        if any(c != "–" for c in cells):
            lines.append(f"| {TITLES.get(row, 'aggregate by the plain reader')} | {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def both(warm: float | None, cold: float | None, form: str) -> str:
    if cold is None:
        return "–"
    return f"{form.format(warm) if warm is not None else '–'} ({form.format(cold)})"


def number(value: float | None, unit: float, form: str = "{:,.1f}") -> str:
    return "–" if value is None else form.format(value / unit)


def verdict(title: str, wanted: str, measured: float, met: bool) -> str:
    return f"| {title} | {wanted} | {measured:.2f} | {'met' if met else '**short**'} |"
