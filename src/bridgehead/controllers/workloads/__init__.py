"""Controllers for Deployments, ReplicaSets and DaemonSets.

- Controllers: `deployments` (with `rollout`, `deployment_status`), `replicasets` (with `ranking`), `daemonsets` (with
  `daemon_plan`).
- Shared: `owned`, `expectations`, `bursts`, `pod_control`, `hashes`, `availability`.
"""
