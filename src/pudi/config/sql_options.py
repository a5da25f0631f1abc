"""The options of SQL statements, with Hudi's keys and defaults.

Source: DataSourceWriteOptions and ProvidesHoodieConfig of Apache Hudi 1.2.
"""

from __future__ import annotations

from pudi.config.option import Declare, OptionsView, Scope

_option = Declare(Scope.WRITE)


class SqlOptions(OptionsView):
    """Options of SQL statements: defaults of their writes."""

    __slots__ = ()

    insert_operation = _option(
        "hoodie.spark.sql.insert.into.operation",
        "What INSERT INTO does in SQL, where `hoodie.datasource.write.operation` isn't set: `insert`, `bulk_insert`, "
        "`upsert`, which updates records with existing keys, or an overwrite.",
        default="insert",
        choices=("insert", "bulk_insert", "upsert", "insert_overwrite", "insert_overwrite_table"),
    )
