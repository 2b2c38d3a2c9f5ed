"""The kubelet's metrics, under the names of Kubernetes and cAdvisor.

process_scan.py    processes of the node, as /proc has them                               (I/O)
resource_usage.py  processes -> what containers, pods and the node have used
resources.py       /metrics/resource and /metrics/cadvisor: usage as families
pods.py            /metrics: pods, containers, volumes as families
operations.py      /metrics and /metrics/probes: counts that the kubelet's parts record
"""
