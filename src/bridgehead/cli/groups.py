"""Headings of the groups that `--help` shows options in."""

from __future__ import annotations

from typing import Final

WHAT: Final = "What to serve"
ACCESS: Final = "Cluster access"
ADDRESSES: Final = "Addresses"
TUNING: Final = "Tuning"
ONCE: Final = "Instead of running"

SERVING: Final = "Serving"
AUTHENTICATION: Final = "Authentication of clients"
ADMISSION: Final = "Admission"
STORAGE: Final = "Storage and allocation"
ETCD: Final = "Store on etcd"
KUBELETS: Final = "Connections to kubelets"
AGGREGATION: Final = "Aggregated APIs"
AUDITING: Final = "Audit log"

NODE: Final = "Node"
PODS: Final = "Pods"
KUBELET_SERVER: Final = "Server of logs and exec"

LEADER_ELECTION: Final = "Leader election"

ARGUMENTS: Final = "Arguments"
OPTIONS: Final = "Options"  # of no other group; comes last
