"""Ingestion: batches of files, of another table's changes, or of a Kafka topic go into a table, each exactly once."""

from pudi.ingest.debezium import debezium_events
from pudi.ingest.files import FileSource
from pudi.ingest.ingestion import BatchReport, Ingestion
from pudi.ingest.kafka import KafkaSource, RegistryValues
from pudi.ingest.source import Batch, Source
from pudi.ingest.table_source import TableSource
from pudi.ingest.transforms import sql_transform

__all__ = [
    "Batch",
    "BatchReport",
    "FileSource",
    "Ingestion",
    "KafkaSource",
    "RegistryValues",
    "Source",
    "TableSource",
    "debezium_events",
    "sql_transform",
]
