"""The only module that imports pyspark: recognises DataFrames, checks Spark, and converts its errors to pudi's."""

from __future__ import annotations

import gc
import os
import re
import shutil
import sys
import zipimport
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from posixpath import basename
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa

from pudi import errors
from pudi.context import Executor
from pudi.context.progress import current_phase
from pudi.context.runtime import lazy_module
from pudi.errors import (
    CorruptError,
    InvalidArgumentError,
    NotFoundError,
    PudiError,
    SchemaError,
    SetupError,
    UnavailableError,
)
from pudi.record import SPARK_ERROR_MARK
from pudi.version import __version__

if TYPE_CHECKING:
    import subprocess
    from importlib import metadata as distributions
else:  # workers, which import this module for their tasks, use neither
    subprocess = lazy_module("subprocess")
    distributions = lazy_module("importlib.metadata")

_DESCRIPTION = "spark.job.description"
_LEFT_BY_HUDI = ":"  # Hudi's clearJobStatus names an empty module and an empty activity, whose form is this

_context: ContextVar[Any] = ContextVar("pudi_spark_context", default=None)


def describe_jobs_of(spark: Any) -> None:
    """Describe the jobs that this thread starts in a session.

    Spark Connect has no descriptions of jobs: `SparkSession.addTag` only marks operations, to interrupt them.

    Args:
        spark: the session; of a Connect session nothing is described.
    """
    _context.set(None if is_connect(spark) else getattr(spark, "sparkContext", None))


@contextmanager
def described(table: str, doing: str) -> Iterator[None]:
    """Describe the Spark jobs of a block, unless the user's own description stands.

    Args:
        table: location of the table; empty for that of the phase.
        doing: what the jobs are for.
    """
    context, phase = _context.get(), current_phase()
    if context is None or phase is None:
        yield
        return
    before = context.getLocalProperty(_DESCRIPTION)
    if before is not None and before != _LEFT_BY_HUDI and not before.startswith("pudi: "):
        yield
        return
    name = basename((table or phase.table).rstrip("/"))
    context.setJobDescription(f"pudi: {phase.action} of {name}, {phase.name}: {doing}")
    try:
        yield
    finally:
        context.setLocalProperty(_DESCRIPTION, before)


OLDEST_SPARK = (3, 5)
_JAVA_OF_SPARK = {3: 8, 4: 17}
"""Oldest Java by Spark's major version (Spark's own release notes)."""

_OBSERVED_SECONDS = 30
"""Seconds to wait after a query for what Spark has observed."""
_MOST_TEXTS = 200_000
"""Maximum number of texts in memory in a task that computes a column from them."""

_MARKED = re.compile(re.escape(SPARK_ERROR_MARK) + r"(.*?)(?: SQLSTATE: \w+)?\s*(?:\n|$)")


_OF_SCHEMA = "SchemaError: "
_ERROR_LINE = re.compile(r"^(?:Caused by: )?((?!py4j\.)[\w.]*(?:Error|Exception): .+)$", re.MULTILINE)
_OWN = re.compile(r"^pudi\.errors\.(\w+): (.*)$", re.MULTILINE)
"""An error of pudi's own in the traceback of a Python worker."""


def require_spark(*, java: bool = True) -> str:
    """Check that this machine can run Spark.

    Args:
        java: whether Java is needed here; a pure Spark Connect client needs none.

    Returns:
        The version of pyspark.

    Raises:
        SetupError: pyspark or Java is missing or too old; says what to do.
    """
    try:
        version = distributions.version("pyspark")
    except distributions.PackageNotFoundError:
        raise SetupError("pyspark is not installed: pip install 'pudi[spark]'") from None
    check_version(version, "pyspark")
    if java:
        _check_java(_JAVA_OF_SPARK.get(_numbers(version)[0], 17))
    return version


def check_session(spark: Any) -> None:
    """Refuse a session of a Spark that is too old.

    Raises:
        InvalidArgumentError: it's no session.
        SetupError: it's older than 3.5.
    """
    if not hasattr(spark, "version"):
        raise InvalidArgumentError(f"spark must be a SparkSession, not {type(spark).__name__}")
    check_version(str(spark.version), "the session's Spark")


