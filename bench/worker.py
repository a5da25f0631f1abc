"""One contestant in a process of its own: takes operations as lines of JSON, answers each with one."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from operations import Contestant, Setting


def contestant(name: str, memory: str) -> Contestant:
    """The contestant of that name, ready to work."""
    if name in {"pudi-local", "delta-rs"}:
        import local

        return local.PudiLocal() if name == "pudi-local" else local.DeltaRs()
    import spark

    if name in {"pudi-spark", "pudi-spark4"}:
        return spark.PudiSpark(memory)
    if name in {"delta-spark", "delta-spark4"}:
        return spark.DeltaSpark(memory)
    if name == "hudi-gzip":
        return spark.Hudi(memory)  # gzip is Hudi's default
    return spark.Hudi(memory, **{"hoodie.parquet.compression.codec": "zstd"})


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")  # what libraries print must not come between the answers
    os.dup2(2, 1)
    began = time.perf_counter()
    engine = contestant(*sys.argv[1:])
    say(answers, {"versions": engine.versions(), "start": time.perf_counter() - began})
    for line in sys.stdin:
        request = json.loads(line)
        if request["do"] == "open":
            engine.open(Path(request["data"]), Path(request["table"]), Setting(**request["setting"]))
            say(answers, {})
            continue
        verb, _, batch = request["do"].partition(":")
        if (operation := getattr(engine, verb, None)) is None:
            say(answers, {"offered": False})
        else:
            watch = operation(batch) if batch else operation()
            say(answers, {"seconds": watch.seconds, "planning": watch.planning, "answer": watch.answer})
    engine.close()


def say(answers, value: dict) -> None:
    print(json.dumps(value), file=answers, flush=True)


if __name__ == "__main__":
    main()
