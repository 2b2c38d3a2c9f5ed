"""Settings of the DNS server, as values. `cli/dns.py` fills them from options, `corefile/` from a Corefile.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from bridgehead.objects.addresses import join_host_port
from bridgehead.suggestions import did_you_mean

from .errors import ConfigInvalid
from .messages import wire
from .messages.domain_names import is_name, is_within

Address = tuple[str, int]  # host and port
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
HostEntry = tuple[str, tuple[str, ...]]  # an address and its names, lower-case without the last dot

POD_MODES = ("disabled", "insecure", "verified")  # of CoreDNS' `pods`
REWRITE_KINDS = ("exact", "prefix", "suffix", "substring", "regex")  # of CoreDNS' `rewrite name`
FORWARD_POLICIES = ("random", "round_robin", "sequential")  # of CoreDNS' `forward`
STALE_MODES = ("immediate", "verify")  # of CoreDNS' `serve_stale`
LOG_CLASSES = ("success", "denial", "error")  # of CoreDNS' `log`, without `all`


@dataclass(frozen=True)
class ZoneSettings:
    """The cluster's zone. Times in seconds.

    `recursive`: replies have RA set, because names outside the zone are answered, too. `namespaces`: only these have
    names; empty: all. `endpoint_pod_names`: endpoints without a host name are named after their pod, not their address.
    `reverse_zones`: the zones that the names of addresses belong to, for the SOA of negative answers.
    """

    domain: str = "cluster.local"
    pods: str = "insecure"  # one of POD_MODES
    ttl: int = 5
    negative_ttl: int = 0
    recursive: bool = True
    namespaces: tuple[str, ...] = ()
    endpoint_pod_names: bool = False
    reverse_zones: tuple[str, ...] = ("in-addr.arpa", "ip6.arpa")


class Tls(NamedTuple):
    """Verification of TLS connections to an upstream.

    `name` has to be in the server's certificate ("": the server's address has to be). `authority` is a file of CA
    certificates ("": the machine's). `certificate` and `key` are files of a client certificate ("": none).
    """

    name: str = ""
    authority: str = ""
    certificate: str = ""
    key: str = ""


class Server(NamedTuple):
    """An upstream server. It is asked by plain UDP and TCP without `tls`."""

    host: str
    port: int = 53
    tls: Tls | None = None

    def __str__(self) -> str:
        return join_host_port(self.host, self.port)


@dataclass(frozen=True)
class ForwardSettings:
    """Options of one `forward` directive, for the upstreams of one domain. Times in seconds.

    `policy` is one of FORWARD_POLICIES. `failover`: response codes that lead to the next server; None: all but NOERROR
    and NXDOMAIN. A server is down after `max_fails` failures (0: never), and is probed every `health_seconds` with a
    query for NS records at `health_name`; `fails_fast`: while all are down, and have not answered a probe, none is
    asked. `most_attempts`: servers asked for one query (0: all). `idle_seconds`, `most_idle` (0: any number):
    connections that are kept open.
    """

    policy: str = "random"
    tcp_only: bool = False
    failover: frozenset[int] | None = None
    max_fails: int = 1
    health_seconds: float = 0.5
    health_rd: bool = True
    health_name: str = ""
    fails_fast: bool = False
    most_attempts: int = 0
    idle_seconds: float = 10.0
    most_idle: int = 0


class TtlLimits(NamedTuple):
    """The shortest and the longest TTL that clients get, in seconds. `longest` wins."""

    shortest: int
    longest: int

    def apply(self, ttl: int) -> int:
        """Return the TTL within the limits."""
        return min(max(ttl, self.shortest), self.longest)


class Prefetch(NamedTuple):
    """The condition to ask for an answer before it expires: after `hits` queries (0: never) in the last part of its
    TTL.

    After a pause of `gap_seconds` hits are counted anew.
    """

    hits: int = 3
    gap_seconds: float = 60.0
    percentage: int = 10


_DEFAULT_TTL, _DEFAULT_NEGATIVE_TTL, DEFAULT_PREFETCH = TtlLimits(0, 3600), TtlLimits(0, 1800), Prefetch()


@dataclass(frozen=True)
class CacheSettings:
    """One `cache` directive, for the answers of upstreams. Times in seconds.

    `uncached` are ("success" or "denial", domain): exceptions from `zones`. Expired answers are used for
    `stale_seconds`: in the mode "immediate" at once, while upstreams are asked; in the mode "verify" when upstreams
    fail, or have not answered within `verify_seconds` (0: their own time limit).
    """

    zones: tuple[str, ...] = ("",)
    uncached: tuple[tuple[str, str], ...] = ()
    capacity: int = 10_000
    negative_capacity: int = 10_000
    ttl: TtlLimits = _DEFAULT_TTL
    negative_ttl: TtlLimits = _DEFAULT_NEGATIVE_TTL
    servfail_seconds: float = 0.0
    prefetch: Prefetch = DEFAULT_PREFETCH
    keeps_ttl: bool = False
    stale_seconds: float = 0.0
    stale_mode: str = "verify"  # one of STALE_MODES
    verify_seconds: float = 0.0


@dataclass(frozen=True)
class Hosts:
    """One `hosts` directive. `ttl` in seconds.

    A name that begins with the label "*" stands for all names with one label in its place. Questions for other types
    than A, AAAA and PTR at names in a zone of `passes_types` are answered elsewhere (`fallthrough_unsupported`).
    """

    entries: tuple[HostEntry, ...] = ()
    ttl: int = 3600
    has_reverse: bool = True
    passes_types: tuple[str, ...] = ()


class AnswerRule(NamedTuple):
    """One `answer name` or `answer value` of a rewrite rule. `field` is "name" or "value".

    Names that the regex `pattern` matches become `replacement`, in which {1} is the first group.
    """

    field: str
    pattern: str
    replacement: str


@dataclass(frozen=True)
class RewriteRule:
    """One `rewrite name` directive. `kind` is one of REWRITE_KINDS.

    Names are lower-case; whole names and suffixes end with a dot. The `replacement` of a regex is the whole new name,
    in which {1} is the first group. A rule that is `for_others` is in a server block beside the cluster's, and does not
    apply to names of the cluster. `is_auto`: names and values in the answer are rewritten back (`answer auto`);
    `answers` are rewritten after that.
    """

    kind: str
    pattern: str
    replacement: str
    is_last: bool = True
    for_others: bool = False
    is_auto: bool = False
    answers: tuple[AnswerRule, ...] = ()


@dataclass(frozen=True)
class TemplateRecord:
    """One `answer` of a template. `ttl` in seconds; `data` may have fields like {{ .Group.ip }}."""

    kind: str
    ttl: int
    data: str


@dataclass(frozen=True)
class Template:
    """One `template` directive: answers to questions of type `kind` ("ANY": of all types) below `zones`.

    The name has to match one of `patterns`; SERVFAIL is the answer for a name that matches none, unless it is below a
    domain of `falls_through`. A template that is `for_others` is in a server block beside the cluster's, and does not
    apply to names of the cluster.
    """

    kind: str
    zones: tuple[str, ...]
    patterns: tuple[str, ...] = (".*",)
    rcode: int = wire.NOERROR
    records: tuple[TemplateRecord, ...] = ()
    falls_through: tuple[str, ...] = ()
    for_others: bool = False

    @property
    def is_denial(self) -> bool:
        """Whether every question below the zones gets the same response code and no record."""
        return (self.kind, self.patterns, self.records) == ("ANY", (".*",), ())


@dataclass(frozen=True)
class DnsConfig:
    """All settings. Domains are lower-case without the last dot; "" is the root, for every name.

    An address that is None is not served.
    """

    zone: ZoneSettings = field(default_factory=ZoneSettings)
    listen: tuple[Address, ...] = (("", 53),)  # "" is every address, of both families
    node_local: tuple[str, ...] = ()  # addresses of the cluster DNS that this process serves on its node
    upstreams: tuple[Server, ...] | None = None  # None: those of `resolv_conf`; (): external names are refused
    resolv_conf: str = "/etc/resolv.conf"
    stub_domains: tuple[tuple[str, tuple[Server, ...]], ...] = ()  # domains with upstreams of their own
    denied: tuple[tuple[str, int], ...] = ()  # domains for which no upstream is asked, and their response codes
    falls_through: tuple[str, ...] = ()  # domains of the cluster whose unknown names are asked of upstreams
    owned_reverse_zones: tuple[str, ...] = ()  # where unknown addresses have no names: no upstream is asked
    forwarding: tuple[tuple[str, ForwardSettings], ...] = ()  # by domain; "" is the root; others have the defaults
    forward_seconds: float = 4.5  # for one query to upstreams; clients wait 5 s by default (resolv.conf(5), timeout)
    max_concurrent: int = 1000  # queries that wait for upstreams, per listening address
    autopath: bool = False
    cache: CacheSettings = CacheSettings()
    block_caches: tuple[tuple[str, CacheSettings], ...] = ()  # domains with settings of their own
    hosts: tuple[Hosts, ...] = ()
    rewrites: tuple[RewriteRule, ...] = ()
    templates: tuple[Template, ...] = ()
    transfer_to: tuple[Network, ...] = ()  # clients that may transfer the zone
    is_minimal: bool = False  # positive replies have no authority and additional records
    has_minimal_any: bool = False  # queries for ANY get one HINFO record, also those for external names (RFC 8482)
    log_queries: bool = False
    log_classes: tuple[str, ...] = ()  # some of LOG_CLASSES; (): every query
    udp_size: int = 1232  # bytes of the largest UDP reply
    processes: int = 1
    lameduck_seconds: float = 0.0  # time between SIGTERM and the end, in which queries are answered
    # Directives of a Corefile, by the zone of their block, for metrics: no setting by itself.
    directives: tuple[tuple[str, str], ...] = field(default=(), compare=False)
    health: Address | None = ("", 8080)
    ready: Address | None = ("", 8181)
    metrics: Address | None = ("", 9153)


def parse_address(what: str, text: str, port: int) -> Address:
    """Parse "0.0.0.0:53", ":53", "[::]:53" or "10.0.0.1"; `port` is the default. Raises ConfigInvalid.

    `what` names the option or line in the error.
    """
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        number = rest.removeprefix(":")
    elif text.count(":") == 1:
        host, _, number = text.partition(":")
    else:
        host, number = text, ""
    number = number or str(port)
    if not number.isdecimal() or int(number) > 65535:
        raise ConfigInvalid(f"{what}: {text!r} is not an address with a port")
    return host, int(number)


def parse_node_local(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the addresses in canonical form, without duplicates. Raises ConfigInvalid."""
    found = []
    for text in texts:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            raise ConfigInvalid(f"--node-local: {text!r} is not an address") from None
        if address.is_unspecified or address.is_loopback or address.is_multicast:
            raise ConfigInvalid(f"--node-local: {text} is unspecified, loopback or multicast")
        found.append(str(address))
    return tuple(dict.fromkeys(found))


def check(config: DnsConfig) -> None:
    """Raise ConfigInvalid for settings that cannot work."""
    zone = config.zone
    if not is_name(zone.domain):
        raise ConfigInvalid(f"cluster domain {zone.domain!r} is not a domain name")
    if zone.pods not in POD_MODES:
        raise ConfigInvalid(f"pods {zone.pods!r}: one of {', '.join(POD_MODES)}{did_you_mean(zone.pods, POD_MODES)}")
    if not 0 <= zone.ttl <= 3600:
        raise ConfigInvalid(f"ttl {zone.ttl}: 0 to 3600 seconds")
    domains = [domain for domain, _ in (*config.stub_domains, *config.denied) if domain]
    for domain in domains:
        if not is_name(domain):
            raise ConfigInvalid(f"stub domain {domain!r} is not a domain name")
        if is_within(domain, zone.domain):
            raise ConfigInvalid(f"stub domain {domain!r} is in the cluster's own domain {zone.domain!r}")
        if domains.count(domain) > 1:
            raise ConfigInvalid(f"stub domain {domain!r} is there twice")
    for name in (name for hosts in config.hosts for _, names in hosts.entries for name in names):
        if is_within(name, zone.domain):
            raise ConfigInvalid(f"hosts: {name!r} is in the cluster's own domain {zone.domain!r}")
    if not 0 <= config.lameduck_seconds <= 3600:
        raise ConfigInvalid(f"lameduck {config.lameduck_seconds:g}: 0 to 3600 seconds")
    if config.processes < 1:
        raise ConfigInvalid("processes: at least 1")
