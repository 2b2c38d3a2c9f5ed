"""Selection of the upstreams for each domain. This server itself is never an upstream. `instance.py` calls it."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from bridgehead.dns.config import DnsConfig, ForwardSettings, Server
from bridgehead.dns.errors import ConfigInvalid
from bridgehead.dns.messages import wire
from bridgehead.dns.messages.domain_names import is_name

from .forward import Forwarder
from .servers import parse_resolv_conf, parse_search

log = logging.getLogger(__name__)


def choose_upstreams(config: DnsConfig) -> tuple[Server, ...]:
    """Return the upstreams of the root. Raises ConfigInvalid if this server itself is configured."""
    if config.upstreams is not None:
        _refuse_self(config.upstreams, config)
        return config.upstreams
    try:
        found = parse_resolv_conf(Path(config.resolv_conf).read_text())
    except OSError as error:
        raise ConfigInvalid(f"{config.resolv_conf}: {error.strerror}; set upstreams, or that there are none") from error
    servers = []
    for server in found:
        if _is_self(server, config):
            log.warning("%s names %s, which is this server itself; it is not asked", config.resolv_conf, server)
        else:
            servers.append(server)
    if not servers:
        log.warning("%s has no upstream: queries for external names are refused", config.resolv_conf)
    return tuple(servers)


def _refuse_self(servers: Iterable[Server], config: DnsConfig) -> None:
    for server in servers:
        if _is_self(server, config):
            raise ConfigInvalid(f"upstream {server} is this server itself: queries would loop")


def _is_self(server: Server, config: DnsConfig) -> bool:
    if server.port == 53 and server.host in config.node_local:
        return True
    for host, port in config.listen:
        if port != server.port:
            continue
        if host == server.host or (host in ("", "0.0.0.0", "::") and _is_local(server.host)):
            return True
    return False


def _is_local(host: str) -> bool:
    """Whether this machine has the address. No packet is sent."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True


class Denial(NamedTuple):
    """The answer for names for which no upstream is asked. `is_owned`: the domain is a reverse zone of the cluster."""

    rcode: int
    is_owned: bool = False


Target = Forwarder | Denial


def plan_forwarders(config: DnsConfig, is_self: Callable[[Server], bool]) -> dict[bytes, Target]:
    """Return by domain, in wire form, the forwarder that is asked, or the answer.

    `is_self` recognizes the addresses by which the cluster reaches this server; they become known later.
    Raises ConfigInvalid.
    """
    upstreams = choose_upstreams(config)
    targets: dict[bytes, Target] = {}
    if upstreams:
        targets[b"\0"] = _forwarder(config, "", upstreams, is_self)
    targets |= {wire.encode_name(zone): Denial(wire.NXDOMAIN, is_owned=True) for zone in config.owned_reverse_zones}
    targets |= {wire.encode_name(domain): Denial(rcode) for domain, rcode in config.denied}
    for domain, servers in config.stub_domains:
        _refuse_self(servers, config)
        targets[wire.encode_name(domain.lower())] = _forwarder(config, domain, servers, is_self)
    return targets


def _forwarder(
    config: DnsConfig, domain: str, servers: tuple[Server, ...], is_self: Callable[[Server], bool]
) -> Forwarder:
    settings = dict(config.forwarding).get(domain, ForwardSettings())
    return Forwarder(servers, time.monotonic, settings, total_seconds=config.forward_seconds, is_self=is_self)


def plan_search(config: DnsConfig) -> tuple[bytes, ...]:
    """Return the node's search domains, which follow the cluster's in a pod's resolv.conf."""
    try:
        domains = parse_search(Path(config.resolv_conf).read_text())
    except OSError:
        return ()
    return tuple(wire.encode_name(domain) for domain in domains if is_name(domain))
