"""The options of locks, and of the instant times that are made under them, with Hudi's keys and defaults.

Sources: LockConfiguration, HoodieLockConfig, StorageBasedLockConfig, HoodieTimeGeneratorConfig of Apache Hudi 1.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pudi.config.option import Declare, OptionsView, Scope
from pudi.config.sync_options import HiveClientOptions
from pudi.errors import InvalidArgumentError

if TYPE_CHECKING:
    from typing_extensions import Self

    from pudi.config.option import Options

_STRATEGIES = "org.apache.hudi.client.transaction."
SIMPLE = "SimpleConcurrentFileWritesConflictResolutionStrategy"
BY_BUCKET = "BucketIndexConcurrentFileWritesConflictResolutionStrategy"
PREFER_WRITER = "PreferWriterConflictResolutionStrategy"

_MARKERS = "org.apache.hudi.table.marker."
_DIRECT = "SimpleDirectMarkerBasedDetectionStrategy"
_IN_TRANSACTION = "SimpleTransactionDirectMarkerBasedDetectionStrategy"
WAIT_TO_ADJUST_SKEW = "WAIT_TO_ADJUST_SKEW"
_USUAL_SKEW_MS, _SKEW_IN_PROCESS_MS = 200, 1

_option = Declare(Scope.WRITE)


class LockSettings(HiveClientOptions):
    """Options of every lock provider, and of conflicts."""

    __slots__ = ()

    wait_ms = _option("hoodie.write.lock.wait_time_ms", "Milliseconds to wait for the lock.", default=60_000, minimum=0)
    poll_ms = _option(
        "hoodie.write.lock.wait_time_ms_between_retry",
        "Milliseconds between two attempts to take the lock; the default depends on the lock provider.",
        kind=int,
        minimum=1,
    )
    filesystem_path = _option(
        "hoodie.write.lock.filesystem.path",
        "Folder of the lock file, relative to the table's root; Hudi's default folder by default.",
    )
    expire_minutes = _option(
        "hoodie.write.lock.filesystem.expire",
        "Minutes after which another writer may take over a lock file; 0 for never.",
        default=0,
        minimum=0,
    )
    validity_s = _option(
        "hoodie.write.lock.storage.validity.timeout.secs",
        "Seconds that a storage-based lock is valid without renewal; at least ten renewal intervals.",
        default=300,
        minimum=10,
    )
    renew_s = _option(
        "hoodie.write.lock.storage.renew.interval.secs",
        "Seconds between two renewals of a storage-based lock.",
        default=30,
        minimum=1,
        job_keys=("hoodie.write.lock.storage.heartbeat.poll.secs",),
    )

    early_detection = _option(
        "hoodie.write.concurrency.early.conflict.detection.enable",
        "Whether a write looks, before it works on a file group, whether an earlier pending write has marked it, and "
        "then fails immediately instead of at its commit.",
        default=False,
    )
    early_strategy = _option(
        "hoodie.write.concurrency.early.conflict.detection.strategy",
        "How early detection looks. pudi always looks at markers directly; Hudi's other classes differ in where "
        "markers are kept, or in a lock around the look.",
        choices=(_DIRECT, _IN_TRANSACTION, _MARKERS + _DIRECT, _MARKERS + _IN_TRANSACTION),
        unsupported=("org.apache.hudi.timeline.service.handlers.marker.AsyncTimelineServerBasedDetectionStrategy",),
        instead=f"pudi has no timeline server: leave it out, or use {_DIRECT}",
    )
    early_commits = _option(
        "hoodie.write.concurrency.early.conflict.check.commit.conflict",
        "Whether early detection also compares with commits that completed since the write was planned.",
        default=False,
    )
    claims = _option(
        "pudi.write.claim.file.groups",
        "Whether a write claims its file groups before it writes, and waits for writes that claimed them earlier "
        "(pessimistic concurrency). Only writers with this option heed claims.",
        default=False,
    )
    claim_wait_ms = _option(
        "pudi.write.claim.wait.time.ms",
        "Milliseconds to wait for a write that claimed the same file groups earlier.",
        default=600_000,
        minimum=0,
    )
    app_id = _option(
        "hoodie.write.lock.app_id", "Id of the application, which a lock in ZooKeeper shows.", default="Unknown"
    )
    zk_url = _option(
        "hoodie.write.lock.zookeeper.url",
        "ZooKeeper's servers: `host:port`, separated by commas, without port 2181; a path may follow, below which all "
        "nodes lie.",
    )
    zk_port = _option(
        "hoodie.write.lock.zookeeper.port",
        "ZooKeeper's port. Hudi ignores it; pudi refuses one that isn't the port of the servers.",
        kind=int,
        minimum=1,
    )
    zk_base_path = _option(
        "hoodie.write.lock.zookeeper.base_path", "Path in ZooKeeper below which the lock lies, such as `/hudi`."
    )
    zk_lock_key = _option(
        "hoodie.write.lock.zookeeper.lock_key",
        "Name of the lock below that path; the table's name by default.",
    )
    zk_session_timeout_ms = _option(
        "hoodie.write.lock.zookeeper.session_timeout_ms",
        "Milliseconds without a sign of life after which ZooKeeper ends a session and frees its locks; the server may "
        "take less.",
        default=60_000,
        minimum=1,
    )
    zk_connection_timeout_ms = _option(
        "hoodie.write.lock.zookeeper.connection_timeout_ms",
        "Milliseconds to wait for a connection to ZooKeeper, and for an answer.",
        default=15_000,
        minimum=1,
    )

    dynamodb_table = _option(
        "hoodie.write.lock.dynamodb.table", "DynamoDB's table that holds the locks; made if it isn't there."
    )
    dynamodb_partition_key = _option(
        "hoodie.write.lock.dynamodb.partition_key", "Key of the lock in that table; the table's name by default."
    )
    dynamodb_region = _option(
        "hoodie.write.lock.dynamodb.region",
        "AWS region of that table; by default what AWS_REGION says in the environment, or us-east-1.",
    )
    dynamodb_endpoint = _option(
        "hoodie.write.lock.dynamodb.endpoint_url", "URL of DynamoDB, where it isn't the region's."
    )
    dynamodb_billing_mode = _option(
        "hoodie.write.lock.dynamodb.billing_mode",
        "How a table that pudi makes is paid for.",
        default="PAY_PER_REQUEST",
        choices=("PAY_PER_REQUEST", "PROVISIONED"),
    )
    dynamodb_read_capacity = _option(
        "hoodie.write.lock.dynamodb.read_capacity", "Read capacity units of a provisioned table.", default=20, minimum=1
    )
    dynamodb_write_capacity = _option(
        "hoodie.write.lock.dynamodb.write_capacity",
        "Write capacity units of a provisioned table.",
        default=10,
        minimum=1,
    )
    dynamodb_creation_timeout_ms = _option(
        "hoodie.write.lock.dynamodb.table_creation_timeout",
        "Milliseconds to wait for a table that is being made.",
        default=10 * 60 * 1000,
        minimum=0,
    )
    aws_access_key = _option(
        "hoodie.aws.access.key",
        "Access key for DynamoDB; by default what boto3 finds: environment, profile, role of the machine.",
    )
    aws_secret_key = _option("hoodie.aws.secret.key", "Secret key for DynamoDB.")
    aws_session_token = _option("hoodie.aws.session.token", "Session token for DynamoDB.")

    hive_database = _option("hoodie.write.lock.hivemetastore.database", "Database of the table that is locked in Hive.")
    hive_table = _option("hoodie.write.lock.hivemetastore.table", "Name of the table that is locked in Hive.")
    hive_uris = _option(
        "hoodie.write.lock.hivemetastore.uris", "Hive's metastores: `thrift://host:port`, separated by commas."
    )
    heartbeat_ms = _option(
        "hoodie.write.lock.heartbeat_interval_ms",
        "Milliseconds between two heartbeats of a lock in Hive Metastore; the first comes after half of them.",
        default=60_000,
        minimum=1,
    )

    conflict_strategy = _option(
        "hoodie.write.lock.conflict.resolution.strategy",
        "Which conflicts fail a write, by Hudi's class names with or without their package. By default, as in Hudi, "
        "buckets are compared in a table with a bucket index, and file groups in others; "
        "BucketIndexConcurrentFileWritesConflictResolutionStrategy without such an index is refused. With "
        "PreferWriterConflictResolutionStrategy a pending clustering yields to writes. See [several "
        "writers](concurrency.md#what-conflicts).",
        kind=str,
        choices=tuple(package + name for package in ("", _STRATEGIES) for name in (SIMPLE, BY_BUCKET, PREFER_WRITER)),
    )

    @property
    def resolution(self) -> str | None:
        """The conflict strategy without its package; None where the index decides."""
        return None if self.conflict_strategy is None else self.conflict_strategy.removeprefix(_STRATEGIES)

    @property
    def lock_folder(self) -> str | None:
        """Folder of the lock file; None for the table's own."""
        return self.filesystem_path or None

    def poll_s(self, usual: float) -> float:
        """Seconds between two looks, `usual` unless set."""
        return usual if self.poll_ms is None else self.poll_ms / 1000

    @classmethod
    def of(cls, options: Options) -> Self:
        """The view of resolved options.

        Raises:
            InvalidArgumentError: a lock would be renewed too late, which Hudi refuses too.
        """
        view = super().of(options)
        if view.validity_s < 10 * view.renew_s:
            raise InvalidArgumentError(
                f"{cls.validity_s}={view.validity_s} must be at least ten times {cls.renew_s}={view.renew_s}"
            )
        return view


