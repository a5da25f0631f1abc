"""Elementwise conversions of Arrow arrays: values that a conversion refuses become NULL, the others are converted."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa

_MOST_TRIES = 1000
"""Maximum number of conversion calls; values that remain after it become NULL."""


def convert_where_possible(
    convert: Callable[[pa.Array], pa.Array], values: pa.Array, type_: pa.DataType | None
) -> pa.Array:
    """Convert the values of an array one by one in effect, but in few calls.

    An array with values that fail is halved until these are isolated.

    Args:
        convert: an elementwise conversion; it raises `pa.ArrowException` or `ValueError` if it refuses a value.
        values: what to convert.
        type_: the type of the results.

    Returns:
        The results, NULL where `convert` refused the value, or where too many others were refused to try it.
    """
    converted: list[pa.Array] = []
    waiting = [values]
    for _ in range(_MOST_TRIES):
        if not waiting:
            break
        part = waiting.pop()
        try:
            converted.append(convert(part))
        except pa.ArrowNotImplementedError:  # no value of this type can be converted
            return pa.nulls(len(values), type_)
        except (pa.ArrowException, ValueError):
            if len(part) <= 1:
                converted.append(pa.nulls(len(part), type_))
            else:
                half = len(part) // 2
                waiting += [part[half:], part[:half]]
    converted += [pa.nulls(len(part), type_) for part in reversed(waiting)]
    return converted[0] if len(converted) == 1 else pa.concat_arrays(converted)
