"""What can be set about the DNS server. `cli/dns.py` fills it from its options, `corefile.py` from a Corefile."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field

from .connections import Server
from .errors import ConfigInvalid
from .hosts import Hosts
from .records import is_name, is_within
from .rewriting import Rule
from .templates import Template
from .transfer import Network
from .zone import POD_MODES, ZoneSettings

Address = tuple[str, int]


@dataclass(frozen=True)
class DnsConfig:
    """`upstreams` None: those of `resolv_conf`; (): none, so that outside names are refused.

    `stub_domains` have upstreams of their own; about `denied` domains ("" is everything) nobody is asked, and the
    answer is this code. Upstreams of the domains in `asked_in_order` ("": of everything else) are equal no more: the
    first that answers is asked; those of the domains in `asked_by_tcp` are asked by nothing else. Outside names in
    `cached` are kept, but neither a yes about those with ("success", domain) in `uncached` nor a no about those with
    ("denial", domain). An address that is None is not served.
    """

    zone: ZoneSettings = field(default_factory=ZoneSettings)
    listen: tuple[Address, ...] = (("", 53),)  # "" is every address, of both families
    node_local: tuple[str, ...] = ()  # addresses of the cluster's DNS to serve on this node itself
    upstreams: tuple[Server, ...] | None = None
    resolv_conf: str = "/etc/resolv.conf"
    stub_domains: tuple[tuple[str, tuple[Server, ...]], ...] = ()
    denied: tuple[tuple[str, int], ...] = ()
    asked_in_order: tuple[str, ...] = ()
    asked_by_tcp: tuple[str, ...] = ()
    most_open: int = 1000  # questions that wait for upstreams at one time, at each address
    autopath: bool = False
    cache_entries: int = 10_000
    cache_seconds: int = 3600
    cache_negative_seconds: int = 1800
    cached: tuple[str, ...] = ("",)
    uncached: tuple[tuple[str, str], ...] = ()
    serve_stale_seconds: int = 0
    hosts: tuple[Hosts, ...] = ()
    rewrites: tuple[Rule, ...] = ()
    templates: tuple[Template, ...] = ()
    transfer_to: tuple[Network, ...] = ()  # who may have the whole zone
    log_queries: bool = False
    log_classes: tuple[str, ...] = ()  # of `query_log.CLASSES`; none: every query
    udp_size: int = 1232  # the largest reply by UDP, in bytes
    processes: int = 1
    lameduck_seconds: float = 0.0  # answers go on for so long after the end was asked for
    health: Address | None = ("", 8080)
    ready: Address | None = ("", 8181)
    metrics: Address | None = ("", 9153)


def parse_address(what: str, text: str, port: int) -> Address:
    """ "0.0.0.0:53", ":53", "[::]:53", "10.0.0.1" (then with `port`). Raises ConfigInvalid."""
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
    """Addresses in their usual spelling, each once. Raises ConfigInvalid."""
    found = []
    for text in texts:
        try:
            address = ipaddress.ip_address(text)
        except ValueError:
            raise ConfigInvalid(f"--node-local: {text!r} is not an address") from None
        if address.is_unspecified or address.is_loopback or address.is_multicast:
            raise ConfigInvalid(f"--node-local: {text} can be nobody's but the node's own, or everybody's")
        found.append(str(address))
    return tuple(dict.fromkeys(found))


def check(config: DnsConfig) -> None:
    """Raises ConfigInvalid for what cannot work."""
    zone = config.zone
    if not is_name(zone.domain):
        raise ConfigInvalid(f"cluster domain {zone.domain!r} is not a domain name")
    if zone.pods not in POD_MODES:
        raise ConfigInvalid(f"pods {zone.pods!r}: one of {', '.join(POD_MODES)}")
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
