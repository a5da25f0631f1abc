"""Savepoints, and the return of a table to an earlier commit. Begin with `restore`."""
