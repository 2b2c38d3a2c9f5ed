"""The interfaces of a running proxy to operators, probes and load balancers. No rule in the kernel depends on them.

metrics       metrics under kube-proxy's names, on port 10249 (`serving`)
health        whether the proxy keeps up with changes, on port 10256 (`serving`)
health_ports  healthCheckNodePort: whether a Service has endpoints on this node
problems      problems of Services, in the log and as Events
progress      the Lease with the resourceVersions up to which this node's kernel is programmed
"""
