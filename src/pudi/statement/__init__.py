"""Statements of Hudi's Spark SQL, run by the verbs of a table on either engine.

`parse` makes a value of a text, `execute` runs it, `procedures` are those of CALL, `translate` is Spark's SQL as
DuckDB's. Nothing here knows Spark or DuckDB but `local`; others are a `Host`. Begin with `run`.
"""
