"""The lock of a table: in files, on an object store, in ZooKeeper, DynamoDB or a Hive Metastore.

It knows no commit. Begin with `locks`.
"""

from pudi.locks.lock_provider import LockProvider, register_lock_provider
from pudi.locks.locks import open_lock

__all__ = ["LockProvider", "open_lock", "register_lock_provider"]
