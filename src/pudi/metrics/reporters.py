"""Reporters of metrics: Prometheus, its Pushgateway, OpenTelemetry, and the log. Packages load when they are used.

Sources: PrometheusReporter, PushGatewayReporter, Slf4jMetricsReporter.
"""

from __future__ import annotations

import atexit
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from pudi.config import MetricsOptions
from pudi.config.hook_options import LOG, OPENTELEMETRY, PROMETHEUS
from pudi.context import Context
from pudi.context.runtime import lazy_module
from pudi.errors import SetupError
from pudi.version import __version__

if TYPE_CHECKING:
    import prometheus_client
    import prometheus_client.core as prometheus_core
    from opentelemetry import metrics as otel
else:
    prometheus_client = lazy_module("prometheus_client")
    prometheus_core = lazy_module("prometheus_client.core")
    otel = lazy_module("opentelemetry.metrics")

_log = logging.getLogger("pudi.metrics")

_UNNAMEABLE = re.compile(r"[^a-zA-Z0-9:_]")
_INNER_CAPITAL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_LAST_VALUES = frozenset({"commitTime", "commitLatencyInMs", "commitFreshnessInMs"})
"""Figures that don't add up."""


class Reporter(Protocol):
    """Gets the figures of actions."""

    def report(
        self, prefix: str, action: str, figures: Mapping[str, int], counter: str, labels: Mapping[str, str]
    ) -> None:
        """Report one action.

        Args:
            prefix: what names begin with: the table.
            action: the action's name.
            figures: what it did, by name.
            counter: the counter that grows by one.
            labels: labels of all figures.
        """


@dataclass(eq=False, slots=True)
class Gauges:
    """The last figures by name and labels, as a collector of `prometheus_client`.

    Hudi's reporters show counters as gauges too: the names are its names.

    Args:
        labelled: whether the figures have labels; a Pushgateway adds them itself.
    """

    labelled: bool = True
    _values: dict[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)
    _guard: threading.Lock = field(default_factory=threading.Lock)

    def report(
        self, prefix: str, action: str, figures: Mapping[str, int], counter: str, labels: Mapping[str, str]
    ) -> None:
        """Keep the figures; see `Reporter`."""
        of = tuple(sorted(labels.items())) if self.labelled else ()
        with self._guard:
            for name, value in figures.items():
                self._values[_metric_name(prefix, action, name), of] = value
            counted = _metric_name(prefix, action, counter), of
            self._values[counted] = self._values.get(counted, 0) + 1

    def collect(self) -> Iterator[Any]:
        """Return the metrics, as `prometheus_client` asks a collector for them."""
        with self._guard:
            values = sorted(self._values.items())
        metric = None
        for (name, labels), value in values:
            if metric is None or metric.name != name:
                if metric is not None:
                    yield metric
                metric = prometheus_core.Metric(name, "An action on a Hudi table.", "gauge")
            metric.add_sample(name, dict(labels), value)
        if metric is not None:
            yield metric


def _metric_name(*parts: str) -> str:
    """Return a name as Hudi's reporters make it of dotted parts (Collector.sanitizeMetricName)."""
    name = _UNNAMEABLE.sub("_", ".".join(parts))
    return f"_{name}" if name[0].isdigit() else name


@dataclass(frozen=True, slots=True)
class LogReporter:
    """Logs a line for each action."""

    def report(
        self, prefix: str, action: str, figures: Mapping[str, int], counter: str, labels: Mapping[str, str]
    ) -> None:
        """Log the figures; see `Reporter`."""
        said = ", ".join(f"{name}={value}" for name, value in {**figures, **labels}.items() if value)
        _log.info("%s.%s: %s%s", prefix, action, counter.partition(".")[0], said and f", {said}")


@dataclass(frozen=True, slots=True)
class OpenTelemetryReporter:
    """Records figures by the meter provider that the application has set up; without one they go nowhere.

    Args:
        meter: makes the instruments.
    """

    meter: Any
    _instruments: dict[str, Any] = field(default_factory=dict)

    def report(
        self, prefix: str, action: str, figures: Mapping[str, int], counter: str, labels: Mapping[str, str]
    ) -> None:
        """Record the figures; see `Reporter`."""
        attributes = {**labels, "hudi.table": prefix}
        for name, value in figures.items():
            full = f"hudi.{action}.{_INNER_CAPITAL.sub('_', name).lower()}"  # SDKs put names into lower case
            if name == "duration":
                self._instrument(full, self.meter.create_histogram, "ms").record(value, attributes)
            elif name in _LAST_VALUES:
                self._instrument(full, self.meter.create_gauge, "ms").set(value, attributes)
            else:
                self._instrument(full, self.meter.create_counter, "").add(value, attributes)
        self._instrument(f"hudi.{action}.{counter}", self.meter.create_counter, "").add(1, attributes)

    def _instrument(self, name: str, make: Any, unit: str) -> Any:
        found = self._instruments.get(name)
        if found is None:
            found = self._instruments[name] = make(name, unit=unit)
        return found


