"""Cleans delete what no retained commit needs, and nothing else: every retained state still reads as it was."""

from __future__ import annotations

import shutil
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pytest
from typer.testing import CliRunner

import pudi
from pudi.cli.app import app
from pudi.client import MetaClient
from pudi.context import Context
from pudi.format import TIMELINE_DIR, Action, InstantFile, State
from pudi.format.plans import CleanPlan, encode_clean_plan
from pudi.storage import open_storage
from pudi.testing import FaultStorage, SimulatedCrash
from support.engines import Engine
from support.golden import Golden
from support.layouts import Layout
from support.pudi_table import PudiTable
from support.rows import Row, assert_same
from support.trips import REPLACING, SCHEMA, steps, table, trip

pytestmark = pytest.mark.metadata_by_default

LAYOUTS = [Layout(version=version, kind=kind) for version in (6, 8, 9) for kind in ("cow", "mor")]
FEW = {"hoodie.parquet.small.file.limit": "0", "hoodie.clean.automatic": "false"}
COMMITS, VERSIONS = "hoodie.clean.commits.retained", "hoodie.clean.fileversions.retained"
POLICY = "hoodie.clean.policy"


def made(path: Path, layout: Layout, **options: str) -> pudi.Table:
    pudi.create(path, SCHEMA, **layout.create_arguments())
    return pudi.Table(path, options=FEW | options)


def data_files(path: Path) -> set[str]:
    files = (file.relative_to(path) for file in path.rglob("*") if file.is_file())
    return {str(file) for file in files if ".hoodie" not in file.parts and not file.name.startswith(".hoodie")}


def states(mine: pudi.Table) -> dict[str, list[Row]]:
    """What each commit of the table reads as."""
    return {each.requested: rows(mine, as_of=each.requested) for each in mine.timeline.commits}


def rows(mine: pudi.Table, **scan: Any) -> list[Row]:
    found = pudi.Table(mine.path).scan(**scan).to_arrow().to_pylist()
    return sorted(({k: v for k, v in row.items() if k != "_hoodie_file_name"} for row in found), key=str)


def last_clean(mine: pudi.Table) -> dict[str, Any]:
    meta = MetaClient.open(mine.path, None, {})
    return meta.store.decoded(meta.store.load().of(Action.CLEAN)[-1])


