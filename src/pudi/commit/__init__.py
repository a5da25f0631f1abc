"""One instant, from requested to completed or nothing. It knows neither verbs nor table services; those call it.

Begin with `transaction`. `rollback` undoes an instant or aborts it, `dead_writers` repairs what other processes left,
`liveness` tells who lives, `lease` gives the plan of a service to one process, and `retry` repeats a write that lost.
"""
