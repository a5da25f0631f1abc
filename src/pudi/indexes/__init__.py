"""The kinds of indexes: a module or folder for each, which builds, maintains, checks and uses it.

Begin with `kind` and `registry`.
"""
