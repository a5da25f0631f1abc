"""Streams from and into tables: a runner for changes, a writer for streaming queries, and their checkpoints."""
