"""Every setting of a reader. A scan takes what matters as arguments, so that these say where to put it.

Sources: `DataSourceReadOptions`, `HoodieReaderConfig` of Apache Hudi 1.2.
"""

from __future__ import annotations

from typing import Any

from pudi.config.option import Declare, Option, OptionsView, Scope, Status

_option = Declare(Scope.READ)
_argument = Declare(Scope.READ, Status.UNSUPPORTED)
_harmless = Declare(Scope.READ, Status.HARMLESS)


class ReadOptions(OptionsView):
    """What a reader may leave out."""

    __slots__ = ()

    data_skipping = _option(
        "hoodie.enable.data.skipping",
        "Whether to skip files by statistics in the metadata table. Statistics in the files are always used.",
        default=True,
    )
    by_position = _option(
        "hoodie.merge.use.record.positions",
        "Whether reads match log records with base rows by row number, if all log blocks of a slice have row numbers "
        "for its base file. Otherwise they match by key.",
        default=True,
    )


READ_OPTIONS: tuple[Option[Any], ...] = (
    *ReadOptions.declared,
    _argument(key="as.of.instant", doc="Instant to travel back to.", instead="use table.scan(as_of=…)"),
    _argument(
        key="hoodie.datasource.query.type",
        doc="Query type: snapshot, read optimized or incremental.",
        default="snapshot",
        aliases=("hoodie.datasource.view.type",),
        instead="use table.scan(read_optimized=True) or table.changes(since=…)",
    ),
    _argument(
        key="hoodie.datasource.query.incremental.format",
        doc="Result format of an incremental query.",
        default="latest_state",
        instead="use table.changes(format=…)",
    ),
    _argument(
        key="hoodie.datasource.read.begin.instanttime",
        doc="Start of an incremental query, exclusive.",
        instead="use table.changes(since=…)",
    ),
    _argument(
        key="hoodie.datasource.read.end.instanttime",
        doc="End of an incremental query, inclusive.",
        instead="use table.changes(until=…)",
    ),
    _argument(
        key="hoodie.datasource.read.paths",
        doc="Files of the table to read.",
        instead="use table.scan(where=…) on a partition column",
    ),
    _argument(
        key="hoodie.datasource.read.incr.path.glob",
        doc="Paths that an incremental query reads.",
        default="",
        instead="use table.changes(where=…)",
    ),
    _argument(
        key="hoodie.datasource.read.incr.filters",
        doc="Filters of an incremental query.",
        default="",
        instead="use table.changes(where=…)",
    ),
    _argument(
        key="hoodie.datasource.read.extract.partition.values.from.path",
        doc="Whether partition columns are read from the path instead of the files.",
        default=False,
    ),
    _argument(
        key="hoodie.datasource.merge.type",
        doc="Whether reads merge log records into base files.",
        default="payload_combine",
        instead="use table.scan(read_optimized=True)",
    ),
    _harmless(
        key="hoodie.schema.on.read.enable",
        doc="Whether columns are matched by ids; pudi always does so in a table with schema on read.",
        kind=bool,
    ),
    _harmless(key="hoodie.datasource.read.*", doc="How Hudi's Spark relation reads."),
    _harmless(key="hoodie.file.index.*", doc="How Hudi lists files in Spark."),
    _harmless(key="hoodie.file.group.reader.enabled", doc="Which of Hudi's readers is used.", kind=bool),
    _harmless(key="hoodie.hfile.block.cache.*", doc="Cache of Hudi's HFile reader."),
    _harmless(key="hoodie.read.*", doc="How Hudi's reader handles holes in a timeline and large objects."),
)
"""Every setting of a reader, in the order of the option page."""
