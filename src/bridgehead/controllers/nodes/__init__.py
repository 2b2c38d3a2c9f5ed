"""Node controllers: health, taint-based eviction, pod garbage collection.

`node_lifecycle_controller` (with `node_health`, `watch_clock`, `zone_disruption`), `taint_eviction` (with
`eviction_time`), `pod_garbage`.
"""
