"""Options of leader election, for parts of which one instance works at a time. Names and times are Kubernetes'."""

from __future__ import annotations

import socket
import uuid
from dataclasses import dataclass

from bridgehead.client import ElectionTimings
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.times import parse_duration

from .exit_codes import fail
from .groups import LEADER_ELECTION
from .options import option

_LOCK = "leases"
_PREFIX = "--leader-elect-"


@dataclass(frozen=True, kw_only=True)
class LeaderElectionOptions:
    leader_elect: bool = option(
        True, LEADER_ELECTION, "Run only while holding the leader's Lease.", "--leader-elect/--no-leader-elect"
    )
    leader_elect_lease_duration: str = option(
        "15s", LEADER_ELECTION, "Other instances wait so long for a renewal before they take the Lease; whole seconds."
    )
    leader_elect_renew_deadline: str = option(
        "10s", LEADER_ELECTION, "A leader that cannot renew the Lease for so long ends; less than the lease duration."
    )
    leader_elect_retry_period: str = option("2s", LEADER_ELECTION, "Time between two tries to take or renew the Lease.")
    leader_elect_resource_lock: str = option(_LOCK, LEADER_ELECTION, f"Kind of the lock: {_LOCK}.")
    leader_elect_resource_name: str = option("", LEADER_ELECTION, "Name of the Lease. Default: the component's name.")
    leader_elect_resource_namespace: str = option(
        "", LEADER_ELECTION, "Namespace of the Lease. Default: the component's, such as kube-system."
    )


@dataclass(frozen=True)
class Election:
    """The Lease `key`, and the name of this instance, which differs between all starts of all instances."""

    key: ObjectKey
    identity: str
    timings: ElectionTimings


def parse_election(options: LeaderElectionOptions, part: str, name: str, namespace: str) -> Election | None:
    """Return the election of `bridgehead PART`, None without one; prints a line and exits with code 2.

    `name`, `namespace`: those of the Lease, by default.
    """
    if not options.leader_elect:
        return None
    if options.leader_elect_resource_lock != _LOCK:
        fail(part, f"{_PREFIX}resource-lock: {options.leader_elect_resource_lock!r} is not supported, only {_LOCK}", 2)
    times = []
    for field in ("lease_duration", "renew_deadline", "retry_period"):
        try:
            times.append(parse_duration(getattr(options, f"leader_elect_{field}")))
        except ValueError as error:
            fail(part, f"{_PREFIX}{field.replace('_', '-')}: {error}", 2)
    try:
        timings = ElectionTimings(*times)
    except ValueError as error:
        fail(part, f"{_PREFIX}lease-duration, renew-deadline, retry-period: {error}", 2)
    key = ObjectKey(
        options.leader_elect_resource_namespace or namespace,
        options.leader_elect_resource_name or name,
    )
    return Election(key, f"{socket.gethostname()}_{uuid.uuid4()}", timings)
