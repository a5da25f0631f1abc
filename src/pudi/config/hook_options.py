"""The options of callbacks, validators and metrics, which run beside a commit, with Hudi's keys and defaults.

Sources: HoodieWriteCommitCallbackConfig, HoodiePreCommitValidatorConfig, HoodieMetricsConfig and
HoodieMetricsPrometheusConfig of Apache Hudi 1.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pudi.config.option import Declare, OptionsView, Scope, names_in
from pudi.errors import InvalidArgumentError, NotSupportedError

HTTP_CALLBACK = "org.apache.hudi.callback.impl.HoodieWriteCommitHttpCallback"
"""The class of Hudi's HTTP callback."""

PROMETHEUS, PUSHGATEWAY, OPENTELEMETRY, LOG = "PROMETHEUS", "PROMETHEUS_PUSHGATEWAY", "OPENTELEMETRY", "SLF4J"
"""The reporters that pudi has, as the option calls them."""

_option = Declare(Scope.WRITE)


class CallbackOptions(OptionsView):
    """The callbacks after a completed commit."""

    __slots__ = ()

    on = _option(
        "hoodie.write.commit.callback.on", "Whether callbacks are called after each completed commit.", default=False
    )
    classes = _option(
        "hoodie.write.commit.callback.class",
        "The callbacks, separated by commas (Hudi takes one): Hudi's HTTP callback, or names of functions that "
        "`pudi.register_commit_callback` knows. pudi only looks a name up in a list.",
        default=HTTP_CALLBACK,
    )
    url = _option("hoodie.write.commit.callback.http.url", "Where the HTTP callback posts its message.")
    api_key = _option(
        "hoodie.write.commit.callback.http.api.key",
        "Value of the header HUDI-CALLBACK-KEY.",
        default="hudi_write_commit_http_callback",
    )
    timeout_seconds = _option(
        "hoodie.write.commit.callback.http.timeout.seconds",
        "Seconds after which an HTTP callback without an answer has failed.",
        default=30,
        minimum=1,
    )
    custom_headers = _option(
        "hoodie.write.commit.callback.http.custom.headers",
        "More headers of the HTTP callback: `Name1:value1;Name2:value2`.",
    )

    @property
    def names(self) -> tuple[str, ...]:
        """The callbacks; none where they are off."""
        return names_in(self.classes) if self.on else ()


class ValidatorOptions(OptionsView):
    """Options of validators: the checks before a write completes."""

    __slots__ = ()

    classes = _option(
        "hoodie.precommit.validators",
        "The checks, separated by commas: Hudi's three SQL validators by their class names, or names of functions that "
        "`pudi.register_validator` knows. pudi only looks a name up in a list.",
        default="",
    )
    equality_queries = _option(
        "hoodie.precommit.validators.equality.sql.queries",
        "SQL queries, separated by `;`, whose results must be equal before and after the write. `<TABLE_NAME>` stands "
        "for the partitions that it writes.",
        default="",
    )
    inequality_queries = _option(
        "hoodie.precommit.validators.inequality.sql.queries",
        "SQL queries whose results must differ before and after the write.",
        default="",
    )
    single_value_queries = _option(
        "hoodie.precommit.validators.single.value.sql.queries",
        "SQL queries with the one value that they must give after the write: `query1#value1;query2#value2`.",
        default="",
    )
    failure_policy = _option(
        "hoodie.precommit.validators.failure.policy",
        "What a failed check does: it refuses the write.",
        default="FAIL",
        choices=("FAIL",),
        unsupported=("WARN_LOG",),
    )

    @property
    def names(self) -> tuple[str, ...]:
        """The checks, in their order."""
        return names_in(self.classes)


if TYPE_CHECKING:
    from typing_extensions import Self

    from pudi.config.option import Options


class MetricsOptions(OptionsView):
    """Options of metrics: the measured actions, and the reporter."""

    __slots__ = ()

    on = _option("hoodie.metrics.on", "Whether actions are measured.", default=False)
    reporter = _option(
        "hoodie.metrics.reporter.type",
        "Who gets the metrics: an endpoint for Prometheus, a Pushgateway, the application's OpenTelemetry SDK, or the "
        "log. Hudi's default, GRAPHITE, is not supported: name one.",
        choices=(PROMETHEUS, PUSHGATEWAY, OPENTELEMETRY, LOG),
        unsupported=("GRAPHITE", "INMEMORY", "JMX", "DATADOG", "CONSOLE", "CLOUDWATCH", "M3"),
    )
    prefix = _option(
        "hoodie.metrics.reporter.metricsname.prefix",
        "What names of metrics begin with; the table's name without it.",
    )
    prometheus_port = _option(
        "hoodie.metrics.prometheus.port",
        "Port of the HTTP endpoint that Prometheus scrapes. Tables of one process share it.",
        default=9090,
        minimum=1,
    )
    gateway_host = _option("hoodie.metrics.pushgateway.host", "Host of the Pushgateway.", default="localhost")
    gateway_port = _option(
        "hoodie.metrics.pushgateway.port", "Port of the Pushgateway; 443 for https.", default=9091, minimum=1
    )
    gateway_seconds = _option(
        "hoodie.metrics.pushgateway.report.period.seconds",
        "Seconds between two pushes; the last one is made when the process ends.",
        default=30,
        minimum=1,
    )
    delete_on_shutdown = _option(
        "hoodie.metrics.pushgateway.delete.on.shutdown",
        "Whether the metrics are deleted from the Pushgateway when the process ends.",
        default=True,
    )
    job = _option("hoodie.metrics.pushgateway.job.name", "Name of the job on the Pushgateway.", default="")
    random_suffix = _option(
        "hoodie.metrics.pushgateway.random.job.name.suffix",
        "Whether the job's name gets a random suffix, so that processes don't overwrite each other's metrics.",
        default=True,
    )
    report_labels = _option(
        "hoodie.metrics.pushgateway.report.labels",
        "Labels of all metrics: `name1:value1,name2:value2`; attributes for OpenTelemetry.",
        default="",
    )

    @property
    def labels(self) -> dict[str, str]:
        """The labels of all metrics.

        Raises:
            InvalidArgumentError: they can't be parsed.
        """
        found = {}
        for part in filter(str.strip, self.report_labels.split(",")):
            name, colon, value = (each.strip() for each in part.partition(":"))
            if not (name.isidentifier() and name.isascii() and colon and value):
                raise InvalidArgumentError(
                    f"{MetricsOptions.report_labels}: {part.strip()!r} is not of the form name:value"
                )
            found[name] = value
        return found

    @classmethod
    def of(cls, options: Options) -> Self:
        """The view of resolved options.

        Raises:
            NotSupportedError: metrics are on, and no reporter is named.
            InvalidArgumentError: labels can't be parsed, or the Pushgateway's job has no name.
        """
        view = super().of(options)
        if view.on:
            if view.reporter is None:
                raise NotSupportedError(
                    f"{cls.on}=true without {cls.reporter} asks for GRAPHITE, which is not supported: use "
                    f"{', '.join((PROMETHEUS, PUSHGATEWAY, OPENTELEMETRY))} or {LOG}"
                )
            if view.reporter == PUSHGATEWAY and not (view.job or view.random_suffix):
                raise InvalidArgumentError(f"{cls.reporter}={PUSHGATEWAY} without a random suffix needs {cls.job}")
            _ = view.labels
        return view
