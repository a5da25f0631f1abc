"""The command `pudi`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command; its dependencies come with `pip install 'pudi[cli]'`."""
    try:
        from pudi.cli.app import app  # noqa: PLC0415 - optional
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in {"typer", "rich"}:
            raise
        sys.exit("the command pudi needs typer and rich: pip install 'pudi[cli]'")
    app()
