"""Kubernetes API client, informers, work queues, Events, Leases and leader election.

Errors are in `client.errors`, the outcomes of a reconcile in `client.workqueue`.
"""

from .api import ApiClient
from .candidacy import ElectionTimings
from .codec import ListResult, WatchEvent
from .event_recorder import EventRecorder, reference_to
from .informer import Informer, Running, running
from .kubeconfig import ClientConfig, in_cluster_config, load_config, load_kubeconfig
from .leader_election import LeaderElector
from .leases import renew_lease
from .workqueue import Done, Outcome, Requeue, Retry, WorkQueue

__all__ = [
    "ApiClient",
    "ClientConfig",
    "Done",
    "ElectionTimings",
    "EventRecorder",
    "Informer",
    "LeaderElector",
    "ListResult",
    "Outcome",
    "Requeue",
    "Retry",
    "Running",
    "WatchEvent",
    "WorkQueue",
    "in_cluster_config",
    "load_config",
    "load_kubeconfig",
    "reference_to",
    "renew_lease",
    "running",
]