class TimeOptions(OptionsView):
    """Options of instant times; `pudi.timeline.InstantTimes` makes them."""

    __slots__ = ()

    generator = _option(
        "hoodie.time.generator.type",
        f"Who makes the times of instants: {WAIT_TO_ADJUST_SKEW}, which waits as Hudi's writers do, or a name given to "
        "`pudi.register_time_generator`. By default pudi makes them from its clock and the timeline, and doesn't wait: "
        "see [times and clocks](concurrency.md#times-and-clocks).",
        kind=str,
    )
    skew_ms = _option(
        "hoodie.time.generator.max_expected_clock_skew_ms",
        "Milliseconds by which the clocks of two writers may differ: a writer waits so long under the lock whenever it "
        f"has made a time. 0 by default; with {WAIT_TO_ADJUST_SKEW} {_USUAL_SKEW_MS}, or {_SKEW_IN_PROCESS_MS} with "
        "InProcessLockProvider, as in Hudi.",
        kind=int,
        minimum=0,
    )

    def wait_ms(self, *, in_process: bool) -> int:
        """Return how long to wait after a time was made.

        Args:
            in_process: whether the lock provider is one for the threads of a process.
        """
        if self.skew_ms is not None:
            return int(self.skew_ms)
        if self.generator != WAIT_TO_ADJUST_SKEW:
            return 0
        return _SKEW_IN_PROCESS_MS if in_process else _USUAL_SKEW_MS
