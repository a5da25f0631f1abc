"""Deterministic simulation of many processes at one table: writers, services and readers as they are, by a seed.

`world` has the scheduler, clocks and executors, `disk` the storage with its faults, `script` what goes wrong where,
`work` the operations, `judge` the model of what may be seen, `run` plays one schedule, `shrink` finds the shortest
story of a failure, `mutants` breaks the protocol, `histories` checks what real processes saw.
"""
