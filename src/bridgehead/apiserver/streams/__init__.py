"""Logs, exec, attach and port-forward.

pod_streams      finds the pod and its Node
kubelet_streams  forwards the request to the node's kubelet
kubelet_access   connections to kubelets
pod_logs         the options of a log, and statuses of refusals
"""
