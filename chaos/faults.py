"""The kinds of faults, and a fault before and after it was injected.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# Modes of a lab's proxy; mode ipvs is left out, as not every kernel has IPVS.
MODES = ("nftables", "iptables", "userspace")


class FaultKind(StrEnum):
    KILL_API_SERVER = "kill-apiserver"
    STOP_API_SERVER = "stop-apiserver"
    KILL_CONTROLLERS = "kill-controllers"
    STOP_CONTROLLERS = "stop-controllers"
    KILL_KUBELET = "kill-kubelet"
    STOP_KUBELET = "stop-kubelet"
    KILL_RUNTIME = "kill-runtime"
    STOP_RUNTIME = "stop-runtime"
    KILL_PROXY = "kill-proxy"
    STOP_PROXY = "stop-proxy"
    KILL_DNS = "kill-dns"
    STOP_DNS = "stop-dns"
    KILL_BACKEND = "kill-backend"
    REPLACE_PODS = "replace-pods"
    PARTITION = "partition"
    PACKET_LOSS = "packet-loss"
    SLOW_LINK = "slow-link"
    FULL_DISK = "full-disk"
    FLUSH_RULES = "flush-rules"
    SECOND_PROXY = "second-proxy"


@dataclass(frozen=True)
class FaultSpec:
    """Minimum and maximum duration (seconds) of a kind of fault, and how often it is drawn."""

    shortest: float = 0.0
    longest: float = 0.0
    weight: int = 2


SPECS: dict[FaultKind, FaultSpec] = {
    FaultKind.KILL_API_SERVER: FaultSpec(weight=4),
    FaultKind.STOP_API_SERVER: FaultSpec(1, 15),
    FaultKind.KILL_CONTROLLERS: FaultSpec(),
    FaultKind.STOP_CONTROLLERS: FaultSpec(1, 15),
    FaultKind.KILL_KUBELET: FaultSpec(weight=4),
    FaultKind.STOP_KUBELET: FaultSpec(1, 15),
    FaultKind.KILL_RUNTIME: FaultSpec(weight=1),
    FaultKind.STOP_RUNTIME: FaultSpec(1, 8),
    FaultKind.KILL_PROXY: FaultSpec(weight=4),
    FaultKind.STOP_PROXY: FaultSpec(1, 10),
    FaultKind.KILL_DNS: FaultSpec(),
    FaultKind.STOP_DNS: FaultSpec(1, 8, weight=1),
    FaultKind.KILL_BACKEND: FaultSpec(weight=3),
    FaultKind.REPLACE_PODS: FaultSpec(weight=3),
    FaultKind.PARTITION: FaultSpec(1, 15),
    FaultKind.PACKET_LOSS: FaultSpec(2, 10),
    FaultKind.SLOW_LINK: FaultSpec(2, 10, weight=1),
    FaultKind.FULL_DISK: FaultSpec(1, 8),
    FaultKind.FLUSH_RULES: FaultSpec(weight=4),
    FaultKind.SECOND_PROXY: FaultSpec(2, 10, weight=1),
}


@dataclass(frozen=True)
class Fault:
    """A fault as scheduled: `at` and `seconds` from the beginning of the run.

    `pick` chooses among what there is when it is injected: nodes, Services, DNS pods.
    """

    at: float
    kind: FaultKind
    pick: int
    seconds: float


@dataclass(frozen=True)
class Occurrence:
    """A fault as it happened. Times are of the monotonic clock; `end` is when its cause was gone.

    `node` is where it was, "" for the whole cluster; `service` is the only Service whose pods it touched, "" for any.
    """

    kind: FaultKind
    start: float
    end: float
    node: str = ""
    service: str = ""

    def __str__(self) -> str:
        where = " ".join(part for part in (self.node, self.service) if part)
        return f"{self.kind} {where}".strip()