def check_version(version: str, what: str) -> None:
    """Refuse a version before 3.5; raises SetupError."""
    if _numbers(version) < OLDEST_SPARK:
        raise SetupError(f"{what} is {version}: pudi needs 3.5 or newer; pip install -U 'pyspark>=3.5'")


def is_connect(frame_or_session: object) -> bool:
    """Whether a DataFrame or session is one of Spark Connect."""
    return type(frame_or_session).__module__.startswith("pyspark.sql.connect.")


def functions(frame_or_session: object) -> Any:
    """`pyspark.sql.functions` of the kind, classic or Connect, that goes with a DataFrame or session."""
    if is_connect(frame_or_session):
        from pyspark.sql.connect import functions as connect_functions  # noqa: PLC0415 - optional

        return connect_functions
    from pyspark.sql import functions as classic_functions  # noqa: PLC0415 - optional

    return classic_functions


def struct_type(json_value: dict[str, Any]) -> Any:
    """The StructType that its JSON value says."""
    from pyspark.sql.types import StructType  # noqa: PLC0415 - optional

    return StructType.fromJson(json_value)


def memory_and_disk() -> Any:
    """The storage level MEMORY_AND_DISK."""
    from pyspark.storagelevel import StorageLevel  # noqa: PLC0415 - optional

    return StorageLevel.MEMORY_AND_DISK


def in_workers(frame: Any, run: Callable[[Iterable[Any]], Iterator[Any]], schema: Any) -> Any:
    """A frame of what Arrow code in Python workers makes of another frame's batches."""
    return frame.mapInArrow(_WorkerCode(run).run, schema)


@dataclass(frozen=True, slots=True)
class _WorkerCode:
    """Begin a task in a Python worker."""

    code: Callable[[Iterable[Any]], Iterator[Any]]

    def run(self, batches: Iterable[Any]) -> Iterator[Any]:
        prepare_worker()
        yield from self.code(batches)


def column_in_workers(frame: Any, run: Callable[[Sequence[pa.Array]], Sequence[pa.Array]], kind: str, name: str) -> Any:
    """A column that Arrow code in Python workers makes of a column of texts; the other columns stay in the JVM.

    Args:
        frame: the frame.
        run: gets the texts of many records in batches, and returns the values of each batch.
        kind: the column's type as Spark names it, that of a number.
        name: the column of texts.
    """
    import pandas as pd  # noqa: PLC0415 - optional

    def code(texts: Iterator[pd.Series]) -> Iterator[pd.Series]:
        prepare_worker()
        buffered: list[pa.Array] = []
        for series in texts:
            buffered.append(pa.array(series, pa.string()))
            if sum(map(len, buffered)) >= _MOST_TEXTS:
                yield from (pd.Series(values.to_numpy()) for values in run(buffered))
                buffered = []
        if buffered:
            yield from (pd.Series(values.to_numpy()) for values in run(buffered))

    # Spark goes by the types, and doesn't find them by their names here
    code.__annotations__ = {"texts": Iterator[pd.Series], "return": Iterator[pd.Series]}
    return functions(frame).pandas_udf(code, kind)(name)


def prepare_worker() -> None:
    """Begin a task in a Python worker."""
    _forget_zip_finders()
    _keep_modules_from_collector()


def _forget_zip_finders() -> None:
    """Spare this worker's next tasks 0.15 s each.

    PySpark 3.5 begins every task with `importlib.invalidate_caches`. Each finder that has opened pyspark.zip then reads
    the archive's directory again. Finders are a cache: a missing one is created again.
    """
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimport.zipimporter):
            sys.path_importer_cache.pop(path, None)


@cache
def _keep_modules_from_collector() -> None:
    """Spare this worker's next tasks 0.1 s each.

    PySpark's workers collect garbage after every task and then walk over all objects of the modules. Objects that exist
    when the first task begins are exempted once; they are still freed when nothing refers to them.
    """
    gc.freeze()


def can_observe(spark: Any) -> bool:
    """Whether `Observed` works with a session: Connect has no observations before Spark 4."""
    return not is_connect(spark) or _numbers(str(spark.version)) >= (4, 0)


