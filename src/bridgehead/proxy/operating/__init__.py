"""What people, probes and balancers see of a running proxy. No rule in the kernel depends on it.

metrics       numbers under kube-proxy's names, on port 10249 (`serving`)
health        whether the proxy keeps up, on port 10256 (`serving`)
health_ports  healthCheckNodePort: whether a Service has endpoints on this node
complaints    what is wrong with a Service's objects, in the log and as Events
progress      how far this node's kernel is programmed, for those who wait for it
"""
