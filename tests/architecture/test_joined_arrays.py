"""Only `pudi.schema.arrays` joins chunks or takes rows of a table's data; elsewhere it's done with what stays small."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "pudi"
THE_PLACE = "schema/arrays.py"

JOINS = {"combine_chunks", "concat_arrays", "dictionary_decode", "sort_by"}
MAY_JOIN = {
    "metadata": "records of the metadata table: one of a file, column or key of one shard",
    "plan/skipping.py": "statistics of files",
    "schema/conversions.py": "values of one chunk, which pieces_of has cut",
    "task/check_files.py": "statistics of files",
    "task/expression_values.py": "the values of one row group",
    "task/portions.py": "rows of one portion",
    "testing": "versions that a test gives",
    "upgrade/upgrade_old.py": "partition paths of a sample of rows",
}

TAKES = {"take"}
MAY_TAKE = {
    "metadata": MAY_JOIN["metadata"],
    "context/executor.py": "a future's result",
    "engine/spark/buckets.py": "names of buckets",
    "engine/spark/lookups.py": "keys of one batch",
    "engine/spark/file_tasks.py": "RecordBuffer.take",
    "expr/arrow.py": "values of rows that portions has cut",
    "expr/table.py": "distinct values of an array",
    "format": "values of one block or page",
    "indexes": "records of the metadata table",
    "merge/overlay.py": "Versions.take",
    "merge/partial_update.py": "Versions.take",
    "merge/mergers.py": "some rows of one chunk, each once",
    "merge/winners.py": "Versions.take",
    "plan": "keys, and statistics of files",
    "record": "keys and partition paths",
    "tagging": "keys",
    "task/bulk.py": "numbers of rows",
    "task/cdc_log.py": "keys of one file",
    "task/check_files.py": MAY_JOIN["task/check_files.py"],
    "task/check_keys.py": "keys of one part of the check, and Versions.take",
    "task/compact_logs.py": "partition paths of the deletes in one file group",
    "task/import_files.py": "RecordBuffer.take",
    "task/key_search.py": "keys of one file",
    "task/index_entries.py": "record keys of one file",
    "task/append.py": "digits, and Versions.take",
    "task/staged_keys.py": "keys of one file, and locations of one shard's keys",
    "writes/concurrency_modes.py": "Claim.take",
    "writes/write.py": "WriteRecipe.take",
}


def calls(names: set[str]) -> Iterator[tuple[str, int]]:
    """Module and line of each call of an attribute with one of some names."""
    for path in sorted(SOURCE.rglob("*.py")):
        module = path.relative_to(SOURCE).as_posix()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names:
                yield module, node.lineno


def test_rows_are_joined_and_taken_in_one_place() -> None:
    for names, allowed in ((JOINS, MAY_JOIN), (TAKES, MAY_TAKE)):
        found = [(module, line) for module, line in calls(names) if module != THE_PLACE]
        known = {module: {module, module.split("/")[0]} & allowed.keys() for module, _ in found}
        strange = [f"{module}:{line}" for module, line in found if not known[module]]
        assert not strange, f"use the functions of {THE_PLACE} for rows of a table, or say here why they're few"
        assert set().union(*known.values()) == allowed.keys(), "places that are no more"
