"""The options of catalogs: of catalog sync, with Hudi's keys and defaults, and of Apache Polaris.

Sources: HoodieSyncConfig, HiveSyncConfig, HiveSyncConfigHolder and GlueCatalogSyncClientConfig of Apache Hudi 1.2;
HiveConf of Apache Hive; for Polaris, CatalogProperties and OAuth2Properties of Apache Iceberg, and the header of realms
of Apache Polaris.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any

from pudi.config.option import Declare, Option, OptionsView, Scope, Status, names_in
from pudi.errors import InvalidArgumentError, NotSupportedError

if TYPE_CHECKING:
    from typing_extensions import Self

    from pudi.config.option import Options

HIVE_TOOL = "org.apache.hudi.hive.HiveSyncTool"
GLUE_TOOL = "org.apache.hudi.aws.sync.AwsGlueCatalogSyncTool"

MANIFEST_PLACE = "manifest"
ABSOLUTE_MANIFEST_PLACE = "manifest:absolute"
"""Places that stand for a file in the table with the names, or the locations, of its base files."""

MANIFEST_PLACES = frozenset({MANIFEST_PLACE, ABSOLUTE_MANIFEST_PLACE})

METADATA_LISTING = "hudi.metadata-listing-enabled"
"""Key in the properties of a table in Glue by which Athena lists files through the metadata table."""

_NO_HIVE_SERVER = (
    "a sync by SQL needs a HiveServer2 or Hive's own classes; set hoodie.datasource.hive_sync.mode=hms and "
    "hoodie.datasource.hive_sync.metastore.uris: the same is registered in the same metastore"
)
_option = Declare(Scope.WRITE)
_harmless = Declare(Scope.WRITE, Status.HARMLESS)
_lacking = Declare(Scope.WRITE, Status.UNSUPPORTED)


class SyncStrategy(str, Enum):
    """The tables that are registered of a merge-on-read table (HoodieSyncTableStrategy)."""

    ALL = "ALL"
    READ_OPTIMIZED = "RO"
    SNAPSHOT = "RT"


class HiveClientOptions(OptionsView):
    """Options of connections to a Hive Metastore, by Hive's keys."""

    __slots__ = ()

    tls = _option("hive.metastore.use.SSL", "Whether the metastore is reached by TLS.", default=False)
    certificates = _option(
        "hive.metastore.truststore.path",
        "File of the certificates that the metastore's own has to come from, as PEM; the machine's by default.",
    )
    kerberos = _option(
        "hive.metastore.sasl.enabled",
        "Whether the metastore asks for Kerberos.",
        choices=("false",),
        unsupported=("true",),
        instead="register in a metastore without Kerberos, in Glue, or by Hudi's sync tool",
    )


