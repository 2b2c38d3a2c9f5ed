"""The controllers: each compares what is wanted with what is there, and takes the next step until both agree.

`manager` runs them over the informers of `shared`. A module with a controller reads, writes and says so in Events; what
it decides is in pure modules beside it:

- pods: `deployments` (`rollout`, `deployment_status`), `replicasets` (`ranking`), `daemonsets` (`daemon_plan`). They
  share `claims` and `owned` (whose pods), `expectations` and `latest` (informers are behind), `pod_control`, `hashes`,
  `availability` and `conditions`.
- `scheduler`: `cluster_state` keeps the sums, `placement` decides with `node_fit`, `pod_affinity`, `topology_spread`.
- Services: `endpoints` (`subsets`), `endpointslices` and `mirroring` (`slice_plan`, `slice_cache`, `slice_writer`).
  `service_pods` and `memberships` know whose pods have changed, `endpoint_pods` what a pod contributes, `pace` and
  `trigger_times` when to write.
- nodes: `nodes` (`node_health`), `taint_eviction` (`tolerance`), `pod_garbage`.
- namespaces and owners: `namespaces` (`namespace_conditions`), `serviceaccounts`, `root_ca`, `garbage` (`ownership`).
"""
