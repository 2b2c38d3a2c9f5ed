"""Controllers for Deployments, ReplicaSets and DaemonSets.

- Controllers: `deployment_controller` (with `rollout`, `deployment_status`), `replicaset_controller` (with
  `deletion_order`), `daemonset_controller` (with `daemon_plan`).
- Shared: `owned`, `expectations`, `bursts`, `pod_control`, `hashes`, `availability`;
  `revisions` keeps ControllerRevisions, as `history` decides.
"""
