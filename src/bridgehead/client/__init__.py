"""Kubernetes API client, informers, work queues, Events and Leases.

Errors are in `client.errors`, the outcomes of a reconcile in `client.workqueue`.
"""

from .api import ApiClient
from .codec import ListResult, WatchEvent
from .event_recorder import EventRecorder, reference_to
from .informer import Informer, Running, running
from .kubeconfig import ClientConfig, in_cluster_config, load_config, load_kubeconfig
from .leases import LeaderElector, renew_lease
from .workqueue import Done, Outcome, Requeue, Retry, WorkQueue

__all__ = [
    "ApiClient",
    "ClientConfig",
    "Done",
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