class SyncOptions(HiveClientOptions):
    """Options of catalog sync: the catalogs in which a table is registered after a write."""

    __slots__ = ()

    hive_enabled = _option(
        "hoodie.datasource.hive_sync.enable",
        "Whether the table is registered in a Hive Metastore after each write.",
        default=False,
    )
    enabled = _option(
        "hoodie.datasource.meta.sync.enable",
        "Whether the table is registered after each write, in the catalogs of hoodie.meta.sync.client.tool.class.",
        default=False,
    )
    tools = _option(
        "hoodie.meta.sync.client.tool.class",
        f"Catalogs to register in, separated by commas: `{HIVE_TOOL}`, `{GLUE_TOOL}`, `manifest`, or "
        "places such as `sqlite:/path/catalog.db/db.trips`. pudi only looks a name up in a list.",
        default=HIVE_TOOL,
    )
    mode = _option(
        "hoodie.datasource.hive_sync.mode",
        "How Hive's metastore is reached: by its Thrift service.",
        choices=("hms",),
        unsupported=("jdbc", "hiveql"),
        instead=_NO_HIVE_SERVER,
    )
    uris = _option(
        "hoodie.datasource.hive_sync.metastore.uris",
        "Addresses of the metastore, separated by commas: `thrift://host:port`; the first that answers is taken. On "
        "Spark those of the session's own Hive catalog by default.",
        default="thrift://localhost:9083",
    )
    database = _option(
        "hoodie.datasource.hive_sync.database", "Database that the table is registered in.", default="default"
    )
    table = _option(
        "hoodie.datasource.hive_sync.table", "Name that the table is registered by; the table's own by default."
    )
    creates_database = _option(
        "hoodie.datasource.hive_sync.auto_create_database", "Whether a missing database is created.", default=True
    )
    location = _option(
        "hoodie.datasource.meta.sync.base.path",
        "Location to register; the table's root as it was opened by default.",
        default="",
    )
    partition_fields = _option(
        "hoodie.datasource.hive_sync.partition_fields",
        "Partition columns to register, separated by commas; those of the table by default. Empty: none.",
    )
    decodes_values = _option(
        "hoodie.meta.sync.decode_partition",
        "Whether partition values of folders with URL encoding are registered decoded.",
        default=False,
    )
    strategy = _option(
        "hoodie.datasource.hive_sync.table.strategy",
        "Which tables a merge-on-read table is registered as: `ALL`, or under its plain name a read-optimised one "
        "(`RO`) or a snapshot one (`RT`).",
        default=SyncStrategy.ALL.value,
        choices=tuple(each.value for each in SyncStrategy),
    )
    skips_ro_suffix = _option(
        "hoodie.datasource.hive_sync.skip_ro_suffix",
        "Whether the read-optimised table has the plain name, without `_ro`.",
        default=False,
    )
    plain_snapshot = _option(
        "hoodie.meta.sync.sync_snapshot_with_table_name",
        "Whether a merge-on-read table is also registered under its plain name.",
        default=True,
    )
    timestamps = _option(
        "hoodie.datasource.hive_sync.support_timestamp",
        "Whether timestamps are registered as `timestamp` instead of `bigint`.",
        default=False,
    )
    comments = _option(
        "hoodie.datasource.hive_sync.sync_comment",
        "Whether comments of columns (`doc` in the Avro schema) are registered.",
        default=False,
    )
    omits_meta_fields = _option(
        "hoodie.datasource.hive_sync.omit_metadata_fields",
        "Whether the meta fields are left out of the registered columns.",
        default=False,
    )
    managed = _option(
        "hoodie.datasource.hive_sync.create_managed_table",
        "Whether a new table is a managed one: dropping it deletes its files.",
        default=False,
    )
    as_datasource = _option(
        "hoodie.datasource.hive_sync.sync_as_datasource",
        "Whether Spark's own properties are registered, by which Spark reads the table as Hudi's.",
        default=True,
    )
    schema_part_length = _option(
        "hoodie.datasource.hive_sync.schema_string_length_thresh",
        "Number of characters of a property with a part of Spark's schema.",
        default=4000,
        minimum=1,
    )
    spark_version = _option(
        "hoodie.meta_sync.spark.version",
        "Release of Spark to register as the table's maker; the session's by default.",
        default="",
    )
    table_properties = _option(
        "hoodie.datasource.hive_sync.table_properties", "More properties of the table, one `key=value` a line."
    )
    serde_properties = _option(
        "hoodie.datasource.hive_sync.serde_properties", "More properties of the serde, one `key=value` a line."
    )
    incremental = _option(
        "hoodie.meta.sync.incremental",
        "Whether a sync looks only at partitions that changed since the last one.",
        default=True,
    )
    conditional = _option(
        "hoodie.datasource.meta_sync.condition.sync",
        "Whether the time of the last sync is only registered if columns, properties or partitions changed.",
        default=False,
    )
    touches = _option(
        "hoodie.meta.sync.touch.partitions.enabled",
        "Whether partitions with new data are altered without a change, so that the catalog notes a time.",
        default=False,
    )
    batch_size = _option(
        "hoodie.datasource.hive_sync.batch_num",
        "Maximum number of partitions in one request to a metastore.",
        default=1000,
        minimum=1,
    )
    glue_lists_by_metadata = _option(
        "hoodie.datasource.meta.sync.glue.metadata_file_listing",
        "Whether Athena lists files through the metadata table (`hudi.metadata-listing-enabled`).",
        default=False,
    )
    glue_skips_archive = _option(
        "hoodie.datasource.meta.sync.glue.skip_table_archive",
        "Whether Glue keeps no older version of a table that is altered.",
        default=True,
    )
    glue_region = _option("hoodie.aws.glue.region", "AWS region of Glue; that of the environment by default.")
    glue_endpoint = _option("hoodie.aws.glue.endpoint", "URL of Glue, where it isn't the region's.")
    base_file_format = _option(
        "hoodie.datasource.hive_sync.base_file_format",
        "Format of base files; the table says it.",
        default="PARQUET",
        choices=("PARQUET",),
        unsupported=("HFILE", "ORC"),
    )
    bucket_sync = _lacking("hoodie.datasource.hive_sync.bucket_sync", "Buckets in the registered table.", default=False)
    bucket_spec = _lacking(
        "hoodie.datasource.hive_sync.bucket_sync_spec", "Buckets in the registered table.", default=""
    )
    recreates = _option(
        "hoodie.datasource.hive_sync.recreate_table_on_error",
        "Whether a registered table whose columns the catalog refuses to alter is dropped and created again.",
        default=False,
    )
    replicated = _lacking("hoodie.meta_sync.global.replicate.timestamp", "Time of replication among clusters.")
    no_partition_metadata = _lacking(
        "hoodie.meta.sync.no_partition_metadata", "Sync of tables without partition metadata.", default=False
    )
    use_jdbc = _harmless("hoodie.datasource.hive_sync.use_jdbc", "Old form of the mode.", kind=bool)
    jdbc_url = _harmless("hoodie.datasource.hive_sync.jdbcurl", "Address of a HiveServer2, which isn't asked.")
    user = _harmless("hoodie.datasource.hive_sync.username", "User at a HiveServer2, which isn't asked.")
    password = _harmless("hoodie.datasource.hive_sync.password", "Password at a HiveServer2, which isn't asked.")
    ignores_errors = _harmless(
        "hoodie.datasource.hive_sync.ignore_exceptions", "A sync that fails never fails the write.", kind=bool
    )
    spark_catalog = _harmless(
        "hoodie.datasource.hive_sync.use_spark_catalog", "Client of the metastore; pudi has its own.", kind=bool
    )
    filter_pushdown = _harmless(
        "hoodie.datasource.hive_sync.filter_pushdown_enabled",
        "Whether the metastore filters partitions; pudi asks for those that changed, by their names.",
        kind=bool,
    )
    filter_size = _harmless("hoodie.datasource.hive_sync.filter_pushdown_max_size", "Size of that filter.", kind=int)
    assumes_dates = _harmless(
        "hoodie.datasource.hive_sync.assume_date_partitioning",
        "Old form of hoodie.datasource.hive_sync.partition_extractor_class.",
        kind=bool,
    )
    metadata_listing = _harmless(
        "hoodie.meta.sync.metadata_file_listing",
        "Whether partitions are listed by the metadata table; pudi does where there is one.",
        kind=bool,
    )
    glue_settings = _harmless("hoodie.datasource.meta.sync.glue.*", "Further settings of Hudi's client of Glue.")

    @property
    def is_on(self) -> bool:
        """Whether writes are followed by a sync."""
        return self.hive_enabled or self.enabled

    @property
    def more_properties(self) -> Mapping[str, str]:
        """Further properties of the table."""
        return _properties(self.table_properties, SyncOptions.table_properties.key)

    @property
    def more_serde_properties(self) -> Mapping[str, str]:
        """Further properties of the serde."""
        return _properties(self.serde_properties, SyncOptions.serde_properties.key)

    @property
    def places(self) -> tuple[str, ...]:
        """The places to register the table in after a write: Hudi's names of its tools, or places in catalogs."""
        named = names_in(self.tools) if self.enabled else ()
        hive = (HIVE_TOOL,) if self.hive_enabled else ()
        return tuple(dict.fromkeys((*named, *hive)))

    @classmethod
    def of(cls, options: Options) -> Self:
        """The view of resolved options.

        Raises:
            NotSupportedError: a tool of Hudi's that pudi lacks, or Hive without the address of its metastore.
            InvalidArgumentError: a line of properties isn't of the form `key=value`.
        """
        view = super().of(options)
        for name in view.places:
            if name.startswith("org.") and name not in {HIVE_TOOL, GLUE_TOOL}:
                instead = ", or for BigQuery by the manifest: manifest:absolute" if "bigquery" in name.lower() else ""
                raise NotSupportedError(
                    f"{cls.tools}={name}: pudi registers tables by {HIVE_TOOL} or {GLUE_TOOL}, or in a place such as "
                    f"sqlite:/path/catalog.db/db.trips{instead}; a class is never loaded by name"
                )
        if HIVE_TOOL in view.places and options.explicit(cls.mode) is None and options.explicit(cls.uris) is None:
            raise NotSupportedError(
                f"without {cls.mode} Apache Hudi asks a HiveServer2 by JDBC, which pudi doesn't: {_NO_HIVE_SERVER}"
            )
        for option in (cls.table_properties, cls.serde_properties):
            _properties(options[option], option.key)
        return view


