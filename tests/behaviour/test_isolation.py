"""What concurrent verbs make of each other: statements are serializable, and the rules are those of the docs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import pudi
from pudi.concurrency.conflicts import conflict_table

DOCS = Path(__file__).parents[2] / "docs"
SCHEMA = pa.schema([("id", pa.string()), ("day", pa.string()), ("tag", pa.string())])
STRATEGY = "hoodie.write.lock.conflict.resolution.strategy"
PACKAGE = "org.apache.hudi.client.transaction."
FIRST = {"hoodie.precommit.validators": "meanwhile"}


def rows(*values: tuple[str, str, str]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, each, strict=True)) for each in values], SCHEMA)


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], object]], None]]:
    """Runs a function once, when the files of a write with the option `FIRST` are written and it hasn't committed."""
    monkeypatch.setattr("pudi.hooks.validators._REGISTERED", {})

    def register(other: Callable[[], object]) -> None:
        left = [other]
        pudi.register_validator("meanwhile", lambda _before, _after: left and left.pop()())

    yield register


@pytest.fixture(params=["cow", "mor"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> pudi.Table:
    """One partition of two file groups, one black and one white, and another partition."""
    made = pudi.create(tmp_path / "t", SCHEMA, record_key="id", partition_by="day", table_type=request.param)
    small = {"hoodie.parquet.small.file.limit": "0"}
    made.insert(rows(("a", "1", "black"), ("c", "2", "black")), options=small)
    made.insert(rows(("b", "1", "white")), options=small)
    return made


def tags(table: pudi.Table) -> dict[str, str]:
    found = pudi.Table(table.path).scan(columns=["id", "tag"]).to_arrow().to_pydict()
    return dict(zip(found["id"], found["tag"], strict=True))


def test_two_updates_dont_each_miss_the_others_rows(table: pudi.Table, meanwhile: Callable[..., None]) -> None:
    other = pudi.Table(table.path)
    meanwhile(lambda: other.update({"tag": "'black'"}, where="tag = 'white' AND day = '1'"))
    done = table.update({"tag": "'white'"}, where="tag = 'black' AND day = '1'", options=FIRST)
    assert tags(table) == {"a": "white", "b": "white", "c": "black"}, "one after the other, not swapped"
    assert done is not None
    assert done.attempts == 2


def test_an_update_doesnt_miss_what_an_insert_adds(table: pudi.Table, meanwhile: Callable[..., None]) -> None:
    other = pudi.Table(table.path)
    meanwhile(lambda: other.insert(rows(("d", "1", "black"))))
    table.delete(where="tag = 'black' AND day = '1'", options=FIRST)
    assert tags(table) == {"b": "white", "c": "black"}


def test_what_a_predicate_rules_out_is_no_conflict(table: pudi.Table, meanwhile: Callable[..., None]) -> None:
    other = pudi.Table(table.path)
    meanwhile(lambda: other.update({"tag": "'grey'"}, where="day = '2'"))
    done = table.update({"tag": "'white'"}, where="tag = 'black' AND day = '1'", options=FIRST)
    assert tags(table) == {"a": "white", "b": "white", "c": "grey"}
    assert done is not None
    assert done.attempts == 1


def test_without_further_attempts_the_error_names_the_partition(
    table: pudi.Table, meanwhile: Callable[..., None]
) -> None:
    other = pudi.Table(table.path)
    meanwhile(lambda: other.update({"tag": "'black'"}, where="tag = 'white' AND day = '1'"))
    once = {**FIRST, "hoodie.write.num.retries.on.conflict.failures": "0"}
    with pytest.raises(pudi.ConflictError, match="changed partition '1', which this write read"):
        table.update({"tag": "'white'"}, where="tag = 'black' AND day = '1'", options=once)
    assert tags(table) == {"a": "black", "b": "black", "c": "black"}


def test_a_clustering_changes_nothing_that_was_read(table: pudi.Table, meanwhile: Callable[..., None]) -> None:
    other = pudi.Table(table.path)
    meanwhile(lambda: other.cluster(options={"hoodie.clustering.plan.strategy.partition.selected": "2"}))
    done = table.update({"tag": "'white'"}, where="tag = 'black'", options=FIRST)
    assert set(tags(table).values()) == {"white"}
    assert done is not None


@pytest.mark.parametrize("prefers", [True, False])
def test_with_prefer_writer_a_clustering_gives_way_to_a_write_at_work(
    table: pudi.Table, meanwhile: Callable[..., None], prefers: bool
) -> None:
    """The write began before the clustering was planned; its files are written, and its commit comes later."""
    name = "PreferWriter" if prefers else "SimpleConcurrentFileWrites"
    strategy = {STRATEGY: f"{PACKAGE}{name}ConflictResolutionStrategy"}
    other = pudi.Table(table.path, options=strategy)

    def cluster() -> None:
        if prefers:
            with pytest.raises(pudi.ConflictError, match="is at work on file group"):
                other.cluster()
        else:
            other.cluster()

    meanwhile(cluster)
    changed, once = (
        rows(("a", "1", "grey")),
        {**FIRST, **strategy, "hoodie.write.num.retries.on.conflict.failures": "0"},
    )
    if prefers:
        table.upsert(changed, options=once)
    else:
        with pytest.raises(pudi.ConflictError):
            table.upsert(changed, options=once)
    assert tags(table) == {"a": "grey" if prefers else "black", "b": "white", "c": "black"}


@pytest.mark.parametrize("package", ["", PACKAGE])
def test_with_prefer_writer_a_planned_clustering_yields(tmp_path: Path, package: str) -> None:
    table = pudi.create(tmp_path / "t", SCHEMA, record_key="id", partition_by="day")
    for key in "ab":
        table.insert(rows((key, "1", "black")), options={"hoodie.parquet.small.file.limit": "0"})
    assert table.schedule("clustering")
    changed = rows(("a", "1", "white"))
    with pytest.raises(pudi.BlockedError, match="clustering"):
        table.upsert(changed, options={STRATEGY: f"{package}SimpleConcurrentFileWritesConflictResolutionStrategy"})
    table.upsert(changed, options={STRATEGY: f"{package}PreferWriterConflictResolutionStrategy"})
    table.run_pending()
    assert tags(table) == {"a": "white", "b": "black"}


def test_a_strategy_by_bucket_needs_buckets(tmp_path: Path) -> None:
    name = f"{PACKAGE}BucketIndexConcurrentFileWritesConflictResolutionStrategy"
    table = pudi.create(tmp_path / "t", SCHEMA, record_key="id", partition_by="day")
    with pytest.raises(pudi.InvalidArgumentError, match="no bucket index"):
        table.upsert(rows(("a", "1", "black")), options={STRATEGY: name})
    buckets = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    made = pudi.create(tmp_path / "b", SCHEMA, record_key="id", partition_by="day", options=buckets)
    made.upsert(rows(("a", "1", "black")), options={STRATEGY: name})
    assert tags(made) == {"a": "black"}


def test_a_strategy_of_somebody_elses_is_refused(tmp_path: Path) -> None:
    table = pudi.create(tmp_path / "t", SCHEMA, record_key="id", partition_by="day")
    with pytest.raises(pudi.InvalidArgumentError, match=r"SimpleConcurrent.*PreferWriter"):
        table.upsert(rows(("a", "1", "black")), options={STRATEGY: "os.system"})


def test_the_table_of_conflicts_is_the_codes() -> None:
    page = (DOCS / "concurrency.md").read_text(encoding="utf-8")
    assert conflict_table() in page, "docs/concurrency.md: " + conflict_table()
