"""The protocol below Kubernetes' exec, attach and port-forward, for both ends: `spdy`.

Pure: no I/O, no clock, no randomness.
"""
