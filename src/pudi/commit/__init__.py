"""One instant, from requested to completed or nothing: conflicts, leases, retries, and the rollback of what failed.

It knows neither verbs nor table services; those call it. Begin with `frame`.
"""