@dataclass(frozen=True, slots=True)
class Observed:
    """Aggregates that Spark computes while it evaluates a frame for another purpose.

    Args:
        frame: the frame to go on with.
        observation: where Spark tells.
    """

    frame: Any
    observation: Any

    @classmethod
    def of(cls, frame: Any, **aggregates: str) -> Observed:
        """Have Spark gather aggregates, by their names."""
        from pyspark.sql import Observation  # noqa: PLC0415 - optional

        sql, observation = functions(frame), Observation()
        named = [sql.expr(aggregate).alias(name) for name, aggregate in aggregates.items()]
        return cls(frame.observe(observation, *named), observation)

    def found(self, executor: Executor) -> dict[str, Any]:
        """The aggregates, once the frame was evaluated; nothing where Spark doesn't tell them in time.

        Spark tells them by an event that can be late, and is dropped where there are too many.
        """
        return executor.call_within(_OBSERVED_SECONDS, lambda: self.observation.get) or {}


def task_ids() -> tuple[int, int, int]:
    """Partition, stage and attempt number of the Spark task that runs; the attempt's is unique in the application."""
    from pyspark.taskcontext import TaskContext  # noqa: PLC0415 - optional

    context = TaskContext.get()
    if context is None:
        raise RuntimeError("not inside a Spark task")
    return context.partitionId(), context.stageId(), context.taskAttemptId()


@contextmanager
def spark_errors(table: str, doing: str) -> Iterator[None]:
    """Turn what Spark raises into pudi's errors.

    Args:
        table: location of the table.
        doing: what was being done, for the message.

    Raises:
        InvalidArgumentError: a key expression refused a record.
        NotFoundError: a file is gone.
        CorruptError: a base file is not what a Parquet file must be, or a record of the input can't be parsed.
        SetupError: workers can't import pudi or its dependencies.
        UnavailableError: anything else that Spark reports; the cause is attached.
    """
    try:
        with described(table, doing):
            yield
    except PudiError:
        raise
    except ImportError as error:
        raise SetupError(f"Spark needs a package that is not here: {error}; pip install 'pudi[spark]'") from error
    except _error_types() as error:
        raise _translated(error, table, doing) from error


@contextmanager
def sql_errors() -> Iterator[None]:
    """Turn what Spark says of SQL that it can't read or resolve into `InvalidArgumentError`."""
    from pyspark.errors import AnalysisException, ParseException  # noqa: PLC0415 - optional

    try:
        yield
    except (AnalysisException, ParseException) as error:
        raise InvalidArgumentError(f"Spark: {str(error).strip().splitlines()[0]}") from error


def _error_types() -> tuple[type[Exception], ...]:
    from pyspark.errors import PySparkException  # noqa: PLC0415 - optional

    # py4j exists only where this process drives a JVM; its conversion errors have a type of their own
    py4j = getattr(sys.modules.get("py4j.protocol"), "Py4JError", None)
    return (PySparkException,) if py4j is None else (PySparkException, py4j)


def _translated(error: Exception, table: str, doing: str) -> PudiError:
    text = str(error)
    marked = _MARKED.search(text)
    if marked:
        kind = SchemaError if marked[1].startswith(_OF_SCHEMA) else InvalidArgumentError
        return kind(marked[1].removeprefix(_OF_SCHEMA), table=table)
    own = _OWN.search(text)
    named = getattr(errors, own[1], None) if own else None
    if own and isinstance(named, type) and issubclass(named, PudiError):
        return named(own[2])
    missing = re.search(r"No module named '(pudi|pyarrow|obstore|numpy|fastavro|sqlglot|psutil)[.']?", text)
    if missing:
        return SetupError(
            f"Spark's workers have no Python package {missing[1]}: they run PYSPARK_PYTHON, or the first python3 on "
            f"PATH. On one machine set PYSPARK_PYTHON={sys.executable} before the session starts (or activate the "
            "environment); on a cluster install pudi on every node, or ship it with spark.archives (venv-pack)",
            table=table,
        )
    if _OTHER_PYTHON.search(text):
        return SetupError(
            f"Spark's workers can't run Python as the driver does ({_cause(text)}): they run PYSPARK_PYTHON, or the "
            f"first python3 on PATH, which must be of the driver's version. On one machine set "
            f"PYSPARK_PYTHON={sys.executable} before the session starts; on a cluster install this Python on every "
            "node, or ship it with spark.archives (venv-pack)",
            table=table,
        )
    other = re.search(r"ModuleNotFoundError: No module named '([\w.]+)'", text)
    if other:
        return SetupError(
            f"Spark's workers can't import Python module {other[1]}: install it on every node or send it along "
            "(SparkContext.addPyFile, spark.addArtifacts); a merger's class can also be of the script that is run",
            table=table,
        )
    if "PATH_NOT_FOUND" in text or "FileNotFoundException" in text:
        return NotFoundError(
            f"Spark does not find a file while {doing}: it was removed, or the cluster does not reach it by this path "
            f"({_cause(text)})",
            table=table,
        )
    if any(sign in text for sign in _UNPARSED):
        return CorruptError(
            f"Spark can't parse a record of the data while {doing}: {_cause(text)}; nothing was written", table=table
        )
    if any(sign in text for sign in _CORRUPT):
        file = _PARQUET_PATH.search(text)
        return CorruptError(
            f"Spark can't read a base file while {doing}: {_cause(text)}; restore it, or roll its commit back",
            table=table,
            path=unquote(file[0]) if file else None,
        )
    return UnavailableError(f"Spark failed while {doing}: {_cause(text)}", table=table)


