"""The options of partition TTL, with Hudi's keys and defaults (HoodieTTLConfig of 1.2)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from pudi.config.option import Declare, OptionsView, Scope, names_in
from pudi.errors import NotSupportedError

if TYPE_CHECKING:
    from typing_extensions import Self

    from pudi.config.option import Options


class TtlStrategy(str, Enum):
    """The time from which on the days of a partition count (PartitionTTLStrategyType)."""

    LAST_WRITE = "KEEP_BY_TIME"
    CREATION = "KEEP_BY_CREATION_TIME"


_CLASSES = {
    "org.apache.hudi.table.action.ttl.strategy.KeepByTimeStrategy": TtlStrategy.LAST_WRITE,
    "org.apache.hudi.table.action.ttl.strategy.KeepByCreationTimeStrategy": TtlStrategy.CREATION,
}
_option = Declare(Scope.WRITE)


class TtlOptions(OptionsView):
    """Options of partition TTL: the age at which partitions are deleted, and the schedule."""

    __slots__ = ()

    inline = _option(
        "hoodie.partition.ttl.inline",
        "Whether partitions whose days are over are deleted after a write.",
        default=False,
        job_keys=("hoodie.partition.ttl.automatic",),
    )
    days = _option(
        "hoodie.partition.ttl.strategy.days.retain",
        "Number of days after which a partition is deleted, with all its records; "
        "at 0 and below none ever is, and `run_ttl` is refused.",
        default=-1,
    )
    strategy = _option(
        "hoodie.partition.ttl.management.strategy.type",
        "Whether the days count from the last commit that wrote to the partition, or from the one that made it.",
        default=TtlStrategy.LAST_WRITE.value,
        choices=tuple(each.value for each in TtlStrategy),
        job_keys=("hoodie.partition.ttl.strategy.type",),
    )
    strategy_class = _option(
        "hoodie.partition.ttl.strategy.class",
        "The class by which Hudi chooses partitions, before the type. pudi only looks the name up in a list.",
    )
    selected = _option(
        "hoodie.partition.ttl.strategy.partition.selected",
        "Partition paths that may be deleted, separated by commas; all without it.",
    )
    most = _option(
        "hoodie.partition.ttl.strategy.max.delete.partitions",
        "Maximum number of partitions that one commit deletes, the oldest first.",
        default=1000,
        minimum=0,
    )

    @property
    def counts_from(self) -> TtlStrategy:
        """The time from which on the days count; a class has the last word, as in Hudi."""
        return _CLASSES[self.strategy_class] if self.strategy_class else TtlStrategy(self.strategy)

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partition paths that may be deleted; none for all."""
        return names_in(self.selected)

    @classmethod
    def of(cls, options: Options) -> Self:
        """The view of resolved options.

        Raises:
            NotSupportedError: a strategy class that pudi doesn't know.
        """
        view = super().of(options)
        if view.strategy_class and view.strategy_class not in _CLASSES:
            raise NotSupportedError(
                f"{cls.strategy_class}={view.strategy_class}: a class is never loaded by name; use one of "
                f"{', '.join(_CLASSES)}"
            )
        return view
