"""A lock of a real lock provider of Hudi, in a JVM of its own."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import pytest

from support.zookeeper import JARS

SOURCE = Path(__file__).with_name("HudiLock.java")
OPENS = ["java.base/java.lang", "java.base/java.nio", "java.base/sun.nio.ch", "java.base/java.util"]


@dataclass
class HudiLock:
    """Takes and frees the lock by commands to the JVM."""

    process: subprocess.Popen[str]
    commands: IO[str]
    answers: IO[str]

    def lock(self, seconds: float) -> bool:
        return self._ask(f"lock {int(seconds * 1000)}") == "true"

    def unlock(self) -> None:
        assert self._ask("unlock") == "free"

    def start_counting(self, file: Path, seconds: float) -> Callable[[], int]:
        """Let it add to a number under the lock; what's returned waits for the end, and says how often it did."""
        self._tell(f"count {file} {seconds}")
        return lambda: int(self.answer())

    def _ask(self, command: str) -> str:
        self._tell(command)
        return self.answer()

    def _tell(self, command: str) -> None:
        self.commands.write(f"{command}\n")
        self.commands.flush()

    def answer(self) -> str:
        for line in self.answers:
            if line.startswith("@"):
                return line[1:].strip()
        raise RuntimeError("Hudi's JVM ended")


@pytest.fixture(scope="session")
def hudi_bundle(spark: Any) -> Path:
    """The bundle, which a session of Spark brought."""
    del spark
    (found,) = (Path.home() / ".ivy2" / "jars").glob("org.apache.hudi_hudi-spark3.5-bundle*-1.2.0.jar")
    return found


@contextmanager
def hudi_lock(bundle: Path, provider: str, options: Mapping[str, str], log: Path) -> Iterator[HudiLock]:
    """Run a JVM with a lock provider until the block ends."""
    quiet = ["-Dlog4j2.level=WARN", "-XX:TieredStopAtLevel=1", "-Xmx256m"]
    opens = [f"--add-opens={each}=ALL-UNNAMED" for each in OPENS]
    classes = ["-cp", f"{bundle}:{JARS}/*", str(SOURCE)]
    java = ["java", *quiet, *opens, *classes, provider, *(f"{key}={value}" for key, value in options.items())]
    with log.open("wb") as errors:
        process = subprocess.Popen(java, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert process.stdin is not None
        assert process.stdout is not None
        found = HudiLock(process, process.stdin, process.stdout)
        try:
            try:
                assert found.answer() == "ready"
            except RuntimeError:
                raise RuntimeError(log.read_text(errors="replace")[-3000:]) from None
            yield found
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
            process.stdout.close()
