"""Which node a pod goes to.

`scheduler` binds; `cluster_state` keeps the sums, `placement` decides with `node_fit`, `pod_affinity` and
`topology_spread`.
"""
