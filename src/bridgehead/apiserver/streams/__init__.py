"""Logs, exec, attach and port-forward.

`pods` finds the pod and its node, `kubelet` passes on to the node's kubelet; `log_options` says what may be asked of a
log.
"""
