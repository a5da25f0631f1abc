"""The options of clustering, with Hudi's keys and defaults (HoodieClusteringConfig of 1.2)."""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING

from pudi.config.option import Declare, OptionsView, Scope, Status, check_regex, names_in
from pudi.errors import InvalidArgumentError, NotSupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

    from pudi.config.option import Options


class LayoutStrategy(str, Enum):
    """The order of records within a group (LayoutOptimizationStrategy)."""

    LINEAR = "LINEAR"
    ZORDER = "ZORDER"
    HILBERT = "HILBERT"


class PartitionFilter(str, Enum):
    """Rule by which a plan chooses partitions (ClusteringPlanPartitionFilterMode)."""

    NONE = "NONE"
    RECENT_DAYS = "RECENT_DAYS"
    SELECTED_PARTITIONS = "SELECTED_PARTITIONS"
    DAY_ROLLING = "DAY_ROLLING"


_MIB = 1 << 20
_BUCKET_PLAN = "SparkConsistentBucketClusteringPlanStrategy"
_PLANS = {
    "SparkSizeBasedClusteringPlanStrategy": None,
    "JavaSizeBasedClusteringPlanStrategy": None,
    "SparkRecentDaysClusteringPlanStrategy": PartitionFilter.RECENT_DAYS,
    "SparkSelectedPartitionsClusteringPlanStrategy": PartitionFilter.SELECTED_PARTITIONS,
    _BUCKET_PLAN: None,
}
"""Hudi's plan strategies, without package, that pudi knows; the older ones stand for a partition filter."""
_WRITTEN_TWICE = "org.apache.hudi.client.clustering.update.strategy.SparkConsistentBucketDuplicateUpdateStrategy"
_REJECT = "org.apache.hudi.client.clustering.update.strategy.SparkRejectUpdateStrategy"
ALLOW_UPDATES = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
"""The update strategy by which clusterings yield to writes."""

_RUN = "org.apache.hudi.client.clustering.run.strategy."
_BUCKET_EXECUTIONS = (
    f"{_RUN}SingleSparkJobConsistentHashingExecutionStrategy",
    f"{_RUN}SparkConsistentBucketClusteringExecutionStrategy",
)
"""Hudi's classes that split and merge the buckets of consistent hashing; the first is the default."""

_SLICE_ORDERS = frozenset({"SIZE", "INSTANT_TIME"})
_option = Declare(Scope.WRITE)
_harmless = Declare(Scope.WRITE, Status.HARMLESS)


