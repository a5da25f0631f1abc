"""Catalog sync: register a table in catalogs, and what changed since the last time."""
