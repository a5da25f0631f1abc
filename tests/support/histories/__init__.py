"""Random histories of a table beside a model of plain dicts; a seed decides all of a history.

`python -m support.histories --seed 123` tells one, `--seeds 1000 --first 0` searches for differences.
"""
