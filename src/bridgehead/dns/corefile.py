"""A Corefile read into our configuration, so that people can bring theirs (source: CoreDNS' manual and plugins).

`cli/dns.py` calls this for `--config`. Understood are the directives of kubeadm's Corefile, and a server block with a
`forward` of its own for each stub domain. What we lack is named, all of it in one error: half a configuration would
answer something else than its owner wishes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from .config import Address, DnsConfig, parse_address
from .errors import ConfigInvalid
from .upstream import Server, parse_server

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
# Done anyway, or meant for what cannot happen here.
_WITHOUT_EFFECT = {"errors", "loop", "loadbalance", "lameduck", "fallthrough", "max_concurrent", "prefer_udp"}
_TUNING = {"policy", "expire", "max_fails", "health_check", "denial", "prefetch", "keepttl", "reload"}


@dataclass(frozen=True)
class Directive:
    """One line: its words, and the lines of its block."""

    line: int
    words: tuple[str, ...]
    block: tuple[Directive, ...] = ()

    @property
    def name(self) -> str:
        return self.words[0]

    @property
    def arguments(self) -> tuple[str, ...]:
        return self.words[1:]


class Reading(NamedTuple):
    """The configuration, and what in the file has no effect here, for the log."""

    config: DnsConfig
    remarks: tuple[str, ...]


def read_corefile(text: str, base: DnsConfig) -> Reading:
    """`base` gives what the file leaves open. Raises ConfigInvalid."""
    reader = _Reader(base)
    for block in _parse(text):
        reader.read_server(block)
    return reader.finish()


def _parse(text: str) -> tuple[Directive, ...]:
    """The server blocks. Braces open at a line's end and close on a line of their own."""
    open_blocks: list[tuple[int, tuple[str, ...], list[Directive]]] = [(0, (), [])]
    number = 0
    for number, line in enumerate(text.splitlines(), 1):
        words = tuple(word.strip('"') for word in re.findall(r'"[^"]*"|[^\s"]+', re.sub(r"(^|\s)#.*", "", line)))
        if not words:
            continue
        if words == ("}",):
            if len(open_blocks) == 1:
                raise ConfigInvalid(f"Corefile, line {number}: a brace is closed that was not opened")
            begun, its_words, inside = open_blocks.pop()
            open_blocks[-1][2].append(Directive(begun, its_words, tuple(inside)))
        elif words[-1] == "{":
            if len(words) == 1:
                raise ConfigInvalid(f"Corefile, line {number}: a block without a name")
            open_blocks.append((number, words[:-1], []))
        elif "{" in words or "}" in words:
            raise ConfigInvalid(f"Corefile, line {number}: a brace in the middle of a line")
        else:
            open_blocks[-1][2].append(Directive(number, words))
    if len(open_blocks) > 1:
        raise ConfigInvalid(f"Corefile, line {open_blocks[-1][0]}: a brace is opened and not closed")
    return tuple(open_blocks[0][2])


