"""Writing the metadata table: creation, deltacommits, rollback and index definitions."""
