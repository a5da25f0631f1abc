"""Choose partitions by a predicate over partition columns."""

from __future__ import annotations

import pyarrow as pa

from pudi.client.meta_client import MetaClient
from pudi.errors import InvalidArgumentError, NotSupportedError
from pudi.expr import bind_where, columns, evaluate
from pudi.record import partition_values


def partitions_where(meta: MetaClient, where: str) -> list[str]:
    """Return the paths of the partitions for which a predicate is true.

    Args:
        meta: the table.
        where: a predicate over partition columns.

    Raises:
        InvalidArgumentError: the predicate names another column, or the table isn't partitioned.
        NotSupportedError: a partition path doesn't say the values of the columns, as with TIMESTAMP key generators.
    """
    root, fields, timeline = meta.storage.root, meta.config.partition_fields, meta.store.load()
    schema = meta.schema(timeline)
    bound = bind_where(where, schema, root)
    wanted = columns(bound)
    others = sorted(set(wanted) - set(fields))
    if others:
        raise InvalidArgumentError(
            f"{others[0]!r} is no partition column ({', '.join(fields) or 'the table has none'}), and partitions "
            "can only be chosen by those",
            table=root,
        )
    found = []
    for partition in meta.listing(timeline).partitions():
        known = partition_values(partition, meta.keys, schema) or {}
        if not set(wanted) <= known.keys():
            raise NotSupportedError(
                f"partition {partition!r} doesn't say the values of {', '.join(wanted)}: name the partitions instead",
                table=root,
            )
        row = pa.table({"": [True]} | {name: pa.array([known[name]], schema.field(name).type) for name in known})
        if evaluate(bound, row)[0].as_py():
            found.append(partition)
    return found
