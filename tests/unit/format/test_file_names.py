from __future__ import annotations

import pytest
from golden_files import base_files, table_files, timeline_files
from hypothesis import given
from hypothesis import strategies as st

from pudi.errors import CorruptError, InvalidArgumentError, NotSupportedError
from pudi.format import (
    Action,
    BaseFileName,
    InstantFile,
    IOType,
    LogFileName,
    MarkerName,
    State,
    heartbeat_path,
    marker_path,
    new_file_id,
    parse_base_file,
    parse_data_file,
    parse_instant_file,
    parse_log_file,
    parse_marker,
    partition_metadata_path,
    write_token,
)

T, C = "20261121075942805", "20261121075945780"
REQUESTED, INFLIGHT, COMPLETED = State.REQUESTED, State.INFLIGHT, State.COMPLETED

digits = st.text("0123456789", min_size=1, max_size=20)
dates = st.datetimes().map(lambda moment: f"{moment:%Y}".zfill(4) + f"{moment:%m%d%H%M%S}")
times = dates | st.builds("{}{:03}".format, dates, st.integers(0, 999)) | st.integers(0, 10**10).map("{:017}".format)
file_ids = st.from_regex(r"[a-zA-Z0-9-]{1,40}", fullmatch=True)
tokens = st.builds(write_token, *[st.integers(0, 10**12)] * 3)
folders = st.text(min_size=1, max_size=10).filter(lambda text: "/" not in text and text not in {".", ".."})


@st.composite
def instants(draw: st.DrawFn, layout: int) -> InstantFile:
    state = draw(st.sampled_from(State))
    actions = list(Action)
    if state is REQUESTED:
        actions.remove(Action.SAVEPOINT)
    if state is COMPLETED:
        actions = [action for action in actions if action is action.comparable]
    elif layout == 1:
        actions.remove(Action.CLUSTERING)
    completion = draw(st.none() | times) if state is COMPLETED and layout == 2 else None
    return InstantFile(draw(times), draw(st.sampled_from(actions)), state, completion)


@given(instants(layout=2))
def test_instant_names_of_layout_2_come_back(instant: InstantFile) -> None:
    assert parse_instant_file(instant.file_name(2), 2) == instant


@given(instants(layout=1))
def test_instant_names_of_layout_1_come_back(instant: InstantFile) -> None:
    assert parse_instant_file(instant.file_name(1), 1) == instant


@given(st.builds(BaseFileName, file_ids, tokens, digits, st.sampled_from(["parquet", "orc", "hfile"])))
def test_base_file_names_come_back(name: BaseFileName) -> None:
    assert parse_base_file(name.name) == parse_data_file(name.name) == name


@st.composite
def log_names(draw: st.DrawFn) -> LogFileName:
    token = draw(st.none() | tokens)
    cdc = token is not None and draw(st.booleans())
    extension = draw(st.sampled_from(["log", "archive"]))
    instant = draw(digits) if extension == "log" else ""
    return LogFileName(draw(file_ids), instant, draw(st.integers(0, 2**31 - 1)), token, extension, cdc)


@given(log_names())
def test_log_file_names_come_back(name: LogFileName) -> None:
    assert parse_log_file(name.name) == parse_data_file(name.name) == name


@given(st.lists(folders, max_size=3).map("/".join), folders, st.sampled_from(IOType))
def test_marker_names_come_back(partition: str, file_name: str, io_type: IOType) -> None:
    marker = MarkerName(partition, file_name, io_type)
    assert parse_marker(marker.path) == marker


@given(st.text(max_size=60))
def test_any_text_is_parsed_or_ignored(name: str) -> None:
    for parse in (parse_base_file, parse_log_file):
        parsed = parse(name)
        assert parsed is None or parsed.name == name


@given(
    st.text("0123456789", max_size=20) | st.text(max_size=9), st.sampled_from([".commit", ".inflight", "_1.clean", ""])
)
def test_any_text_is_parsed_ignored_or_refused_by_name(time: str, suffix: str) -> None:
    name = f"{time}{suffix}"
    try:
        parsed = parse_instant_file(name)
    except CorruptError as error:
        assert error.path == name
    else:
        assert parsed is None or parsed.file_name() == name


@pytest.mark.parametrize(
    "time",
    [
        "99999999999999999",
        "20261321000000000",
        "20260229000000000",
        "20260431000000",
        "20261121240000000",
        "1",
        "202611",
    ],
)
def test_a_time_that_is_no_date_is_refused_with_the_files_name(time: str) -> None:
    for name in (f"{time}.commit.requested", f"{T}_{time}.commit"):
        with pytest.raises(CorruptError, match=time) as raised:
            parse_instant_file(name)
        assert raised.value.path == name


@pytest.mark.parametrize(
    "time", ["20240229235959999", "20261231000000", "20260430000000000", "00000000000001", f"{T}001"]
)
def test_dates_and_reserved_times_are_times(time: str) -> None:
    parsed = parse_instant_file(f"{time}.commit")
    assert parsed is not None
    assert parsed.requested == time


