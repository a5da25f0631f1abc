"""The verbs of writing: each takes records to where they belong and commits them. Begin with `write`."""
