"""Hooks of users: validators before a commit, callbacks after it."""

from pudi.hooks.callbacks import CommitMessage, register_commit_callback
from pudi.hooks.validators import register_validator

__all__ = ["CommitMessage", "register_commit_callback", "register_validator"]
