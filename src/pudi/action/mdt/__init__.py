"""Writing the metadata table: made, kept in step with its table, rolled back and compacted with it."""
