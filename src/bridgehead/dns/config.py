"""What can be set about the DNS server. `cli/dns.py` fills it from its options, `corefile.py` from a Corefile."""

from __future__ import annotations

from dataclasses import dataclass, field

from .errors import ConfigInvalid
from .records import is_name
from .upstream import Server
from .zone import POD_MODES, ZoneSettings

Address = tuple[str, int]


@dataclass(frozen=True)
class DnsConfig:
    """`upstreams` None: those of `resolv_conf`; (): none, so that outside names are refused.

    `stub_domains` have upstreams of their own. An address that is None is not served.
    """

    zone: ZoneSettings = field(default_factory=ZoneSettings)
    listen: tuple[Address, ...] = (("0.0.0.0", 53),)
    upstreams: tuple[Server, ...] | None = None
    resolv_conf: str = "/etc/resolv.conf"
    stub_domains: tuple[tuple[str, tuple[Server, ...]], ...] = ()
    autopath: bool = False
    cache_entries: int = 10_000
    cache_seconds: int = 3600
    serve_stale_seconds: int = 0
    log_queries: bool = False
    processes: int = 1
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


def check(config: DnsConfig) -> None:
    """Raises ConfigInvalid for what cannot work."""
    zone = config.zone
    if not is_name(zone.domain):
        raise ConfigInvalid(f"cluster domain {zone.domain!r} is not a domain name")
    if zone.pods not in POD_MODES:
        raise ConfigInvalid(f"pods {zone.pods!r}: one of {', '.join(POD_MODES)}")
    if not 0 <= zone.ttl <= 3600:
        raise ConfigInvalid(f"ttl {zone.ttl}: 0 to 3600 seconds")
    for domain, _ in config.stub_domains:
        if not is_name(domain):
            raise ConfigInvalid(f"stub domain {domain!r} is not a domain name")
        if f".{domain}".endswith(f".{zone.domain}"):
            raise ConfigInvalid(f"stub domain {domain!r} is in the cluster's own domain {zone.domain!r}")
    if config.processes < 1:
        raise ConfigInvalid("processes: at least 1")
