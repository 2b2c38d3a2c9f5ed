"""Addresses of upstream servers, as people and resolv.conf(5) write them."""

from __future__ import annotations

import logging
import socket

from bridgehead.dns.config import Server, Tls
from bridgehead.dns.errors import ConfigInvalid
from bridgehead.dns.messages.domain_names import as_domain

log = logging.getLogger(__name__)

TLS_PORT = 853  # RFC 7858


def parse_server(text: str) -> Server:
    """Parse "1.1.1.1", "10.0.0.1:5353", "fd00::1" or "[fd00::1]:5353". Raises ConfigInvalid.

    After "tls://" the name in the server's certificate may follow the address: "tls://9.9.9.9%dns.quad9.net:853".
    """
    scheme, _, address = text.rpartition("://")
    if scheme not in ("", "dns", "tls"):
        raise ConfigInvalid(f"upstream {text!r}: only dns:// and tls:// are supported")
    tls, default = (Tls(), TLS_PORT) if scheme == "tls" else (None, 53)
    if tls is not None and "%" in address:
        address, _, name = address.partition("%")
        name, _, port = name.partition(":")
        tls = Tls(name)
        address = f"{address}:{port}" if port else address
    host, port = address, ""
    if address.startswith("["):
        host, _, rest = address[1:].partition("]")
        port = rest.removeprefix(":")
    elif address.count(":") == 1:
        host, _, port = address.partition(":")
    try:
        socket.inet_pton(socket.AF_INET6 if ":" in host else socket.AF_INET, host)
    except OSError:
        raise ConfigInvalid(f"upstream {text!r} is not an address") from None
    if not (port or "53").isdecimal() or not 0 < int(port or "53") < 65536:
        raise ConfigInvalid(f"upstream {text!r}: {port!r} is not a port")
    return Server(host, int(port or default), tls)


def parse_resolv_conf(text: str) -> list[Server]:
    """Return the name servers of a resolv.conf, without addresses with a scope, which need an interface."""
    servers = []
    for line in text.splitlines():
        fields = line.split("#")[0].split(";")[0].split()
        if len(fields) >= 2 and fields[0] == "nameserver" and "%" not in fields[1]:
            try:
                servers.append(parse_server(f"[{fields[1]}]" if ":" in fields[1] else fields[1]))
            except ConfigInvalid as error:
                log.warning("resolv.conf: %s", error)
    return servers


def parse_search(text: str) -> list[str]:
    """Return the search domains of a resolv.conf: those of its last `search` or `domain` line."""
    found: list[str] = []
    for line in text.splitlines():
        fields = line.split("#")[0].split(";")[0].split()
        if fields and fields[0] in ("search", "domain"):
            found = [as_domain(field) for field in fields[1:] if field != "."]
    return found
