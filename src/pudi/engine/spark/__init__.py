"""The Spark engine: public DataFrame API only, classic and Connect; data in, files and statistics out.

The driver's modules import those of the workers, never the other way: a worker loads the functions that it runs.
"""
