"""Table services: a module for each, one runner, one registry.

They plan under the table's lock and run without it. Begin with `runner`.
"""