class _Reader:
    def __init__(self, base: DnsConfig) -> None:
        self._config = replace(base, upstreams=(), health=None, ready=None, metrics=None)
        self._stubs: list[tuple[str, tuple[Server, ...]]] = []
        self._lacking: list[str] = []
        self._remarks: list[str] = []
        self._has_cluster = False

    def finish(self) -> Reading:
        if self._lacking:
            raise ConfigInvalid(f"Corefile: not supported: {', '.join(self._lacking)}")
        if not self._has_cluster:
            raise ConfigInvalid("Corefile: no server block has a `kubernetes` directive")
        return Reading(replace(self._config, stub_domains=tuple(self._stubs)), tuple(self._remarks))

    def read_server(self, server: Directive) -> None:
        keys = [_server_key(key, server.line) for key in " ".join(server.words).replace(",", " ").split()]
        is_cluster = any(directive.name == "kubernetes" for directive in server.block)
        if is_cluster:
            if self._has_cluster:
                raise ConfigInvalid(f"Corefile, line {server.line}: a second `kubernetes`")
            self._has_cluster = True
            hosts = {host for host, _ in self._config.listen}
            ports = dict.fromkeys(port for _, port in keys)
            self._set(listen=tuple((host, port) for port in ports for host in sorted(hosts)))
        for directive in server.block:
            if not is_cluster and directive.name == "forward":
                to = self._upstreams(directive)
                self._stubs += [(zone, to) for zone, _ in keys if zone]
            elif not is_cluster and directive.name == "cache":
                continue  # one cache is for all
            else:
                self._read(directive, f"_read_{directive.name}")

    def _read(self, directive: Directive, method: str) -> None:
        read: Callable[[Directive], None] | None = getattr(self, method, None)
        if read is not None:
            read(directive)
        elif directive.name in _TUNING:
            self._remarks.append(f"line {directive.line}: {directive.name!r} has no effect here")
        elif directive.name not in _WITHOUT_EFFECT:
            self._lacking.append(f"{directive.name} (line {directive.line})")

    def _set(self, **changes: object) -> None:
        self._config = replace(self._config, **changes)  # type: ignore[arg-type]

    # --- Directives of a server block --------------------------------------------------------------------------

    def _read_kubernetes(self, directive: Directive) -> None:
        zones = [zone.rstrip(".").lower() for zone in directive.arguments]
        domains = [zone for zone in zones if not zone.endswith((".arpa", "arpa"))]
        if len(domains) != 1:
            raise ConfigInvalid(f"Corefile, line {directive.line}: kubernetes with {len(domains)} domains, not one")
        self._set(zone=replace(self._config.zone, domain=domains[0]))
        for option in directive.block:
            self._read(option, f"_kubernetes_{option.name}")

    def _kubernetes_pods(self, option: Directive) -> None:
        self._set(zone=replace(self._config.zone, pods=_one(option)))

    def _kubernetes_ttl(self, option: Directive) -> None:
        self._set(zone=replace(self._config.zone, ttl=_number(option)))

    def _read_forward(self, directive: Directive) -> None:
        zone = directive.arguments[0].rstrip(".").lower() if directive.arguments else ""
        if len(directive.arguments) == 2 and directive.arguments[1].startswith("/") and not zone:
            self._set(upstreams=None, resolv_conf=directive.arguments[1])
        elif zone:
            self._stubs.append((zone, self._upstreams(directive)))
        else:
            self._set(upstreams=self._upstreams(directive))
        for option in directive.block:
            self._read(option, f"_forward_{option.name}")

    def _upstreams(self, directive: Directive) -> tuple[Server, ...]:
        if len(directive.arguments) < 2:
            raise ConfigInvalid(f"Corefile, line {directive.line}: forward FROM TO...")
        return tuple(parse_server(text.removeprefix("dns://")) for text in directive.arguments[1:])

    def _read_cache(self, directive: Directive) -> None:
        if directive.arguments and directive.arguments[0].isdecimal():
            self._set(cache_seconds=int(directive.arguments[0]))
        for option in directive.block:
            self._read(option, f"_cache_{option.name}")

    def _cache_success(self, option: Directive) -> None:
        self._set(cache_entries=_number(option, at_most=2))

    def _cache_serve_stale(self, option: Directive) -> None:
        self._set(serve_stale_seconds=int(_seconds(option)) if option.arguments else 3600)

    def _cache_disable(self, option: Directive) -> None:
        """`disable success cluster.local`: the cluster's names never are in the cache."""

    def _read_health(self, directive: Directive) -> None:
        self._set(health=_page(directive, 8080))
        for option in directive.block:
            self._read(option, f"_health_{option.name}")

    def _read_ready(self, directive: Directive) -> None:
        self._set(ready=_page(directive, 8181))

    def _read_prometheus(self, directive: Directive) -> None:
        self._set(metrics=_page(directive, 9153))

    def _read_log(self, directive: Directive) -> None:
        self._set(log_queries=True)

    def _read_autopath(self, directive: Directive) -> None:
        if _one(directive) != "@kubernetes":
            raise ConfigInvalid(f"Corefile, line {directive.line}: autopath only by @kubernetes")
        self._set(autopath=True)

    def _read_bind(self, directive: Directive) -> None:
        ports = dict.fromkeys(port for _, port in self._config.listen)
        self._set(listen=tuple((host, port) for port in ports for host in directive.arguments))


def _server_key(key: str, line: int) -> Address:
    """ ".:53", "dns://corp.example:1053", "corp.example" -> domain ("" for the root) and port."""
    scheme, separator, rest = key.rpartition("://")
    if separator and scheme != "dns":
        raise ConfigInvalid(f"Corefile, line {line}: {scheme!r} is not supported, only plain DNS")
    domain, port = parse_address(f"Corefile, line {line}", rest, 53)
    return domain.rstrip(".").lower(), port


def _page(directive: Directive, port: int) -> Address:
    return parse_address(f"Corefile, line {directive.line}", _one(directive) if directive.arguments else "", port)


def _one(directive: Directive) -> str:
    if len(directive.arguments) != 1:
        raise ConfigInvalid(f"Corefile, line {directive.line}: {directive.name} takes one word")
    return directive.arguments[0]


def _number(directive: Directive, at_most: int = 1) -> int:
    words = directive.arguments
    if not words or len(words) > at_most or not words[0].isdecimal():
        raise ConfigInvalid(f"Corefile, line {directive.line}: {directive.name} takes a number")
    return int(words[0])


def _seconds(directive: Directive) -> float:
    """Go's way to write them: 30s, 1h, 500ms."""
    found = re.fullmatch(r"(\d+)(ms|s|m|h)", directive.arguments[0])
    if found is None:
        raise ConfigInvalid(f"Corefile, line {directive.line}: {directive.arguments[0]!r} is not a time")
    return int(found[1]) * _UNITS[found[2]]
