"""One instant, from requested to completed or nothing. It knows neither verbs nor table services; those call it.

Begin with `transaction`. `abort` and `rollback` undo an instant, `dead_writers` repairs what other processes left,
`liveness` tells who lives, `lease` gives the plan of a service to one process, and `retry` repeats a write that lost.
"""
