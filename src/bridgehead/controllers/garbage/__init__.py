"""The garbage collector: `garbage_collector`, and without I/O `owner_graph` (owners and dependents of the cluster)."""
