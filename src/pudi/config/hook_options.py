"""The options of what runs beside a commit: callbacks and validators, with Hudi's keys and defaults.

Sources: HoodieWriteCommitCallbackConfig, HoodiePreCommitValidatorConfig of Apache Hudi 1.2.
"""

from __future__ import annotations

from pudi.config.option import Declare, OptionsView, Scope, names_in

HTTP_CALLBACK = "org.apache.hudi.callback.impl.HoodieWriteCommitHttpCallback"
"""The class of Hudi's HTTP callback."""

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
