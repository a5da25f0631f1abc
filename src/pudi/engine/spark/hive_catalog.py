"""The Hive catalog of a Spark session: whether it has one, and where its metastore is, by public interfaces alone."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from pudi.engine.spark.session import is_connect
from pudi.errors import CorruptError, cause_text

METASTORE_URIS = ("spark.hadoop.hive.metastore.uris", "spark.hive.metastore.uris", "hive.metastore.uris")
"""Settings that name the metastore of a session, as Spark takes them."""
_IMPLEMENTATION = "spark.sql.catalogImplementation"
_SITE_FOLDERS = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")
"""Variables of the environment with folders on the class path of Spark, in which it finds hive-site.xml."""


def has_hive(spark: Any) -> bool:
    """Whether the session's own catalog is Hive's."""
    return bool(spark.conf.get(_IMPLEMENTATION, None) == "hive")


def metastore_of(spark: Any) -> str:
    """Return the URIs of the Hive Metastore that is the session's own catalog, separated by commas.

    They are empty if it has none, or one without an address: Derby in Spark's process. A Connect server's
    hive-site.xml can't be seen.

    Raises:
        CorruptError: the session's hive-site.xml can't be read.
    """
    if not has_hive(spark):
        return ""
    values = (str(spark.conf.get(key, "")) for key in METASTORE_URIS)  # some sessions give other texts for none
    said = next((value for value in values if "://" in value), "")
    return said if said or is_connect(spark) else _uris_of_site() or ""


def _uris_of_site() -> str | None:
    """Return the metastore that the hive-site.xml on the class path of Spark names; None if there is none."""
    home = os.environ.get("SPARK_HOME")
    folders = [os.environ.get("SPARK_CONF_DIR") or (home and f"{home}/conf"), *map(os.environ.get, _SITE_FOLDERS)]
    for folder in folders:
        site = Path(folder or "", "hive-site.xml")
        if folder and site.is_file():
            for each in _properties(site):
                if (each.findtext("name") or "").strip() == METASTORE_URIS[-1]:
                    return (each.findtext("value") or "").strip() or None
            return None
    return None


def _properties(site: Path) -> Iterable[ElementTree.Element]:
    try:
        return ElementTree.parse(site).getroot().iter("property")
    except (OSError, ElementTree.ParseError) as error:
        raise CorruptError(f"the configuration of Hive can't be read: {cause_text(error)}", path=str(site)) from error
