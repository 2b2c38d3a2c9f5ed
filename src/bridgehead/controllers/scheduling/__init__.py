"""The scheduler, which binds pods to nodes.

`scheduler` watches and binds; `cluster_state` sums up what is on each node; `placement` decides, with `node_fit`,
`pod_affinity` and `topology_spread`.
"""
