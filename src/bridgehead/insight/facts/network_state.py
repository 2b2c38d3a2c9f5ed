"""The state of one network namespace, a node's or a pod's, as its kernel has it.

Rules stay in the form in which the kernel's own programs print them; `insight/rules` and `trace` parse what they need.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import enum

import msgspec


class Section(enum.StrEnum):
    """A part of the state, which is read alone, and only when it is wanted."""

    NFTABLES = "nftables"
    IPTABLES = "iptables"
    IPTABLES_LEGACY = "iptables-legacy"
    IP_SETS = "IP sets"
    VIRTUAL_SERVERS = "virtual servers"
    CONNECTIONS = "connections"
    LISTENERS = "listeners"
    INTERFACES = "interfaces"
    ROUTES = "routes"
    SYSCTLS = "sysctls"


RULES = frozenset(
    (Section.NFTABLES, Section.IPTABLES, Section.IPTABLES_LEGACY, Section.IP_SETS, Section.VIRTUAL_SERVERS)
)


class AddressPort(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """`address` is canonical. `port` 0: none."""

    address: str
    port: int = 0


class Connection(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A connection or UDP flow that connection tracking knows.

    `source` and `destination` are those of its first packet, `reply_source` and `reply_destination` those of the
    replies: they differ where an address was translated. `state`: TCP's or SCTP's, in capitals as conntrack(8) prints
    it; "" for UDP. Packets and bytes are of both directions, None unless the kernel counts (nf_conntrack_acct).
    `age`: seconds, None unless the kernel records it (nf_conntrack_timestamp). `timeout`: seconds until it expires.
    """

    protocol: str  # tcp, udp, sctp
    source: AddressPort
    destination: AddressPort
    reply_source: AddressPort
    reply_destination: AddressPort
    state: str = ""
    is_assured: bool = False
    is_unreplied: bool = False
    packets: tuple[int, int] | None = None  # sent, replied
    bytes: tuple[int, int] | None = None
    age: float | None = None
    timeout: int | None = None
    mark: int = 0
    zone: int = 0


class Listening(msgspec.Struct, frozen=True, kw_only=True):
    """A socket that takes connections or datagrams. `address`: 0.0.0.0 or :: for every one of its family.

    `program`: the command name of a process that has it; "" if unknown.
    """

    protocol: str
    address: str
    port: int
    program: str = ""
    backlog: int = 0  # connections that wait to be accepted


class Interface(msgspec.Struct, frozen=True, kw_only=True):
    """`addresses`: with prefix lengths. `kind`: veth, bridge, dummy, ...; "" for hardware and loopback."""

    name: str
    index: int
    mtu: int
    is_up: bool
    addresses: tuple[str, ...] = ()
    kind: str = ""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """A route, or one next hop of it. `destination`: a CIDR or `default`. `source`: the preferred source address.

    `kind`: unicast, local, blackhole, unreachable, prohibit, ... `table`: main, local, default or a number.
    """

    destination: str
    family: int = 4
    device: str = ""
    via: str = ""
    kind: str = "unicast"
    table: str = "main"
    metric: int = 0
    source: str = ""


class Destination(msgspec.Struct, frozen=True, kw_only=True):
    """A real server of IPVS."""

    address: str
    port: int
    weight: int
    forwarding: str  # Masq, Route, Tunnel, Local
    active: int = 0
    inactive: int = 0


class VirtualServer(msgspec.Struct, frozen=True, kw_only=True):
    """A virtual server of IPVS, at an address and port or, if `mark` is not 0, for packets with a mark.

    `persistent_seconds`: None without persistence; 0: the time is unknown.
    """

    protocol: str = ""
    address: str = ""
    port: int = 0
    mark: int = 0
    family: int = 4
    scheduler: str = ""
    persistent_seconds: int | None = None
    destinations: tuple[Destination, ...] = ()


class NetworkState(msgspec.Struct, kw_only=True):
    """The sections that were wanted. `unseen`: those that could not be read, or not wholly, with the reason.

    A section that the kernel does not have (no IPVS) is empty and not unseen: `absent` has it.
    """

    nftables: bytes = b""  # `nft --json list ruleset`
    iptables: dict[int, bytes] = {}  # by family: iptables-save of the variant nf_tables
    iptables_legacy: dict[int, bytes] = {}
    ip_sets: bytes = b""  # `ipset save`
    virtual_servers: tuple[VirtualServer, ...] = ()
    connections: tuple[Connection, ...] = ()
    is_connections_cut: bool = False  # there were more than are kept
    listeners: tuple[Listening, ...] = ()
    interfaces: tuple[Interface, ...] = ()
    routes: tuple[Route, ...] = ()
    sysctls: dict[str, str] = {}  # net/ipv4/ip_forward -> 1
    unseen: dict[Section, str] = {}
    absent: frozenset[Section] = frozenset()
