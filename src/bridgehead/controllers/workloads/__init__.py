"""Pods of Deployments, ReplicaSets and DaemonSets.

`deployments` (decided by `rollout`, `deployment_status`), `replicasets` (`ranking`) and `daemonsets` (`daemon_plan`)
share `owned` (whose pods), `expectations` (informers are behind), `pod_control`, `hashes` and `availability`.
"""
