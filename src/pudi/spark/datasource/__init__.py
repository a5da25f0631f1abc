"""Implement `format("pudi")` by Spark's Python data source API. Its modules need Spark 4."""
