"""From an understood request to its answer.

`objects` is for the resources of the table, with `options` (of writes) and `tables` (rows for kubectl); `subresources`
and `reviews` are for what is special. `discovery`, `openapi`, `health` and `metrics`: what the server says of itself.
"""
