"""The record index of a table held to a full scan of it, by a judge that decodes it with fastavro."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import numpy as np

import pudi
from support.metadata import records, records_by_group

Place = tuple[str, str]


def indexed(path: Path, *, partitioned: bool = False) -> dict[object, Place]:
    """Partition path and file id of each key, as the index has it; by partition path and key where it's by partition.

    An index by partition may have a key several times: then the judge's merging, by key alone, is done group by group.
    """
    found: dict[object, Place] = {}
    for group in records_by_group(path, "record_index") if partitioned else [records(path, "record_index")]:
        for key, record in group.items():
            info = record["recordIndexMetadata"]
            place = (info["partitionName"], _file_id(info))
            found[(place[0], key) if partitioned else key] = place
    return found


def _file_id(info: dict[str, object]) -> str:
    if info["fileIdEncoding"] == 1:
        return str(info["fileId"])
    halves = np.array([info["fileIdHighBits"], info["fileIdLowBits"]], dtype=">i8")
    text = str(UUID(bytes=halves.tobytes()))
    return text if info["fileIndex"] == -1 else f"{text}-{info['fileIndex']}"


def scanned(path: Path, *, partitioned: bool = False) -> dict[object, Place]:
    """The same by a full scan of the table."""
    fields = ("_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name")
    rows = pudi.Table(str(path)).scan().to_arrow().select(fields)
    keys, partitions, names = (rows[name].to_pylist() for name in fields)
    places = [(p, name.split("_")[0]) for p, name in zip(partitions, names, strict=True)]
    return {(place[0], key) if partitioned else key: place for key, place in zip(keys, places, strict=True)}


def assert_record_index(path: Path, *, partitioned: bool = False) -> None:
    """Every record is where the index says, and the index has no others."""
    by_index, by_scan = indexed(path, partitioned=partitioned), scanned(path, partitioned=partitioned)
    wrong = {key: (by_index.get(key), by_scan.get(key)) for key in {*by_index, *by_scan}}
    assert {key: places for key, places in wrong.items() if places[0] != places[1]} == {}
