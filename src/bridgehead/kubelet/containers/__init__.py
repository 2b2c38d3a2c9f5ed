"""The containers of a pod.

`pod_containers` is the state of a pod's containers: their `runs`, exits, `restart_backoff` and probes. `driver` starts,
probes, restarts and stops them, with `start`, `prober` (thresholds in `probe_state`), `handlers` (one probe or
lifecycle hook) and `termination`. What a handler sends is in `http_get`, `http_messages`, `go_urls` and `grpc_health`.
`image_pull` finds or pulls an image, as `image_policy` decides.

Parts of a container: `argument_list`, `container_environment`, `mounts`, `security_context`, `resource_limits`;
`host_names`, `dns_policy` and `etc_files` for its /etc. `container_logs` reads its log. `context` is what the pods of a
node share, and one pod.
"""
