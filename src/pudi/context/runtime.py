"""Python's own runtime, adapted: modules load at first use, properties are cached without a lock, the collector pauses.

A module of pudi that most processes never need, or a library that takes long to load, is named twice where it is used:

    if TYPE_CHECKING:
        from pudi.engine import spark as spark_engine
    else:
        spark_engine = lazy_module("pudi.engine.spark")

This is the only way in which pudi defers an import. Type checkers, editors and the layer contract see an import like
any other. tests/architecture checks that the two agree, and which modules each way into pudi may load.
"""

from __future__ import annotations

import functools
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

T = TypeVar("T")


class CachedProperty(functools.cached_property[T]):
    """A `functools.cached_property` that holds no lock while it computes.

    Before Python 3.12 that one holds a lock of all objects of the class: a table that waits for storage, or for a Spark
    job, would make those of other threads wait too. Two threads that share an object may compute the value twice.
    """

    if not TYPE_CHECKING:

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            """Compute the value and keep it in the object, where it's found from then on."""
            if instance is None:
                return self
            value = instance.__dict__[self.attrname] = self.func(instance)
            return value


cached_property = CachedProperty


@contextmanager
def collector_paused() -> Iterator[None]:
    """Keep the garbage collector from running meanwhile: it would walk over all that is made, again and again.

    For work that creates many small objects without reference cycles, such as planning 100,000 files.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def lazy_module(name: str) -> Any:
    """Return a stand-in for a module, which imports it when an attribute is first asked for.

    Unlike with `importlib.util.LazyLoader`, several threads may ask at the same moment (its loading isn't safe before
    Python 3.12), and until then the module isn't in `sys.modules`.

    Args:
        name: the module's absolute name, a literal in pudi's own source; never a name from a table or an option.
    """
    return _LazyModule(name)


def load_export(package: str, sources: dict[str, str], name: str) -> Any:
    """Return a public name of a package from the module that defines it, and keep it in the package (PEP 562).

    Args:
        package: the package that owns the module-level `__getattr__`.
        sources: by public name, the module that defines it; a module itself is its own source.
        name: what was asked for.

    Raises:
        AttributeError: the package has no such name.
    """
    source = sources.get(name)
    if source is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    module = import_module(source)
    value = module if source == f"{package}.{name}" else getattr(module, name)
    setattr(sys.modules[package], name, value)
    return value


class _LazyModule(ModuleType):
    """Stands in for a module. Attributes are looked up each time, so that a patched module is seen patched."""

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self.__name__), attribute)

    def __dir__(self) -> list[str]:
        return dir(import_module(self.__name__))

    def __setattr__(self, attribute: str, value: object) -> None:
        setattr(import_module(self.__name__), attribute, value)

    def __delattr__(self, attribute: str) -> None:
        delattr(import_module(self.__name__), attribute)
