"""Say what to do about a pending plan that can't be read: plans never change, so only their loss or damage is left."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from pudi.errors import CorruptError

_P = ParamSpec("_P")
_T = TypeVar("_T")

PLANNED_ANEW = "delete the files of the instant: the next {0} makes another plan"
ROLLED_BACK = "roll it back (Table.rollback): no record is in it alone"
BUILT_ANEW = "delete the files of the instant, and create the index again: the build starts over"
BUILT_ON = (
    "roll it back (Table.rollback), then the next compaction makes another plan; that is refused below version 8 where "
    "log files build on the plan: then put it back from a copy"
)


def advising(advice: str) -> Callable[[Callable[_P, _T]], Callable[_P, _T]]:
    """Return a decorator of a plan's decoder that adds advice to its errors.

    Args:
        advice: what to do about a plan that can't be read.
    """

    def decorate(decode: Callable[_P, _T]) -> Callable[_P, _T]:
        @wraps(decode)
        def decoded(*args: _P.args, **kwargs: _P.kwargs) -> _T:
            try:
                return decode(*args, **kwargs)
            except CorruptError as error:
                error.message = f"{error.message}; {advice}"
                raise

        return decoded

    return decorate
