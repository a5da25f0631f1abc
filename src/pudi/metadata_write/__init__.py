"""The metadata table, written: its deltacommits, the logs of its indexes, and their definitions.

Reading it is `pudi.metadata`. Begin with `commit`.
"""