def save(mine: pudi.Table, instant: str, names: dict[str, list[str]]) -> None:
    """Make a savepoint of a commit, with the fields that are read."""
    files = {"type": "array", "items": "string"}
    partition = {"type": "record", "name": "P", "fields": [{"name": "savepointDataFile", "type": files}]}
    fields = [{"name": "partitionMetadata", "type": {"type": "map", "values": partition}}]
    content = BytesIO()
    record = {"partitionMetadata": {each: {"savepointDataFile": of} for each, of in names.items()}}
    fastavro.writer(content, {"type": "record", "name": "HoodieSavepointMetadata", "fields": fields}, [record])
    name = InstantFile(instant, Action.SAVEPOINT, State.COMPLETED, f"{int(instant) + 1}").file_name()
    (Path(mine.path) / TIMELINE_DIR / name).write_bytes(content.getvalue())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("retained", [1, 3])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_every_retained_commit_reads_as_before(engine: Engine, tmp_path: Path, layout: Layout, retained: int) -> None:
    mine = made(tmp_path / "trips", layout)
    writer = PudiTable(engine, tmp_path / "trips", FEW)
    verbs = ("insert", "upsert", "upsert", "delete", *REPLACING)
    for number, step in enumerate(steps(retained + layout.version, 14, verbs)):
        if step.verb == "delete":  # of keys that the partition may not have any more
            mine.delete(step.data)
        else:
            writer.write(step.verb, step.data)
        if layout.kind == "mor" and number % 4 == 3:
            mine.compact()
    before, files = states(mine), data_files(tmp_path / "trips")
    done = mine.clean(spark=getattr(engine, "spark", None), options={COMMITS: str(retained)})
    assert done is not None
    gone = files - data_files(tmp_path / "trips")
    assert (done.operation, done.files_deleted) == ("CLEAN", len(gone))
    assert gone
    kept = last_clean(mine)["earliestCommitToRetain"]
    assert kept == sorted(before)[-retained]
    for instant, state in before.items():
        if instant >= kept:
            assert_same(rows(mine, as_of=instant), state, about=f"as of {instant}")
        else:
            with pytest.raises(pudi.NotFoundError, match=f"earliest commit that cleans kept is {kept}"):
                rows(mine, as_of=instant)
    assert mine.check().ok, mine.check()
    assert mine.clean(options={COMMITS: str(retained)}) is None
    writer.write("upsert", table([trip(0, 9000)]))
    assert mine.check().ok


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_the_slice_before_the_earliest_retained_commit_stays(tmp_path: Path, layout: Layout) -> None:
    mine = made(tmp_path / "trips", layout)
    mine.bulk_insert(table([trip(0, 1), trip(1, 1)]))
    for ts, number in ((2, 1), (3, 0), (4, 1), (5, 0)):
        mine.upsert(table([trip(number, ts)]))
        if layout.kind == "mor":
            mine.compact()
    before = states(mine)
    kept = sorted(before)[-3]
    assert mine.clean(options={COMMITS: "3"}) is not None
    assert last_clean(mine)["earliestCommitToRetain"] == kept
    for instant in (each for each in before if each >= kept):
        assert_same(rows(mine, as_of=instant), before[instant], about=f"as of {instant}")


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_slices_are_counted(tmp_path: Path, layout: Layout) -> None:
    mine = made(tmp_path / "trips", layout)
    mine.bulk_insert(table(trip(number, 1) for number in range(9)))
    for ts in range(2, 8):
        mine.upsert(table(trip(number, ts) for number in range(9)))
        if layout.kind == "mor":
            mine.compact()
    mine.upsert(table([trip(0, 9), trip(3, 9)]))
    before = states(mine)
    options = {POLICY: "KEEP_LATEST_FILE_VERSIONS", VERSIONS: "2"}
    assert mine.clean(options=options) is not None
    bases = [name for name in data_files(tmp_path / "trips") if name.endswith(".parquet")]
    assert len(bases) == 3 * 2, "two slices in each of three partitions"
    assert mine.check().ok
    assert refused_or_as_before(mine, before) >= 5
    assert_same(rows(mine), before[max(before)], about="now")


def refused_or_as_before(mine: pudi.Table, before: dict[str, list[Row]]) -> int:
    """How many states can't be read any more; the others must read as they did."""
    refused = 0
    for instant, state in before.items():
        try:
            assert_same(rows(mine, as_of=instant), state, about=f"as of {instant}")
        except pudi.NotFoundError:
            refused += 1
    return refused


def test_commits_of_the_retained_hours_stay(tmp_path: Path) -> None:
    mine = made(tmp_path / "trips", LAYOUTS[-2])
    mine.bulk_insert(table([trip(0, 1)]))
    mine.upsert(table([trip(0, 2)]))
    before = states(mine)
    assert mine.clean(options={POLICY: "KEEP_LATEST_BY_HOURS"}) is None, "all commits are younger"
    assert states(mine) == before


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_replaced_file_groups_go_when_their_commit_is_no_longer_retained(tmp_path: Path, layout: Layout) -> None:
    mine = made(tmp_path / "trips", layout)
    mine.bulk_insert(table(trip(number, 1) for number in range(9)))
    old = data_files(tmp_path / "trips")
    mine.insert_overwrite_table(table(trip(number, 2) for number in range(9)))
    mine.upsert(table([trip(0, 3)]))
    assert mine.clean(options={COMMITS: "2"}) is None, "the retained states begin before the overwrite"
    mine.upsert(table([trip(1, 4)]))
    before = rows(mine)
    assert mine.clean(options={COMMITS: "1"}) is not None
    assert not old & data_files(tmp_path / "trips")
    assert_same(rows(mine), before, about="the new file groups")
    assert mine.check().ok


