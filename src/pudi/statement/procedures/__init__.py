"""Hudi's procedures for CALL, by the verbs of a table."""