_OTHER_PYTHON = re.compile(r"PYTHON_VERSION_MISMATCH|Cannot run program|Python in worker has different version")
"""Texts of Spark's errors for a worker whose Python isn't there or is of another version than the driver's."""
_UNPARSED = (
    "CANNOT_PARSE_JSON_FIELD",
    "Cannot parse field name",
    "MALFORMED_CSV_RECORD",
    "MALFORMED_RECORD_IN_PARSING",
    "Malformed records are detected",
)
"""Texts of Spark's errors for records of JSON and CSV files, read in mode FAILFAST."""
_CORRUPT = (
    "is not a Parquet file",
    "Could not read footer",
    "CANNOT_READ_FILE_FOOTER",
    "ParquetDecodingException",
    "org.apache.parquet.io.",
)
"""Texts of Spark's errors for damaged Parquet files."""
_PARQUET_PATH = re.compile(r"[a-z0-9]+:/[^\s'\"]+\.parquet")


def _cause(text: str) -> str:
    """The line of an error's text and traces that says most: the innermost error, in Python or in Java."""
    found = _ERROR_LINE.findall(text)
    lines = found[-1:] or text.strip().splitlines() or ["no message"]
    return str(lines[0]).strip()[:500]


def _check_java(oldest: int) -> None:
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    advice = f"install a JDK (17 fits every Spark from 3.5 on) and set JAVA_HOME; Spark needs Java {oldest} or newer"
    if program is None or not Path(program).exists():
        raise SetupError(f"there is no Java: {advice}")
    try:
        answer = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SetupError(f"{program} does not run ({error}): {advice}") from error
    found = re.search(r'version "(?:1\.)?(\d+)', answer.stderr + answer.stdout)
    if found is None or int(found[1]) < oldest:
        raise SetupError(f"{program} is Java {found[1] if found else 'of an unknown version'}: {advice}")


def _numbers(version: str) -> tuple[int, int]:
    found = re.match(r"(\d+)\.(\d+)", version)
    return (int(found[1]), int(found[2])) if found else (0, 0)


_APPLICATION = "spark.app.id"

_ready: set[str] = set()
"""Applications whose workers have answered."""


@dataclass(frozen=True, slots=True)
class _Greeting:
    """A task that tells which pudi its worker runs. To load it, a worker needs pudi and what pudi needs."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Answer once."""
        for _ in batches:
            yield pa.record_batch([pa.array([__version__])], names=["version"])


def check_workers(spark: Any, table: str) -> None:
    """Run a task of one row, once in an application.

    Args:
        spark: the session.
        table: location of the table, for errors.

    Raises:
        SetupError: workers run another Python than the driver, or lack pudi or what it needs, or have another pudi.
        UnavailableError: Spark can't run the task.
    """
    check_session(spark)
    application = str(spark.conf.get(_APPLICATION, ""))
    if application and application in _ready:
        return
    with spark_errors(table, "starting a Python worker"):
        rows = in_workers(spark.range(0, 1, 1, 1), _Greeting().run, "version STRING").collect()
    versions = {row[0] for row in rows} - {__version__}
    if versions:
        raise SetupError(
            f"the driver runs pudi {__version__} and Spark's workers pudi {', '.join(sorted(versions))}: install the "
            "same version on every node",
            table=table,
        )
    _ready.add(application)
