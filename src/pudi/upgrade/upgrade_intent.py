"""An upgrade that is under way, as a file says it: what a crash leaves is completed from there.

pudi's own file: Hudi repeats a failed upgrade from the start, and doesn't know how far it came.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from pudi.client import MetaClient
from pudi.config.table_options import TABLE_VERSIONS
from pudi.errors import CorruptError, InvalidArgumentError, NotFoundError
from pudi.format import MaxBytes
from pudi.format.layout import UPGRADE
from pudi.indexes import registry
from pudi.metadata_write.index_defs import IndexSpec


@dataclass(frozen=True, slots=True)
class Upgrade:
    """An upgrade or downgrade.

    Attributes:
        path: the table's root.
        old: the version that the table had.
        new: the version that it has, or gets.
        steps: what is done, in order.
        losses: what the new version can't keep.
        done: whether it was done; False with `dry_run`, and where there was nothing to do.
    """

    path: str
    old: int
    new: int
    steps: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    done: bool = False

    def __str__(self) -> str:
        head = f"version {self.old} to {self.new}" if self.steps else f"the table is of version {self.new} already"
        lines = [head, *(f"- {step}" for step in self.steps), *(f"lost: {loss}" for loss in self.losses)]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class UpgradeIntent:
    """An upgrade or downgrade that has begun.

    Attributes:
        old: the version that the table had.
        new: the version that it gets.
        has_metadata: whether it had a metadata table, which is rebuilt.
        indexes: the indexes that are rebuilt.
    """

    old: int
    new: int
    has_metadata: bool = False
    indexes: tuple[IndexSpec, ...] = ()


def read_intent(meta: MetaClient) -> UpgradeIntent | None:
    """Return the pending upgrade; None without one.

    Raises:
        CorruptError: the file can't be read.
    """
    try:
        content = json.loads(meta.storage.read(UPGRADE, MaxBytes.DEFINITIONS))
        return UpgradeIntent(
            _version(content["from"]),
            _version(content["to"]),
            bool(content["metadataTable"]),
            tuple(_index(meta, each) for each in content["indexes"]),
        )
    except NotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptError(
            "the file doesn't say which upgrade of the table is under way: compare the version in hoodie.properties "
            "with the one that you want, delete the file, and run the upgrade again",
            table=meta.storage.root,
            path=UPGRADE,
        ) from error


def write_intent(meta: MetaClient, intent: UpgradeIntent) -> None:
    """Say that an upgrade begins; under the table's lock."""
    indexes = [{key: each for key, each in asdict(spec).items() if key != "type"} for spec in intent.indexes]
    content = {
        "from": intent.old,
        "to": intent.new,
        "metadataTable": intent.has_metadata,
        "indexes": indexes,
    }
    meta.storage.put(UPGRADE, json.dumps(content, indent=2).encode(), durable=True)


def delete_intent(meta: MetaClient) -> None:
    """Say that it's over."""
    meta.storage.delete([UPGRADE])


def with_noted(now: UpgradeIntent, noted: UpgradeIntent | None) -> UpgradeIntent:
    """Return an upgrade with the indexes that a failed attempt has already dropped; indexes built since stay in it."""
    if noted is None:
        return now
    known = {spec.partition for spec in now.indexes}
    specs = (*now.indexes, *(spec for spec in noted.indexes if spec.partition not in known))
    ordered = sorted(specs, key=lambda spec: registry.build_order(spec.partition))
    return replace(now, has_metadata=now.has_metadata or noted.has_metadata, indexes=tuple(ordered))


def current_indexes(meta: MetaClient) -> tuple[IndexSpec, ...]:
    """Return the indexes of a table that are ready, in the order in which they are built."""
    ordered = sorted(meta.config.metadata_partitions, key=registry.build_order)
    return tuple(kind.spec_to_rebuild(meta, name) for name in ordered if (kind := registry.find_kind(name)) is not None)


def as_in_version(specs: Iterable[IndexSpec], version: int) -> tuple[IndexSpec, ...]:
    """Return indexes as a table of some version has them, without those that it can't have."""
    return tuple(replace(spec, version=spec.type.version(version)) for spec in specs if version >= spec.type.since)


def _version(value: Any) -> int:
    if value not in TABLE_VERSIONS or isinstance(value, bool):
        raise ValueError(f"{value!r} is no version")
    return int(value)


def _index(meta: MetaClient, content: Any) -> IndexSpec:
    if "/" in content["partition"]:
        raise ValueError(f"{content['partition']!r} is no partition of a metadata table")
    kind = registry.kind_of(str(content["partition"]))
    return IndexSpec(
        kind.type,
        str(content["partition"]),
        tuple(map(str, content["columns"])),
        str(content["method"]),
        str(content["function"]),
        {str(key): str(value) for key, value in content["options"].items()},
        int(content["version"]),
    )


def refuse_losses(found: Upgrade, *, accept_loss: bool) -> None:
    """Raise InvalidArgumentError where an upgrade loses something and may not."""
    if found.losses and not accept_loss:
        raise InvalidArgumentError(
            f"version {found.new} can't keep all that the table has: {'; '.join(found.losses)}. Nothing was changed; "
            "say accept_loss=True (--accept-loss) if that is to be",
            table=found.path,
        )