@dataclass(frozen=True, slots=True)
class _Open:
    """A reporter of this process, and what ends it."""

    reporter: Reporter
    close: Callable[[], object]


_OPEN: dict[tuple[object, ...], _Open] = {}
_opening = threading.Lock()


def open_reporter(options: MetricsOptions, context: Context) -> Reporter:
    """Return the reporter that options name; tables of this process with the same one share it.

    Args:
        options: the options.
        context: runs what pushes from time to time.

    Raises:
        SetupError: a package is missing, or the port of the endpoint is taken.
    """
    key = _key(options)
    with _opening:
        found = _OPEN.get(key)
        if found is None:
            try:
                found = _OPEN[key] = _new(options, context)
            except ImportError as error:
                raise SetupError(
                    f"{MetricsOptions.reporter}={options.reporter} needs a package: pip install 'pudi[metrics]' "
                    f"({error})"
                ) from None
    return found.reporter


def close_reporters() -> None:
    """Close all reporters of this process, as its end does: what wasn't pushed yet is, and ports are free again.

    Actions that begin later open them again.
    """
    with _opening:
        doomed = list(_OPEN.values())
        _OPEN.clear()
    for each in doomed:
        each.close()


def _key(options: MetricsOptions) -> tuple[object, ...]:
    if options.reporter in {LOG, OPENTELEMETRY}:
        return (options.reporter,)
    if options.reporter == PROMETHEUS:
        return options.reporter, options.prometheus_port
    gateway = options.gateway_host, options.gateway_port, options.job, options.random_suffix, options.report_labels
    return options.reporter, *gateway


def _new(options: MetricsOptions, context: Context) -> _Open:
    if options.reporter == LOG:
        return _Open(LogReporter(), _nothing)
    if options.reporter == OPENTELEMETRY:
        return _Open(OpenTelemetryReporter(otel.get_meter("pudi", __version__)), _nothing)
    gauges = Gauges(labelled=options.reporter == PROMETHEUS)
    registry = prometheus_core.CollectorRegistry()
    registry.register(gauges)
    if options.reporter == PROMETHEUS:
        return _Open(gauges, _serve(options, registry))
    gateway = _Gateway(options, registry, context)
    atexit.register(close_reporters)
    gateway.start()
    return _Open(gauges, gateway.stop)


def _nothing() -> None:
    """Nothing is to be closed."""


def _serve(options: MetricsOptions, registry: Any) -> Callable[[], object]:
    """Start the endpoint for Prometheus; return what ends it."""
    try:
        server, _ = prometheus_client.start_http_server(options.prometheus_port, registry=registry)
    except OSError as error:
        raise SetupError(
            f"the endpoint for Prometheus can't listen on {MetricsOptions.prometheus_port}="
            f"{options.prometheus_port}: {error}; give each process a port of its own"
        ) from error

    def close() -> None:
        server.shutdown()
        server.server_close()

    return close


class _Gateway:
    """Pushes to a Pushgateway from time to time, and when the process ends."""

    def __init__(self, options: MetricsOptions, registry: Any, context: Context) -> None:
        self._options, self._registry, self._context = options, registry, context
        suffix = str(int(context.writer_id().replace("-", "")[:15], 16)) if options.random_suffix else ""
        self._job = f"{options.job}{suffix}"
        secure = "https://" if options.gateway_port == 443 else ""
        self._address = f"{secure}{options.gateway_host}:{options.gateway_port}"

    def start(self) -> None:
        _ = prometheus_client.pushadd_to_gateway
        self._timer = self._context.executor.every(self._options.gateway_seconds, self._push, "metrics")

    def _push(self) -> None:
        self._call(
            lambda: prometheus_client.pushadd_to_gateway(
                self._address, self._job, self._registry, self._options.labels, timeout=_SECONDS
            )
        )

    def stop(self) -> None:
        self._timer.stop()
        self._push()
        if self._options.delete_on_shutdown:
            self._call(
                lambda: prometheus_client.delete_from_gateway(
                    self._address, self._job, self._options.labels, timeout=_SECONDS
                )
            )

    def _call(self, ask: Any) -> None:
        try:
            ask()
        except Exception as error:  # noqa: BLE001 - the next push tries again
            _log.warning("the Pushgateway %s can't be reached: %s", self._address, error)


_SECONDS = 10
"""Seconds that a Pushgateway has to answer."""
