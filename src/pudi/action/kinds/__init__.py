"""Kinds of indexes: each is a type of partitions of the metadata table. `registry` lists them."""
