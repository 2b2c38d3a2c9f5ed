"""Nodes that live, fall ill and go: `nodes` (`node_health`), `taint_eviction` (`tolerance`), `pod_garbage`."""
