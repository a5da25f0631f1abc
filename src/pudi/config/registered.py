"""The names by which functions and classes of the user's are registered; an option only looks them up."""

from __future__ import annotations

from pudi.errors import InvalidArgumentError


def checked_name(hook: str, name: str, function: object) -> str:
    """Return the name to register a function by.

    Args:
        hook: what it is registered as, for the message.
        name: the name in an option; an option separates several names by commas.
        function: the function.

    Raises:
        InvalidArgumentError: the name is empty, has a comma or is one of Hudi's classes, or `function` can't be called.
    """
    if not name.strip() or "," in name or name.startswith("org.apache.hudi."):
        raise InvalidArgumentError(f"{name!r} can't name a {hook}: take a name of your own, without commas")
    if not callable(function):
        raise InvalidArgumentError(f"{hook} {name!r} is no function, but {function!r:.100}")
    return name.strip()
