"""Node controllers: `nodes` (`node_health`, `hearing`, `disruption`), `taint_eviction` (`tolerance`), `pod_garbage`."""
