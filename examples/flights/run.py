"""New York's departures of 2013 in two Hudi tables: schedules, then what happened, batch by batch.

    python examples/flights/run.py --engine spark
    python examples/flights/run.py --engine local --type mor

Both tables are checked against a plain recomputation; the exit code is 1 if anything differs.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path

import engines
from check import THE_DAY, check, time_travel
from feed import write_feed
from pipeline import Pipeline
from report import Screen, draw

import pudi


def main() -> int:
    """Run the pipeline and check it; 1 if anything differs."""
    arguments = parse()
    folder: Path = arguments.path / arguments.engine
    shutil.rmtree(folder, ignore_errors=True)  # a former run's
    began = time.perf_counter()

    batches = write_feed(folder / "feed")
    engine = engines.start(arguments.engine)
    try:
        with Screen(len(batches)) as screen, pudi.report_progress(screen):
            pipeline = Pipeline(folder, engine, screen.commit, arguments.type, keep=[THE_DAY])
            for batch in batches:
                screen.step(f"batch {batch.name}")
                for schedule in batch.publishes:
                    pipeline.publish(schedule)
                pipeline.take(batch)
                screen.batch_done()
            screen.step("checking")
            findings = check(pipeline, engine, batches, folder / "expected")
        then, now = time_travel(pipeline, engine)
    finally:
        engine.close()

    say = screen.console.print
    say(f"\n{THE_DAY}, as believed when its batch had come: {told(then)}")
    say(f"{THE_DAY}, as known now: {told(now)}")
    for finding in findings:
        verdict = "[green]the same[/]" if finding.differences == 0 else f"[red]{finding.differences:,} differences[/]"
        say(f"{finding.what}: {finding.rows:,} rows recomputed, {verdict}")
    seconds = time.perf_counter() - began
    title = f"Flights and delays on engine {arguments.engine}: {len(screen.commits)} commits in {seconds:.0f} s"
    draw(screen.commits, title, arguments.report)
    say(f"{title}\nThe timeline is drawn in {arguments.report}, the tables are in {folder}")
    return int(any(finding.differences for finding in findings))


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--engine", choices=["spark", "local"], default="spark")
    parser.add_argument("--type", choices=["cow", "mor"], default="cow", help="copy-on-write or merge-on-read tables")
    parser.add_argument(
        "--path", type=Path, default=Path("demo-output"), help="folder for the tables, one folder an engine, made anew"
    )
    parser.add_argument(
        "--report", type=Path, default=Path("demo-output/timeline.html"), help="the picture of the timeline"
    )
    return parser.parse_args()


def told(summary: dict[str, float]) -> str:
    """A summary in words."""
    return "{departed} had left, {landed} had landed, {mean delay} minutes late on average".format_map(summary)


if __name__ == "__main__":
    sys.exit(main())
