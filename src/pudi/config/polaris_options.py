"""The options of Apache Polaris as a catalog, in the words of Iceberg's REST clients.

Sources: CatalogProperties and OAuth2Properties of Apache Iceberg, the header of realms of Apache Polaris.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pudi.config.option import Declare, Option, OptionsView, Scope
from pudi.errors import InvalidArgumentError

_option = Declare(Scope.WRITE)


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
