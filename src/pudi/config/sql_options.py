"""The options of SQL statements, with Hudi's keys and defaults.

Source: DataSourceWriteOptions and ProvidesHoodieConfig of Apache Hudi 1.2.
"""

from __future__ import annotations

from pudi.config.option import Declare, OptionsView, Scope

_option = Declare(Scope.WRITE)


class SqlOptions(OptionsView):
    """How statements write, where they don't say it."""

    __slots__ = ()

    insert_operation = _option(
        "hoodie.spark.sql.insert.into.operation",
        "What INSERT INTO does in SQL: `insert`, `bulk_insert`, or `upsert`, which updates records with existing keys.",
        default="insert",
        choices=("insert", "bulk_insert", "upsert"),
    )