def test_every_timeline_file_of_hudi_is_an_instant_and_prints_as_it_stood() -> None:
    names = [path.rpartition("/")[2] for path in timeline_files()]
    assert len(names) > 250
    parsed = [parse_instant_file(name) for name in names]
    assert [None if instant is None else instant.file_name() for instant in parsed] == names
    actions = {instant.action for instant in parsed if instant is not None}
    assert actions == set(Action) - {Action.SCHEMACOMMIT}


def test_every_base_file_of_hudi_prints_as_it_stood() -> None:
    names = [path.rpartition("/")[2] for path in base_files()]
    assert len(names) > 80
    assert [getattr(parse_data_file(name), "name", None) for name in names] == names


def test_every_log_file_of_hudi_prints_as_it_stood() -> None:
    names = [path.rpartition("/")[2] for path in table_files() if ".log." in path]
    assert any(name.endswith(".cdc") for name in names)
    assert [getattr(parse_data_file(name), "name", None) for name in names] == names


@pytest.mark.parametrize(
    ("name", "layout", "expected"),
    [
        (f"{T}.commit.requested", 2, InstantFile(T, Action.COMMIT, REQUESTED)),
        (f"{T}.inflight", 2, InstantFile(T, Action.COMMIT, INFLIGHT)),
        (f"{T}.inflight", 1, InstantFile(T, Action.COMMIT, INFLIGHT)),
        (f"{T}_{C}.commit", 2, InstantFile(T, Action.COMMIT, COMPLETED, C)),
        (f"{T}.commit", 2, InstantFile(T, Action.COMMIT, COMPLETED)),
        (f"{T}.commit", 1, InstantFile(T, Action.COMMIT, COMPLETED)),
        (f"{T}.deltacommit.inflight", 2, InstantFile(T, Action.DELTACOMMIT, INFLIGHT)),
        (f"{T}.compaction.requested", 1, InstantFile(T, Action.COMPACTION, REQUESTED)),
        (f"{T}.clustering.inflight", 2, InstantFile(T, Action.CLUSTERING, INFLIGHT)),
        (f"{T}.replacecommit.requested", 1, InstantFile(T, Action.REPLACECOMMIT, REQUESTED)),
        (f"{T}_{C}.savepoint", 2, InstantFile(T, Action.SAVEPOINT, COMPLETED, C)),
        (f"{T}_{C}.schemacommit", 2, InstantFile(T, Action.SCHEMACOMMIT, COMPLETED, C)),
        ("00000000000000000.deltacommit.requested", 2, InstantFile("0" * 17, Action.DELTACOMMIT, REQUESTED)),
    ],
)
def test_instant_names(name: str, layout: int, expected: InstantFile) -> None:
    assert parse_instant_file(name, layout) == expected
    assert expected.file_name(layout) == name


@pytest.mark.parametrize(
    "name",
    [
        f".{T}.commit.crc",
        f"{T}.commit.crc",
        f"{T}_{C}.commit.7b0a5cf2",
        f"{T}.commit.tmp",
        f"{T}.commit.inflight",
        f"{T}.inflight.requested",
        f"{T}.savepoint.requested",
        f"{T}.compaction",
        f"{T}_{C}.clustering",
        f"{T}_{C}.commit.requested",
        f"{T}_{C}.inflight",
        f"{T}.unknown",
        f"{T}",
        f"{T}.commit\n",
        "\u0661\u0662.commit",
        "history",
        "hoodie.properties",
        "",
    ],
)
def test_what_is_no_instant_is_ignored(name: str) -> None:
    assert parse_instant_file(name, 2) is None


@pytest.mark.parametrize("name", [f"{T}_{C}.commit", f"{T}.clustering.requested"])
def test_what_only_layout_2_has_is_ignored_in_layout_1(name: str) -> None:
    assert parse_instant_file(name, 1) is None


def test_an_unknown_layout_is_refused() -> None:
    with pytest.raises(NotSupportedError):
        parse_instant_file(f"{T}.commit", 3)  # type: ignore[arg-type]


def test_an_instant_goes_through_its_states() -> None:
    compaction = InstantFile(T, Action.COMPACTION, REQUESTED)
    assert compaction.inflight().file_name() == f"{T}.compaction.inflight"
    assert compaction.completed(C).file_name() == f"{T}_{C}.commit"
    assert InstantFile(T, Action.LOGCOMPACTION, INFLIGHT).completed(C).file_name() == f"{T}_{C}.deltacommit"
    assert InstantFile(T, Action.CLUSTERING, INFLIGHT).completed(C).file_name() == f"{T}_{C}.replacecommit"
    assert InstantFile(T, Action.COMPACTION, INFLIGHT).completed(None).file_name(1) == f"{T}.commit"