class ClusteringOptions(OptionsView):
    """Options of clustering: the files to cluster, the order of records, and the schedule."""

    __slots__ = ()

    inline = _option(
        "hoodie.clustering.inline",
        "Whether a clustering runs after a write, if enough commits completed since the last one.",
        default=False,
        job_keys=("hoodie.datasource.clustering.inline.enable",),
    )
    schedule_inline = _option(
        "hoodie.clustering.schedule.inline",
        "Whether a write schedules a clustering for another process to run, if enough commits completed since the last "
        "one and none is pending.",
        default=False,
    )
    run_async = _option(
        "hoodie.clustering.async.enabled",
        "Whether a write schedules a clustering, if enough commits completed since the last one, and a thread of the "
        "writer's process runs it beside the following writes. hoodie.clustering.inline goes before it.",
        default=False,
        job_keys=("hoodie.datasource.clustering.async.enable", "clustering.async.enabled"),
    )
    max_commits = _option(
        "hoodie.clustering.inline.max.commits",
        "Number of commits after which a clustering runs after a write.",
        default=4,
        minimum=1,
    )
    schedule_commits = _option(
        "hoodie.clustering.async.max.commits",
        "Number of commits after which a write schedules a clustering.",
        default=4,
        minimum=1,
    )
    sort_columns = _option(
        "hoodie.clustering.plan.strategy.sort.columns",
        "Columns to order records by, separated by commas; without any, files are only brought to size.",
        job_keys=("clustering.plan.strategy.sort.columns",),
    )
    layout = _option(
        "hoodie.layout.optimize.strategy",
        "The order of records: by the columns one after the other, or along a curve through the space of all of them. "
        "Plans made by pudi state it; Hudi takes it from the options of whoever runs a plan.",
        default=LayoutStrategy.LINEAR.value,
        choices=tuple(each.value for each in LayoutStrategy),
    )
    max_group_bytes = _option(
        "hoodie.clustering.plan.strategy.max.bytes.per.group",
        "Maximum bytes of base files in a group of a plan. Groups are done by themselves, in parallel.",
        default=2 << 30,
        minimum=1,
    )
    max_groups = _option(
        "hoodie.clustering.plan.strategy.max.num.groups",
        "Maximum number of groups of a plan. The next plan takes other files.",
        default=30,
        minimum=1,
        job_keys=("clustering.plan.strategy.max.num.groups",),
    )
    target_bytes = _option(
        "hoodie.clustering.plan.strategy.target.file.max.bytes",
        "Bytes of base files that become one file: the size of new files, if they compress as before.",
        default=1 << 30,
        minimum=1,
        job_keys=("clustering.plan.strategy.target.file.max.bytes",),
    )
    small_limit = _option(
        "hoodie.clustering.plan.strategy.small.file.limit",
        "Base files of this many bytes or more are left alone.",
        default=300 * _MIB,
        minimum=0,
    )
    single_group = _option(
        "hoodie.clustering.plan.strategy.single.group.clustering.enabled",
        "Whether a group of one file slice that becomes one file is done too, to merge its log files. With columns to "
        "order by it always is. A base file that would stay as it is is rewritten only if this is set, as in "
        "`CALL run_clustering`, and once.",
        default=True,
    )
    slices_by = _option(
        "hoodie.clustering.plan.strategy.file.slices.sort.by",
        "By what file slices are put into groups: larger ones first (SIZE), earlier ones first (INSTANT_TIME), or by "
        "one after the other (INSTANT_TIME,SIZE).",
        default="SIZE",
    )
    filter_mode = _option(
        "hoodie.clustering.plan.partition.filter.mode",
        "Which partitions a plan looks at: all, the last by name, a range of names, or, hour by hour, another 24th.",
        default=PartitionFilter.NONE.value,
        choices=tuple(each.value for each in PartitionFilter),
        job_keys=("clustering.plan.partition.filter.mode",),
    )
    plan_class = _option(
        "hoodie.clustering.plan.strategy.class",
        "The class by which Hudi makes plans. pudi only looks the name up in a list. Tables with consistent hashing "
        "have a class of their own, which splits and merges buckets, as default.",
        default="org.apache.hudi.client.clustering.plan.strategy.SparkSizeBasedClusteringPlanStrategy",
        job_keys=("clustering.plan.strategy.class",),
    )
    execution_class = _option(
        "hoodie.clustering.execution.strategy.class",
        "The class by which Hudi runs the plans that pudi makes. pudi itself runs plans for all of these. It copies "
        "row groups as bytes wherever records needn't be ordered, merged or divided. The last two are for tables with "
        "consistent hashing, whose default is the first of them.",
        default=f"{_RUN}SparkSortAndSizeExecutionStrategy",
        choices=(
            f"{_RUN}SparkSortAndSizeExecutionStrategy",
            f"{_RUN}JavaSortAndSizeExecutionStrategy",
            f"{_RUN}SparkBinaryCopyClusteringExecutionStrategy",
            *_BUCKET_EXECUTIONS,
        ),
        unsupported=(f"{_RUN}SparkSingleFileSortExecutionStrategy",),
    )
    recent = _option(
        "hoodie.clustering.plan.strategy.daybased.lookback.partitions",
        "Number of partitions that RECENT_DAYS takes.",
        default=2,
        minimum=0,
        job_keys=("clustering.plan.strategy.daybased.lookback.partitions",),
    )
    skip_recent = _option(
        "hoodie.clustering.plan.strategy.daybased.skipfromlatest.partitions",
        "Number of partitions that RECENT_DAYS leaves out, counted from the last one.",
        default=0,
        minimum=0,
        job_keys=("clustering.plan.strategy.daybased.skipfromlatest.partitions",),
    )
    first_partition = _option(
        "hoodie.clustering.plan.strategy.cluster.begin.partition",
        "First partition of SELECTED_PARTITIONS.",
        job_keys=("clustering.plan.strategy.cluster.begin.partition",),
    )
    last_partition = _option(
        "hoodie.clustering.plan.strategy.cluster.end.partition",
        "Last partition of SELECTED_PARTITIONS.",
        job_keys=("clustering.plan.strategy.cluster.end.partition",),
    )
    regex = _option(
        "hoodie.clustering.plan.strategy.partition.regex.pattern",
        "Regular expression that the partition path must match as a whole.",
        job_keys=("clustering.plan.strategy.partition.regex.pattern",),
    )
    selected = _option(
        "hoodie.clustering.plan.strategy.partition.selected",
        "Partition paths to look at, separated by commas.",
        job_keys=("clustering.plan.strategy.partition.selected",),
    )
    updates = _option(
        "hoodie.clustering.updates.strategy",
        "What happens to a write that updates a file group of a pending plan: it fails, or it goes on, and the plan "
        "yields. Such a plan is dropped when the write completes; a clustering that runs finds the write when it "
        "completes, and nothing of it becomes visible.",
        default=_REJECT,
        choices=(_REJECT, ALLOW_UPDATES),
        unsupported=(_WRITTEN_TWICE,),
        instead=f"writes to buckets that a pending clustering resizes fail, or make it yield: {ALLOW_UPDATES}",
    )
    rollback_on_conflict = _option(
        "hoodie.clustering.rollback.pending.replacecommit.on.conflict",
        "With SparkAllowUpdateStrategy: whether a write rolls back the pending plans that yield to it, by a rollback "
        "instant; otherwise it takes them off the timeline without one.",
        default=False,
    )
    expires = _option(
        "hoodie.clustering.enable.expirations",
        "Whether a write first rolls back pending plans that nobody runs and that are old enough.",
        default=False,
    )
    expires_after = _option(
        "hoodie.clustering.expiration.threshold.mins",
        "Minutes after which a pending plan that nobody runs is rolled back, if plans expire.",
        default=60,
        minimum=0,
    )

    parallelism = _harmless(
        "hoodie.clustering.max.parallelism",
        "Number of groups that Hudi's driver submits in parallel; pudi's engines run as many as there is room for.",
        default=15,
    )
    read_parallelism = _harmless(
        "hoodie.clustering.group.read.parallelism",
        "Number of Spark tasks that read a group; pudi reads and writes a group in one task.",
        default=20,
    )
    local_planning = _harmless(
        "hoodie.clustering.plan.generation.use.local.engine.context",
        "Where a clustering is planned; pudi always plans in the process that asks for it.",
        default=False,
    )
    preserve = _harmless(
        "hoodie.clustering.preserve.commit.metadata",
        "Option of old releases: whether rows keep their commit times. They always do.",
        default=True,
    )
    copies_evolved = _harmless(
        "hoodie.clustering.plan.strategy.binary.copy.schema.evolution.enable",
        "Whether Hudi copies files of different schemas as bytes; pudi copies what it can, and rewrites the rest.",
        default=False,
    )
    waits_for_ingestion = Declare(Scope.WRITE, Status.UNSUPPORTED)(
        "hoodie.clustering.fail.on.pending.ingestion.during.conflict.resolution",
        "Whether a clustering fails while a write with a heartbeat is requested but not yet inflight.",
        default=False,
        instead="leave it out: a write that begins while a clustering runs makes it yield, or fails by itself, as "
        "hoodie.clustering.updates.strategy says",
    )

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns to order by."""
        return names_in(self.sort_columns)

    @property
    def slice_order(self) -> tuple[str, ...]:
        """Return the order of file slices in groups: SIZE, INSTANT_TIME or both, the first one first."""
        return tuple(each.upper() for each in names_in(self.slices_by))

    @property
    def partition_filter(self) -> PartitionFilter:
        """Return the rule by which a plan chooses partitions; older plan strategies of Hudi have it in their name."""
        name = self.plan_class.rpartition(".")[2]
        return _PLANS[name] or PartitionFilter(self.filter_mode)

    @classmethod
    def of_partitions(cls, paths: Iterable[str]) -> dict[str, str]:
        """Return options that choose exactly some partitions; Hudi's list has no place for commas and blanks."""
        exact = "|".join(re.escape(path.strip("/")) for path in paths)
        return {cls.selected.key: "", cls.regex.key: f"(?:{exact})"}

    @classmethod
    def bucket_execution(cls, options: Options) -> str:
        """Return Hudi's class that runs plans for consistent hashing.

        Raises:
            InvalidArgumentError: the options name strategies that don't split and merge buckets, as in Hudi.
        """
        plan, execution = options.explicit(cls.plan_class), options.explicit(cls.execution_class)
        if plan is not None and str(plan).rpartition(".")[2] != _BUCKET_PLAN:
            raise InvalidArgumentError(
                f"{cls.plan_class}={plan}: a table with consistent hashing takes {_BUCKET_PLAN} only, its default"
            )
        if execution is not None and execution not in _BUCKET_EXECUTIONS:
            raise InvalidArgumentError(
                f"{cls.execution_class}={execution}: a table with consistent hashing takes "
                f"{' or '.join(_BUCKET_EXECUTIONS)}; the first is its default"
            )
        return _BUCKET_EXECUTIONS[0] if execution is None else str(execution)

    @property
    def names_buckets(self) -> bool:
        """Return whether a strategy was chosen that is for consistent hashing only."""
        return self.plan_class.rpartition(".")[2] == _BUCKET_PLAN or self.execution_class in _BUCKET_EXECUTIONS

    @classmethod
    def of(cls, options: Options) -> Self:
        """The view of resolved options.

        Raises:
            InvalidArgumentError: the regular expression is none, or two options exclude each other.
            NotSupportedError: a plan strategy that pudi doesn't know.
        """
        view = super().of(options)
        if view.plan_class.rpartition(".")[2] not in _PLANS:
            raise NotSupportedError(
                f"{ClusteringOptions.plan_class}={view.plan_class}: a class is never loaded by name; use one of "
                f"{', '.join(_PLANS)}"
            )
        if view.inline and view.schedule_inline:
            raise InvalidArgumentError(
                f"{ClusteringOptions.inline} and {ClusteringOptions.schedule_inline} exclude each other"
            )
        if not view.slice_order or set(view.slice_order) - _SLICE_ORDERS:
            known = ", ".join(sorted(_SLICE_ORDERS))
            raise InvalidArgumentError(f"{cls.slices_by}={view.slices_by!r}: name some of {known}, separated by commas")
        check_regex(cls.regex, view.regex or "")
        return view
