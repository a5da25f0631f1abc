"""Catalogs, in which engines find tables by their names: Hive Metastore, AWS Glue, Apache Polaris, a SQLite file."""

from pudi.catalogs.catalog import Catalog
from pudi.catalogs.registry import CatalogPlace, is_place, open_catalog, place_of, register_catalog, split_address
from pudi.catalogs.sync_result import SyncedTable, SyncResult
from pudi.catalogs.values import CatalogColumn, CatalogPartition, CatalogTable, TableFormat, TableName, is_hudi

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
