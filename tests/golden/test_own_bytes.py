"""What pudi writes stays what it is, byte for byte: a change of the code that changes a file must say so.

`python tests/golden/test_own_bytes.py` writes `own_bytes.json` anew; the commit that does so says why bytes change.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from support.own_bytes import SCRIPTS, digests

pytestmark = pytest.mark.metadata_by_default

KEPT = Path(__file__).with_name("own_bytes.json")


def kept() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(KEPT.read_text(encoding="utf-8"))
    return found


@pytest.mark.skipif(kept()["pyarrow"] != pa.__version__, reason=f"files were kept of pyarrow {kept()['pyarrow']}")
@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_makes_the_same_files_as_ever(tmp_path: Path, name: str) -> None:
    assert digests(tmp_path, name) == kept()["tables"][name]


def _main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tables = {name: digests(Path(folder) / str(number), name) for number, name in enumerate(SCRIPTS)}
    KEPT.write_text(json.dumps({"pyarrow": pa.__version__, "tables": tables}, indent=1) + "\n", encoding="utf-8")
    sys.stdout.write(f"{sum(map(len, tables.values()))} files of {len(tables)} tables\n")


if __name__ == "__main__":
    _main()
