"""Bring a table to another version, and do all the maintenance that is due. Begin with `upgrade`."""
