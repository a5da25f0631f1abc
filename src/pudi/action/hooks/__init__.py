"""What a user hooks into actions: callbacks after a commit, validators before it."""

from pudi.action.hooks.callbacks import CommitMessage, register_commit_callback
from pudi.action.hooks.validators import register_validator

__all__ = ["CommitMessage", "register_commit_callback", "register_validator"]
