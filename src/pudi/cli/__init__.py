"""The `pudi` command: arguments in, one call of `pudi.Table`, a report for a person out."""
