"""What a node's kernel has to do for its Services, in words that every proxy mode speaks.

A `Frontend` is one address, protocol and port that this node answers for. `services.py` makes them, the modes render
them; below this module nobody knows what a Service is. Values only, nothing is decided here.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import msgspec

from bridgehead.objects.addresses import join_host_port
from bridgehead.objects.meta import ObjectKey

from .addresses import Family

ANY_LOCAL = {4: "0.0.0.0", 6: "::"}  # the address of a Frontend that answers on every address of the node
MAX_BACKENDS = 65535  # of one Frontend; the renderers number them in 16 bits


class Verdict(enum.Enum):
    """What happens to a new connection when there is no backend for it."""

    REJECT = "reject"
    DROP = "drop"


class SourceNat(enum.Enum):
    """Which new connections get an address of this node as their source. Each includes those before it but NEVER."""

    NEVER = "never"
    HAIRPIN = "hairpin only"  # a backend that reaches itself
    OUTSIDE = "from outside the cluster"
    ALWAYS = "always"


class Publication(enum.Enum):
    """Which of a Service's addresses a Frontend is; the words are kube-proxy's."""

    CLUSTER_IP = "cluster IP"
    EXTERNAL_IP = "external IP"
    LOAD_BALANCER = "loadbalancer IP"
    NODE_PORT = "node port"


class Reason(enum.Enum):
    """Why something in an object was left out. `Problem.text` has the details."""

    BAD_ADDRESS = "BadAddress"
    RESERVED_ADDRESS = "ReservedAddress"  # a node's, the API server's, or another Service's
    BAD_PORT = "BadPort"
    BAD_PROTOCOL = "BadProtocol"
    BAD_SOURCE_RANGE = "BadSourceRange"
    NO_ADDRESS = "EndpointWithoutAddress"
    MIXED_FAMILY = "MixedFamily"
    DUPLICATE = "Duplicate"
    PORT_MISMATCH = "PortMismatch"
    TOO_MANY_BACKENDS = "TooManyBackends"
    CONFLICT = "Conflict"
    NOT_SUPPORTED = "NotSupported"  # by the proxy mode in use
    REFUSED = "RefusedByKernel"  # whatever is the reason


class Problem(NamedTuple):
    reason: Reason
    text: str

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.text}"


def shown(text: str) -> str:
    """A foreign text, fit for one log line."""
    return repr(text if len(text) <= 80 else text[:77] + "...")


class Backend(msgspec.Struct, frozen=True, order=True, gc=False):
    """Where connections go. `address` is canonical text; `node` and `zone` are "" when the slice does not tell."""

    address: str
    port: int
    node: str = ""
    zone: str = ""
    is_local: bool = False


class FrontendKey(NamedTuple):
    """What a connection is addressed to. `address` is `ANY_LOCAL[family]` for a node port."""

    address: str
    protocol: str  # tcp, udp, sctp
    port: int

    @property
    def family(self) -> Family:
        return 6 if ":" in self.address else 4

    @property
    def is_node_port(self) -> bool:
        return self.address in ("0.0.0.0", "::")

    def __str__(self) -> str:
        return f"{join_host_port(self.address, self.port)}/{self.protocol}"


class Frontend(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One address, protocol and port that this node answers for.

    `inside`, when it is not None, replaces `backends` for connections from this node's pods and from the node itself;
    those are then masqueraded only when they come from the node. It exists for `externalTrafficPolicy: Local`.
    The order of backends carries no meaning but is kept, so that a renderer can number them.
    `published_as` and `is_local` (a traffic policy Local chose `backends`) decide nothing; modes name things by them.
    `health_check_port`, on a Service's cluster IPs, is where this node tells load balancers of it; 0: nowhere.
    """

    key: FrontendKey
    owner: str  # namespace/name:port
    backends: tuple[Backend, ...] = ()
    inside: tuple[Backend, ...] | None = None
    when_empty: Verdict = Verdict.REJECT
    source_nat: SourceNat = SourceNat.HAIRPIN
    affinity_seconds: int | None = None
    source_ranges: tuple[str, ...] | None = None  # canonical CIDRs; None allows everybody, () nobody
    published_as: Publication = Publication.CLUSTER_IP
    is_local: bool = False
    health_check_port: int = 0


class ServiceFrontends(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """Everything one Service asks of this node.

    `cluster_ips` are refused on every port that no Frontend answers. `age` orders Services by creation, oldest first.
    """

    service: ObjectKey
    age: tuple[str, str, str] = ("", "", "")
    frontends: tuple[Frontend, ...] = ()
    cluster_ips: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What compiling needs to know of this node.

    `addresses` are its primary ones, canonical; `families` those it has addresses or pods of.
    """

    name: str
    addresses: tuple[str, ...] = ()
    zone: str = ""
    families: tuple[Family, ...] = (4,)
    cluster_cidrs: tuple[str, ...] = ()  # where pods live; empty: nothing is known to be outside
    knows_pods: bool = False  # without ranges: they are told by their interfaces
    masquerade_all: bool = False

    def __str__(self) -> str:
        """As the log has it."""
        pods = (
            f"pods in {', '.join(self.cluster_cidrs)}"
            if self.cluster_cidrs
            else "pods told by their interfaces"
            if self.knows_pods
            else "pods not told from others"
        )
        addresses = ", ".join(self.addresses) or "no address yet"
        return f"{self.name} ({addresses}), {f'zone {self.zone}' if self.zone else 'no zone'}, {pods}"
