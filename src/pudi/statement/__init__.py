"""Statements of Hudi's Spark SQL: read from text, run by the verbs of a table on either engine."""
