"""What an error says fits what the user wrote, and what there is to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from support.trips import SCHEMA, table, trip


@pytest.fixture
def trips(tmp_path: Path) -> pudi.Table:
    made = pudi.create(tmp_path / "trips", SCHEMA, record_key="uuid", partition_by="city", ordering="ts")
    made.bulk_insert(table([trip(number, 10) for number in range(6)]))
    return made


def test_an_option_that_contradicts_the_table_is_named_as_it_was_given(trips: pudi.Table) -> None:
    for given in ("hoodie.datasource.write.precombine.field", "hoodie.table.ordering.fields"):
        with pytest.raises(pudi.InvalidArgumentError, match=f"option {re.escape(given)}=fare contradicts"):
            pudi.Table(trips.path, options={given: "fare"})
        with pytest.raises(pudi.InvalidArgumentError, match=f"option {re.escape(given)}=fare contradicts"):
            trips.upsert(table([trip(1, 20)]), options={given: "fare"})


@pytest.mark.parametrize("value", ["sqrt(fare)", "no_such * 2", "fare LIKE 'x'", "fare + ("])
def test_no_where_is_spoken_of_where_there_is_none(trips: pudi.Table, value: str) -> None:
    with pytest.raises(pudi.PudiError, match="'fare'") as caught:
        trips.update({"fare": value})
    assert "where" not in caught.value.message
    if value.startswith("sqrt"):
        assert "not supported: the function SQRT" in caught.value.message
    with pytest.raises(pudi.PudiError) as caught:
        trips.merge(table([trip(1, 20)])).when_matched_update({"fare": value.replace("fare", "source.fare")}).execute()
    assert "where" not in caught.value.message


def test_a_condition_that_ends_early_names_no_class(trips: pudi.Table) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match="at column 12 near 'AND': a value is missing") as caught:
        trips.scan(where="fare > 1 AND")
    assert "sqlglot" not in str(caught.value)


def test_a_lost_file_is_said_with_what_to_do(trips: pudi.Table) -> None:
    lost = next(each for each in trips.files())
    Path(trips.path, str(lost.base_file)).unlink()
    with pytest.raises(pudi.NotFoundError, match="restore it from a copy"):
        trips.scan().to_arrow()
    assert str(trips.repair()) == "nothing was done; 1 difference can't be repaired: see plan.left"
    metadata = {"hoodie.metadata.enable": "true"}
    only = pudi.create(f"{trips.path}2", {"id": "long"}, record_key="id", options=metadata)
    only.insert(pa.table({"id": [1]}))
    Path(only.path, str(only.files()[0].base_file)).unlink()
    with pytest.raises(pudi.NotFoundError, match="no clean deleted it: restore it from a copy; pudi check"):
        pudi.Table(only.path).scan().to_arrow()


@pytest.mark.parametrize("value", ["sqrt(fare) > 1", "no_such > 2"])
def test_where_is_spoken_of_where_there_is_one(trips: pudi.Table, value: str) -> None:
    with pytest.raises(pudi.PudiError, match="in where"):
        trips.update({"fare": "fare"}, where=value)


def test_missing_credentials_are_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN", "PROFILE", "ENDPOINT_URL"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    nobody = {"region": "us-east-1", "metadata_endpoint": "http://127.0.0.1:9", "allow_http": "true"}
    with pytest.raises(pudi.RefusedError, match="no credentials for the store: give access_key_id") as caught:
        pudi.Table("s3://somebodys-bucket/trips", storage_options=nobody)
    assert not caught.value.retryable


@pytest.mark.parametrize(
    "use",
    [
        lambda path, wrong: pudi.Table(path, options=wrong),
        lambda path, wrong: pudi.Table(path).delete(where="id = 1", options=wrong),
        lambda path, wrong: pudi.create(path, {"id": "bigint"}, record_key="id", options=wrong),
        lambda path, wrong: pudi.spark.batch_writer(path, **wrong),
        lambda path, wrong: pudi.spark.read(None).options(**wrong).load(path),
    ],
)
def test_an_unknown_option_names_the_table(trips: pudi.Table, use: Callable[[str, dict[str, str]], object]) -> None:
    with pytest.raises(pudi.InvalidArgumentError, match=r"did you mean hoodie\.compact\.inline") as caught:
        use(trips.path, {"hoodie.compact.inlin": "true"})
    assert caught.value.table == trips.path
