"""The scheduler, which binds pods to nodes.

`scheduler` watches and binds; `cluster_state` sums up what is on each node; `placement` decides, with `filters`,
`pod_affinity` and `topology_spread`. `preemptor` makes room for pods of higher priority, as `preemption` decides.
"""
