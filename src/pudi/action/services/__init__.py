"""Table services: work that keeps a table fast and small, on data tables and metadata tables alike.

`registry` lists the services, `runner` schedules and runs them, `lease` says which process runs a planned one.
"""
