"""Indexes of the metadata table, built beside writers, dropped, and rebuilt.

What an index holds is in `pudi.indexes`. Begin with `indexing`.
"""
