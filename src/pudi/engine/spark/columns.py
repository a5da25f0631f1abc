"""Names of the columns that ride along with records inside Spark."""

from __future__ import annotations

ARRIVAL = "_pudi_arrival"
"""Order of arrival, a long that grows from record to record of the input."""
HASH = "_pudi_hash"
"""Hash of partition path and record key, a long."""
DATA = "_pudi_data"
"""All that a record is, as one struct: key, partition path, hash, order of arrival, the table's columns."""
FILE_ID = "_pudi_file_id"
"""File group that holds the record's key."""
TASK = "_pudi_task"
"""Number of the file task that the record goes to."""
SPREAD = "_pudi_spread"
"""Tasks that new records of one partition are spread over, an array that a hash picks from."""
SALT = "_pudi_salt"
"""What the exchange places records by."""
