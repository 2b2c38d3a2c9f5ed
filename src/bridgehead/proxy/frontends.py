"""Frontends: the addresses, protocols and ports that a node serves. The values between Services and proxy modes.

`service_frontends.py` compiles Services to Frontends, and every mode renders Frontends; a mode knows nothing of
Services.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

import msgspec

from bridgehead.objects.addresses import join_host_port
from bridgehead.objects.meta import ObjectKey

from .address_texts import Family

ANY_LOCAL = {4: "0.0.0.0", 6: "::"}  # the address of a Frontend that answers on every address of the node
MAX_BACKENDS = 65535  # of one Frontend; the renderers number them in 16 bits


class Verdict(enum.Enum):
    """The fate of a new connection without a backend."""

    REJECT = "reject"
    DROP = "drop"


class SourceNat(enum.Enum):
    """The new connections that get an address of this node as their source. Each value includes the earlier ones."""

    NEVER = "never"
    HAIRPIN = "hairpin only"  # a backend that connects to itself through the Service
    OUTSIDE = "from outside the cluster"
    ALWAYS = "always"


class Publication(enum.Enum):
    """The kind of a Service's address. The values are kube-proxy's terms."""

    CLUSTER_IP = "cluster IP"
    EXTERNAL_IP = "external IP"
    LOAD_BALANCER = "loadbalancer IP"
    NODE_PORT = "node port"


class Reason(enum.Enum):
    """The reason of a `Problem`, and of the Event about it."""

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
    REFUSED = "RefusedByKernel"


class Problem(NamedTuple):
    """A part of an object that was left out, and why."""

    reason: Reason
    text: str

    def __str__(self) -> str:
        return f"{self.reason.value}: {self.text}"


def quote(text: str) -> str:
    """Return a text of unknown origin in quotes, on one line of at most 80 characters and escapes."""
    return repr(text if len(text) <= 80 else text[:77] + "...")


class Backend(msgspec.Struct, frozen=True, order=True, gc=False):
    """A destination of connections. `address` is canonical; `node` and `zone` are "" if the EndpointSlice has none."""

    address: str
    port: int
    node: str = ""
    zone: str = ""
    is_local: bool = False


class FrontendKey(NamedTuple):
    """The destination address of a connection. `address` is `ANY_LOCAL[family]` for a node port."""

    address: str
    protocol: str  # tcp, udp, sctp
    port: int

    @property
    def family(self) -> Family:
        return 6 if ":" in self.address else 4

    @property
    def is_node_port(self) -> bool:
        return self.address in ("0.0.0.0", "::")

    @property
    def node_port(self) -> FrontendKey:
        """The key of the node port that has the same number and protocol."""
        return FrontendKey(ANY_LOCAL[self.family], self.protocol, self.port)

    def __str__(self) -> str:
        return f"{join_host_port(self.address, self.port)}/{self.protocol}"


class Frontend(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """One address, protocol and port that this node serves.

    `cluster_backends`, when it is not None, replaces `backends` for connections from this node's pods and from the node
    itself; such connections are masqueraded only when they come from the node. `externalTrafficPolicy: Local` sets it.
    The order of backends has no meaning, but is stable, so that a renderer can number them.
    `published_as` and `is_local` (a traffic policy Local chose `backends`) only affect names in the ruleset.
    `is_on_node`: the address is one of this node, whose node ports and host ports come first.
    `health_check_port`: the Service's healthCheckNodePort, for Frontends of its cluster IPs; 0: none.
    """

    key: FrontendKey
    owner: str  # namespace/name:port
    backends: tuple[Backend, ...] = ()
    cluster_backends: tuple[Backend, ...] | None = None
    when_empty: Verdict = Verdict.REJECT
    source_nat: SourceNat = SourceNat.HAIRPIN
    affinity_seconds: int | None = None
    source_ranges: tuple[str, ...] | None = None  # canonical CIDRs of allowed clients; None: all, (): none
    published_as: Publication = Publication.CLUSTER_IP
    is_local: bool = False
    is_on_node: bool = False
    health_check_port: int = 0


class ServiceFrontends(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The result of compiling one Service.

    Connections to `cluster_ips` are refused on every port without a Frontend. `age` orders Services by creation, oldest
    first.
    """

    service: ObjectKey
    age: tuple[str, str, str] = ("", "", "")
    frontends: tuple[Frontend, ...] = ()
    cluster_ips: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


class NodeFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The properties of this node that compiling needs.

    `addresses`: its primary addresses, canonical. `families`: the families of its addresses and pods.
    """

    name: str
    addresses: tuple[str, ...] = ()
    zone: str = ""
    families: tuple[Family, ...] = (4,)
    cluster_cidrs: tuple[str, ...] = ()  # the ranges of all pods; (): unknown
    knows_pods: bool = False  # without ranges: pods are recognized by their interfaces
    masquerade_all: bool = False

    def __str__(self) -> str:
        """Return the text for the log."""
        pods = (
            f"pods in {', '.join(self.cluster_cidrs)}"
            if self.cluster_cidrs
            else "pods recognized by their interfaces"
            if self.knows_pods
            else "pods not distinguished from other clients"
        )
        addresses = ", ".join(self.addresses) or "no address yet"
        return f"{self.name} ({addresses}), {f'zone {self.zone}' if self.zone else 'no zone'}, {pods}"