def test_instants_are_ordered_by_time_then_action_then_state() -> None:
    ordered = [
        InstantFile("1", Action.DELTACOMMIT, REQUESTED),
        InstantFile("2", Action.COMPACTION, REQUESTED),
        InstantFile("2", Action.COMPACTION, INFLIGHT),
        InstantFile("2", Action.COMMIT, COMPLETED, "9"),
        InstantFile("2", Action.DELTACOMMIT, REQUESTED),
    ]
    assert sorted((ordered[place] for place in (3, 0, 4, 2, 1)), key=lambda instant: instant.sort_key) == ordered


@pytest.mark.parametrize(
    ("action", "state", "completion"),
    [
        (Action.COMPACTION, COMPLETED, C),
        (Action.COMMIT, INFLIGHT, C),
        (Action.SAVEPOINT, REQUESTED, None),
        (Action.COMMIT, COMPLETED, "../x"),
    ],
)
def test_an_instant_that_can_not_be_is_refused(action: Action, state: State, completion: str | None) -> None:
    with pytest.raises(InvalidArgumentError):
        InstantFile(T, action, state, completion)


@pytest.mark.parametrize("version", [6, 9])
def test_log_names_of_both_grammars(version: int) -> None:
    token = "" if version == 6 else "_0-352-785"
    name = parse_log_file(f".4cd9ae45-33db-4ea2-b09e-af7ac1d923ec-1_{T}.log.2{token}")
    assert name == LogFileName("4cd9ae45-33db-4ea2-b09e-af7ac1d923ec-1", T, 2, token[1:] or None)


def test_log_files_are_ordered_by_instant_number_and_token_as_text() -> None:
    names = ["a_1.log.2_1-0-1", "a_1.log.10_1-0-1", "a_2.log.1_10-0-1", "a_2.log.1_9-0-1", "a_2.log.1_9-0-1.cdc"]
    parsed = [parse_log_file(f".{name}") for name in names]
    assert (
        sorted((parsed[place] for place in (4, 1, 3, 0, 2)), key=lambda name: name.sort_key if name else ()) == parsed
    )


@pytest.mark.parametrize(
    "name", ["part-0.parquet", "a_1-0-1_20261121.parquet.crc", ".hoodie_partition_metadata", "_SUCCESS"]
)
def test_what_is_no_data_file_is_ignored(name: str) -> None:
    assert parse_data_file(name) is None


def test_a_log_file_of_a_later_hudi_is_refused_not_ignored() -> None:
    with pytest.raises(NotSupportedError):
        parse_data_file(f"4cd9ae45-1_0-352-785_{T}_1.log.parquet")


def test_a_strangers_file_is_no_log_file_of_a_later_hudi() -> None:
    assert parse_data_file("sales_q1_2024_1.csv.gz") is None


def test_names_that_would_not_come_back_are_refused() -> None:
    with pytest.raises(InvalidArgumentError):
        BaseFileName("a_b", "0-0-0", T)
    with pytest.raises(InvalidArgumentError):
        LogFileName("a_b", T, 1, "0-0-0")
    with pytest.raises(InvalidArgumentError):
        LogFileName("a", T, 1, None, cdc=True)
    with pytest.raises(InvalidArgumentError):
        new_file_id("../x", 0)
    with pytest.raises(InvalidArgumentError):
        write_token(0, -1, 0)


def test_ids_and_paths() -> None:
    assert new_file_id("74074f81-c645-459a-89c7-f189d875a5e4", 2) == "74074f81-c645-459a-89c7-f189d875a5e4-2"
    assert write_token(0, 750, 1174) == "0-750-1174"
    assert (
        marker_path(T, "nyc", "f_0-1-2_3.parquet", IOType.MERGE)
        == f".hoodie/.temp/{T}/nyc/f_0-1-2_3.parquet.marker.MERGE"
    )
    assert marker_path(T, "", "f.parquet", IOType.CREATE) == f".hoodie/.temp/{T}/f.parquet.marker.CREATE"
    assert heartbeat_path(T) == f".hoodie/.heartbeat/{T}"
    assert partition_metadata_path("a/b") == "a/b/.hoodie_partition_metadata"
    assert partition_metadata_path("") == ".hoodie_partition_metadata"


@pytest.mark.parametrize("path", ["MARKERS.type", "MARKERS0", "nyc/f.parquet", "nyc/f.parquet.marker.DELETE"])
def test_what_is_no_marker_is_ignored(path: str) -> None:
    assert parse_marker(path) is None


@pytest.mark.parametrize("path", ["../f.parquet", "/etc/f.parquet", "nyc//f.parquet", "nyc/../../f.parquet", ""])
def test_a_marker_that_leaves_the_table_is_refused(path: str) -> None:
    with pytest.raises(CorruptError):
        parse_marker(f"{path}.marker.CREATE")


def test_a_partition_that_leaves_the_table_is_refused() -> None:
    with pytest.raises(InvalidArgumentError):
        marker_path(T, "../outside", "f.parquet", IOType.CREATE)