def _properties(text: str | None, key: str) -> dict[str, str]:
    found = {}
    for line in (text or "").splitlines():
        name, equals, value = line.partition("=")
        if line.strip() and not (equals and name.strip()):
            raise InvalidArgumentError(f"{key}: the line {line!r} isn't of the form key=value")
        if line.strip():
            found[name.strip()] = value.strip()
    return found


class PolarisOptions(OptionsView):
    """Options of Apache Polaris: its address, and who asks. Each may stand in a variable of the environment."""

    __slots__ = ()

    uri = _option(
        "pudi.polaris.uri",
        "Address of Polaris's REST service: `https://host:8181/api/catalog`. Each of `pudi.polaris.*` may stand in "
        "the environment: this one as `PUDI_POLARIS_URI`.",
    )
    warehouse = _option("pudi.polaris.warehouse", "Name of the catalog in Polaris.")
    token = _option("pudi.polaris.token", "Bearer token, where no credential is given.")
    credential = _option(
        "pudi.polaris.credential",
        "`client-id:client-secret`, for which a token is asked, and a new one before it expires.",
    )
    scope = _option("pudi.polaris.scope", "Scope of the tokens that are asked for.", default="PRINCIPAL_ROLE:ALL")
    token_uri = _option(
        "pudi.polaris.oauth2-server-uri",
        "Address that gives tokens for a credential; Polaris's own by default.",
    )
    realm = _option("pudi.polaris.realm", "Realm of Polaris (header `Polaris-Realm`); the server's default otherwise.")
    timeout = _option("pudi.polaris.timeout", "Seconds that an answer may take.", default=60, minimum=1)

    @property
    def client(self) -> tuple[str, str] | None:
        """Id and secret of the credential; None if none is given.

        Raises:
            InvalidArgumentError: it isn't of the form `client-id:client-secret`.
        """
        if not self.credential:
            return None
        name, colon, secret = self.credential.partition(":")
        if not (name and colon and secret):
            raise InvalidArgumentError(f"{PolarisOptions.credential} is not of the form client-id:client-secret")
        return name, secret

    @classmethod
    def from_environment(cls, variables: Mapping[str, str]) -> dict[str, str]:
        """Return the options that variables of the environment give, by their keys."""
        return {each.key: variables[_variable(each)] for each in cls.declared if variables.get(_variable(each))}


def _variable(option: Option[Any]) -> str:
    return option.key.upper().replace(".", "_").replace("-", "_")
