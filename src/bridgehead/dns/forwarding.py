"""Whom outside names are asked of, as a configuration says: never of ourselves. `engine.py` calls this."""

from __future__ import annotations

import logging
import random
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from . import wire
from .config import DnsConfig
from .connections import Server
from .errors import ConfigInvalid
from .records import is_name
from .upstream import Forwarder, parse_resolv_conf, parse_search

log = logging.getLogger(__name__)


def choose_upstreams(config: DnsConfig) -> tuple[Server, ...]:
    """Whom to ask: never ourselves. Raises ConfigInvalid when that was wished for."""
    if config.upstreams is not None:
        _refuse_ourselves(config.upstreams, config)
        return config.upstreams
    try:
        found = parse_resolv_conf(Path(config.resolv_conf).read_text())
    except OSError as error:
        raise ConfigInvalid(
            f"{config.resolv_conf}: {error.strerror}; name upstreams, or say that there are none"
        ) from error
    servers = []
    for server in found:
        if _is_us(server, config):
            log.warning("%s names %s, which is this server itself; left out", config.resolv_conf, server)
        else:
            servers.append(server)
    if not servers:
        log.warning("%s names no upstream: outside names are refused", config.resolv_conf)
    return tuple(servers)


def _refuse_ourselves(servers: Iterable[Server], config: DnsConfig) -> None:
    for server in servers:
        if _is_us(server, config):
            raise ConfigInvalid(f"upstream {server} is this server itself: a question would go round for ever")


def _is_us(server: Server, config: DnsConfig) -> bool:
    if server.port == 53 and server.host in config.node_local:
        return True
    for host, port in config.listen:
        if port != server.port:
            continue
        if host == server.host or (host in ("", "0.0.0.0", "::") and _is_local(server.host)):
            return True
    return False


def _is_local(host: str) -> bool:
    """Whether packets to this address would come back to this machine. Nothing is sent."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True


def plan_forwarders(config: DnsConfig, is_us: Callable[[Server], bool]) -> dict[bytes, Forwarder | int]:
    """By domain in wire form: who is asked, or the code that is the answer. `is_us` knows the addresses under which
    the cluster reaches us, which are found out later."""
    upstreams = choose_upstreams(config)
    found: dict[bytes, Forwarder | int] = {}
    if upstreams:
        found[b"\0"] = _forwarder(config, "", upstreams, is_us)
    found |= {wire.encode_name(domain): rcode for domain, rcode in config.denied}
    for domain, servers in config.stub_domains:
        _refuse_ourselves(servers, config)
        found[wire.encode_name(domain.lower())] = _forwarder(config, domain, servers, is_us)
    return found


def _forwarder(
    config: DnsConfig, domain: str, servers: tuple[Server, ...], is_us: Callable[[Server], bool]
) -> Forwarder:
    only_tcp = domain in config.asked_by_tcp
    return Forwarder(servers, time.monotonic, shuffle=_order(config, domain), is_us=is_us, only_tcp=only_tcp)


def _order(config: DnsConfig, domain: str) -> Callable[[list[Server]], None]:
    """In which order the upstreams of a domain are asked."""
    return _as_they_are if domain in config.asked_in_order else random.shuffle


def _as_they_are(servers: list[Server]) -> None:
    """The first that answers is asked."""


def plan_search(config: DnsConfig) -> tuple[bytes, ...]:
    """The node's own search domains, which stand behind the cluster's in a pod's resolv.conf."""
    try:
        domains = parse_search(Path(config.resolv_conf).read_text())
    except OSError:
        return ()
    return tuple(wire.encode_name(domain) for domain in domains if is_name(domain))