@pytest.mark.parametrize("metadata", ["true", "false"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_no_state_without_its_replaced_file_groups_is_read(tmp_path: Path, layout: Layout, metadata: str) -> None:
    options = FEW | {"hoodie.metadata.enable": metadata}
    pudi.create(tmp_path / "trips", SCHEMA, **_with(layout.create_arguments(), options))
    mine = pudi.Table(tmp_path / "trips", options=options)
    mine.bulk_insert(table(trip(number, 1) for number in range(9)))
    mine.upsert(table([trip(1, 2), trip(4, 2)]))
    mine.insert_overwrite(table([trip(0, 3)]))
    mine.upsert(table([trip(1, 4)]))
    before = states(mine)
    assert mine.clean(options={POLICY: "KEEP_LATEST_FILE_VERSIONS", VERSIONS: "1"}) is not None
    assert refused_or_as_before(mine, before) >= 2, "the third commit replaced a file group"
    assert_same(rows(mine), before[max(before)], about="now")


def _with(arguments: dict[str, Any], options: dict[str, str]) -> dict[str, Any]:
    return {**arguments, "options": {**arguments.get("options", {}), **options}}


@pytest.mark.parametrize("layout", [each for each in LAYOUTS if each.kind == "mor"], ids=str)
def test_a_pending_compaction_finds_its_files(tmp_path: Path, layout: Layout) -> None:
    mine = made(tmp_path / "trips", layout)
    mine.bulk_insert(table(trip(number, 1) for number in range(9)))
    mine.upsert(table(trip(number, 2) for number in range(9)))
    assert mine.schedule("compaction") is not None
    for ts in range(3, 9):
        mine.upsert(table(trip(number, ts) for number in range(0, 9, 2)))
    before = rows(mine)
    assert mine.clean(options={COMMITS: "1"}) is None
    assert mine.clean(options={POLICY: "KEEP_LATEST_FILE_VERSIONS", VERSIONS: "1"}) is None
    assert len(mine.run_pending()) == 1
    assert_same(rows(mine), before, about="compacted after the cleans")
    assert mine.clean(options={COMMITS: "1"}) is not None
    assert_same(rows(mine), before, about="cleaned after the compaction")
    assert mine.check().ok


def test_a_savepoint_keeps_its_files(golden_folder: Path, tmp_path: Path) -> None:
    path = Path(shutil.copytree(Golden("mor_v9_savepoint_restore_rollback").unpack(golden_folder), tmp_path / "trips"))
    mine = pudi.Table(path, options=FEW)
    files = data_files(path)
    meta = MetaClient.open(str(path), None, {})
    [savepoint] = meta.store.load().of(Action.SAVEPOINT)
    named = meta.store.decoded(savepoint)["partitionMetadata"]
    names = {name for each in named.values() for name in each["savepointDataFile"]}
    frame = mine.scan().to_arrow()
    data = frame.select([name for name in frame.column_names if not name.startswith("_hoodie")])
    for _ in range(3):
        mine.upsert(data)
        mine.compact()
    assert mine.clean(options={COMMITS: "1"}) is not None
    left = data_files(path)
    assert names <= {name.rpartition("/")[2] for name in left}
    assert {name for name in files if name.rpartition("/")[2] in names} <= left
    assert last_clean(mine)["extraMetadata"]["savepointed_timestamps"] == savepoint.requested


def test_a_write_cleans_if_asked_to(tmp_path: Path) -> None:
    options = {"hoodie.clean.automatic": "true", COMMITS: "2", "hoodie.clean.trigger.max.commits": "2"}
    mine = made(tmp_path / "trips", LAYOUTS[-2], **options)
    for ts in range(1, 8):
        assert mine.upsert(table([trip(0, ts)])).failed_services == {}
    cleans = mine.timeline.of(Action.CLEAN)
    assert 1 < len(cleans) < 5, "every second commit"
    assert len([name for name in data_files(tmp_path / "trips") if name.endswith(".parquet")]) <= 4
    assert mine.check().ok


def test_a_dead_clean_is_run_by_the_next(tmp_path: Path) -> None:
    mine = made(tmp_path / "trips", LAYOUTS[-2])
    for ts in range(1, 6):
        mine.upsert(table([trip(0, ts)]))
    instant = mine.schedule("clean", options={COMMITS: "1"})
    assert instant is not None
    assert mine.schedule("clean", options={COMMITS: "1"}) is None, "one is pending"
    meta = MetaClient.open(mine.path, None, {})
    meta.store.start(meta.store.load().find(instant, Action.CLEAN))  # type: ignore[arg-type]
    first = next(file for file in sorted((tmp_path / "trips").glob("*/*.parquet"), key=lambda f: f.stat().st_mtime_ns))
    first.unlink()  # the dead run got that far
    before = rows(mine)
    eager = {"hoodie.clean.failed.writes.policy": "EAGER"}
    [done] = mine.run_pending(options=eager)
    assert done.instant == instant
    assert_same(rows(mine), before, about="the newest slice")
    assert mine.timeline.pending == ()
    assert mine.check().ok


@pytest.mark.parametrize("name", ["../../outside.parquet", "hoodie.properties", ".hoodie_partition_metadata"])
def test_a_plan_that_names_other_files_deletes_nothing(tmp_path: Path, name: str) -> None:
    mine = made(tmp_path / "trips", LAYOUTS[-2])
    mine.upsert(table([trip(0, 1)]))
    before = {file for file in tmp_path.rglob("*") if file.is_file()}
    meta = MetaClient.open(mine.path, None, {})
    plan = CleanPlan(None, "", {"nyc": (f"{tmp_path}/{name}",)})
    meta.store.request(Action.CLEAN, encode_clean_plan(plan))
    with pytest.raises(pudi.CorruptError, match="no data file"):
        mine.run_pending()
    assert before <= {file for file in tmp_path.rglob("*") if file.is_file()}
    assert mine.timeline.of(Action.CLEAN, State.REQUESTED), "the plan is there for whoever looks into it"


@pytest.mark.parametrize("partition", ["../outside", "/outside", ".hoodie/metadata/files", "rome//", "./rome", "."])
def test_a_plan_that_names_other_folders_deletes_nothing(tmp_path: Path, partition: str) -> None:
    mine = made(tmp_path / "trips", LAYOUTS[-2])
    for ts in range(1, 5):
        mine.upsert(table([trip(0, ts)]))
    (tmp_path / "outside").mkdir()
    old = min((tmp_path / "trips").glob("*/*.parquet"), key=lambda file: file.stat().st_mtime_ns)
    shutil.copy(old, tmp_path / "outside")
    inside = (tmp_path / "trips" / ".hoodie" / "metadata" / "files").glob("*-0_0*")
    names = [old.name, *(file.name for file in inside)]
    before = {file for file in tmp_path.rglob("*") if file.is_file()}
    plan = CleanPlan(None, "", {old.parent.name: (str(old),), partition: tuple(names)})
    MetaClient.open(mine.path, None, {}).store.request(Action.CLEAN, encode_clean_plan(plan))
    with pytest.raises(pudi.CorruptError, match="no partition of the table; nothing was deleted"):
        mine.run_pending()
    assert before <= {file for file in tmp_path.rglob("*") if file.is_file()}


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_plan_that_names_the_newest_slice_deletes_nothing(tmp_path: Path, layout: Layout) -> None:
    mine = made(tmp_path / "trips", layout)
    for ts in range(1, 4):
        mine.upsert(table([trip(0, ts)]))
    [newest] = mine.file_slices()
    assert newest.base is not None
    plan = CleanPlan(None, "", {newest.partition: (f"{mine.path}/{newest.base.path}",)})
    MetaClient.open(mine.path, None, {}).store.request(Action.CLEAN, encode_clean_plan(plan))
    before, state = data_files(tmp_path / "trips"), rows(mine)
    with pytest.raises(pudi.CorruptError, match="newest slice of its file group needs; nothing was deleted"):
        mine.run_pending()
    assert data_files(tmp_path / "trips") == before
    assert_same(rows(mine), state)


def test_a_savepoint_made_after_the_plan_keeps_its_files(tmp_path: Path) -> None:
    mine = made(tmp_path / "trips", LAYOUTS[-2])
    for ts in range(1, 5):
        mine.upsert(table([trip(0, ts)]))
    first = mine.timeline.commits[0].requested
    mine.schedule("clean", options={COMMITS: "1"})
    before = data_files(tmp_path / "trips")
    kept = {file.rpartition("/")[2] for file in before if file.endswith(f"_{first}.parquet")}
    assert kept
    save(mine, first, {trip(0, 0)["city"]: sorted(kept)})
    with pytest.raises(pudi.CorruptError, match=f"savepoint {first} needs; nothing was deleted"):
        mine.run_pending()
    assert data_files(tmp_path / "trips") == before


def test_the_shell_cleans(tmp_path: Path) -> None:
    mine = made(tmp_path / "trips", LAYOUTS[-2])
    for ts in range(1, 6):
        mine.upsert(table([trip(0, ts)]))
    shell = CliRunner()
    done = shell.invoke(app, ["clean", str(tmp_path / "trips"), "--retain", "2"])
    assert done.exit_code == 0, done.output
    assert ": 2 files deleted; " in done.output
    again = shell.invoke(app, ["clean", str(tmp_path / "trips"), "--retain", "2"])
    assert "nothing to clean" in again.output
    counted = ["clean", str(tmp_path / "trips"), "--policy", "KEEP_LATEST_FILE_VERSIONS", "--retain", "1"]
    assert "2 files deleted" in shell.invoke(app, counted).output


@pytest.mark.parametrize("policy", ["KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"])
def test_a_retained_state_of_a_group_that_was_cleaned_before_it_was_replaced(tmp_path: Path, policy: str) -> None:
    mine = made(tmp_path / "trips", Layout(version=9, kind="cow"))
    for ts in range(4):
        mine.upsert(table(trip(number, ts) for number in range(3)))
    options = {POLICY: policy, COMMITS: "1", VERSIONS: "1"}
    assert mine.clean(options=options) is not None
    before = rows(mine)
    newest = mine.timeline.commits[-1].requested
    mine.insert_overwrite(table(trip(number, 9) for number in range(3)))
    assert rows(mine, as_of=newest) == before
    if policy == "KEEP_LATEST_FILE_VERSIONS":
        assert mine.clean(options=options) is not None
        with pytest.raises(pudi.NotFoundError, match="kept some slices"):
            rows(mine, as_of=newest)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_a_clean_of_another_policy_hides_no_earlier_one(tmp_path: Path, layout: Layout) -> None:
    """Each clean is asked what it retained: the last one counts slices, the one before deleted a replaced group."""
    mine = made(tmp_path / "trips", layout)
    mine.insert(table([trip(0, 1), trip(3, 1)]))
    (first,) = (each.requested for each in mine.timeline.commits)
    mine.insert_overwrite(table([trip(6, 2)]))
    mine.upsert(table([trip(1, 2)]))
    assert mine.clean(options={COMMITS: "1"})
    for ts in (3, 4):
        mine.upsert(table([trip(1, ts)]))
    mine.compact() if layout.kind == "mor" else None
    assert mine.clean(options={VERSIONS: "1"})
    kept = mine.timeline.commits[2].requested
    with pytest.raises(pudi.NotFoundError, match=f"the earliest commit that cleans kept is {kept}"):
        rows(mine, as_of=first)
    for refused in (mine.savepoint, mine.restore):
        with pytest.raises(pudi.NotFoundError, match=f"retained the commits from {kept} on"):
            refused(first)


@pytest.mark.parametrize("policy", ["commits", "versions"])
def test_states_of_which_a_dead_clean_deleted_a_part(tmp_path: Path, policy: str) -> None:
    """Whatever it had deleted, each state reads as it was, or not at all."""
    mine = made(tmp_path / "trips", Layout())
    for ts in range(1, 4):
        mine.insert_overwrite(table([trip(number, ts) for number in range(3)]))
    before = states(mine)
    newest = max(before)
    assert mine.schedule("clean", options={COMMITS: "1"} if policy == "commits" else {VERSIONS: "1"})
    source, refused = tmp_path / "trips", 0
    for number in range(1, 200):
        path = Path(shutil.copytree(source, tmp_path / str(number)))
        storage = FaultStorage(open_storage(str(path)), fail_at=number, mode="crash")
        try:
            pudi.Table.of(MetaClient.open(str(path), None, FEW, Context(), storage), FEW).run_pending()
        except SimulatedCrash:
            pass
        else:
            break
        for instant, expected in before.items():
            try:
                found = rows(pudi.Table(path), as_of=instant)
            except pudi.NotFoundError as error:
                assert instant != newest
                assert "kept" in str(error)
                refused += 1
            else:
                assert found == expected, f"as of {instant} after {number} calls"
        shutil.rmtree(path)
    assert refused
    assert number > 5
