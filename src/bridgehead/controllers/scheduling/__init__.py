"""The scheduler, which binds pods to nodes.

`scheduler` watches and binds; `cluster_state` sums up what is on each node. `placement` decides, by the `filters` of
each node (`node_filters` has those of all nodes) and the `scores`, with `pod_affinity` and `topology_spread`.
`preemptor` makes room for pods of higher priority, as `preemption` decides. `claim_binder` binds the claims of a pod
on its node, as `volume_binding` decides. `refusal_texts` has the text of FailedScheduling.
"""
