"""Catalogs, in which engines find tables by their names: Hive Metastore, AWS Glue, Apache Polaris, a SQLite file."""

from pudi.catalogs.catalog import (
    Catalog,
    CatalogColumn,
    CatalogPartition,
    CatalogTable,
    SyncedTable,
    SyncResult,
    TableFormat,
    TableName,
    is_hudi,
)
from pudi.catalogs.registry import CatalogPlace, is_place, open_catalog, place_of, register_catalog, split_address

__all__ = [
    "Catalog",
    "CatalogColumn",
    "CatalogPartition",
    "CatalogPlace",
    "CatalogTable",
    "SyncResult",
    "SyncedTable",
    "TableFormat",
    "TableName",
    "is_hudi",
    "is_place",
    "open_catalog",
    "place_of",
    "register_catalog",
    "split_address",
]
