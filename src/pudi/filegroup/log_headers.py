"""Whether the headers of a log block are those that a block of its kind has.

Headers have no checksum: a flipped bit in a header's key makes another header of it, and the block says something else.
"""

from __future__ import annotations

import re

from pudi.format import is_instant_time
from pudi.format.log_block import BlockKind, Header, LogBlock

_POSITIONS = re.compile(r"[A-Za-z0-9+/]{10,}={0,2}")
_IDENTIFIER = re.compile(r"\d{0,9}(,\d{0,9})*")

_OF_COMMANDS = (Header.TARGET_INSTANT_TIME, Header.COMMAND_BLOCK_TYPE)


def check_headers(block: LogBlock) -> None:
    """Refuse a block with headers that its writer can't have written.

    Raises:
        CorruptError: a header is there, lacking, or of a form, that blocks of the kind can't have.
    """
    headers = block.headers
    if block.kind is BlockKind.COMMAND:
        if any(key not in headers for key in _OF_COMMANDS):
            raise block.corrupt("doesn't say what the command is")
    elif any(key in headers for key in _OF_COMMANDS):
        raise block.corrupt("has a header that only commands have")
    if (block.kind.is_data or block.kind is BlockKind.CDC) and Header.SCHEMA not in headers:
        raise block.corrupt("has no schema")
    for key, text in headers.items():
        if not _is_credible(key, text):
            raise block.corrupt(f"has a header {key.name} that can't be one: {text[:40]!r}")


def _is_credible(key: Header, text: str) -> bool:
    """Whether a text can be a header's; where Hudi sets no form, any can."""
    if key in {Header.INSTANT_TIME, Header.TARGET_INSTANT_TIME}:
        return text.isascii() and text.isdigit()
    if key is Header.BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS:
        return is_instant_time(text)
    if key is Header.COMPACTED_BLOCK_TIMES:
        return all(each.isascii() and each.isdigit() for each in text.split(","))
    if key is Header.IS_PARTIAL:
        return text.lower() in {"true", "false"}
    if key is Header.SCHEMA:
        return text.lstrip()[:1] in {"{", '"', "["}
    if key is Header.RECORD_POSITIONS:
        return len(text) % 4 == 0 and _POSITIONS.fullmatch(text) is not None
    if key is Header.BLOCK_IDENTIFIER:
        return _IDENTIFIER.fullmatch(text) is not None
    return True
