"""The version of this release, which every process of a write must share."""

__version__ = "0.1.0"
