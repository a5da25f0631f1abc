"""What is done with a table from a shell: words in, one verb of `pudi.Table`, a report for a person out."""
