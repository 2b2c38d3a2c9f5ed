"""A Corefile read into our configuration, so that people can bring theirs (source: CoreDNS' manual and plugins).

`cli/dns.py` calls this for `--config`. Understood are the directives of kubeadm's Corefile, `hosts`, `rewrite name`,
`template` and `transfer`, and a server block with a `forward` of its own for each stub domain. Files of hosts are read
with it. What we lack is named, all of it in one error: half a configuration would answer something else than its owner
wishes.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import NamedTuple

from . import wire
from .config import Address, DnsConfig, parse_address
from .connections import Server, Tls
from .corefile_text import Directive, Surroundings, invalid, parse
from .errors import ConfigInvalid
from .hosts import Entry, Hosts, parse_entry, parse_hosts
from .query_log import CLASSES
from .records import as_domain, is_within
from .rewriting import KINDS, make_rule
from .templates import read_template
from .transfer import Network
from .upstream import parse_resolv_conf, parse_server

_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600}
# Done anyway, or meant for what cannot happen here.
_WITHOUT_EFFECT = {
    "errors",
    "loop",
    "loadbalance",
    "fallthrough",
    "prefer_udp",
    "any",
    "cancel",
    "debug",
}
_TUNING = {
    "expire",
    "max_fails",
    "health_check",
    "prefetch",
    "keepttl",
    "servfail",
    "reload",
    "max_age",
}
_TUNING |= {"failfast_all_unhealthy_upstreams", "max_connect_attempts", "minimal", "multisocket", "pprof", "timeouts"}
_TUNING |= {"startup_timeout", "apiserver_qps", "apiserver_burst", "apiserver_max_inflight", "resyncperiod", "upstream"}
_NXDOMAIN = wire.RCODE_NAMES.index("NXDOMAIN")
_NO_LIMIT = 1 << 30
# What people wrote, and what they can do.
_INSTEAD = {
    "proxy": "write forward",
    "endpoint": "use --kubeconfig",
    "kubeconfig": "use --kubeconfig",
    "file": "forward the zone to a server that has it",
    "auto": "forward the zones to a server that has them",
    "secondary": "forward the zone to a server that has it",
}
_OF_CACHE = ("cache_entries", "cache_seconds", "cache_negative_seconds", "serve_stale_seconds", "cached", "uncached")
# What NodeLocal DNSCache itself puts into the file it was given.
_CLUSTER_DNS, _UPSTREAM_SERVERS = "__PILLAR__CLUSTER__DNS__", "__PILLAR__UPSTREAM__SERVERS__"


class Reading(NamedTuple):
    """The configuration, and what in the file has no effect here, for the log."""

    config: DnsConfig
    remarks: tuple[str, ...]


def read_corefile(text: str, base: DnsConfig, around: Surroundings = Surroundings()) -> Reading:  # noqa: B008
    """`base` gives what the file leaves open, `around` what it may refer to. Raises ConfigInvalid.

    Who serves addresses on the node can bring the file of NodeLocal DNSCache, which forwards to the cluster's DNS.
    """
    reader = _Reader(base, around)
    blocks = parse(text, around)
    if base.node_local and not any(line.name == "kubernetes" for block in blocks for line in block.block):
        blocks = tuple(_answering(block, base.zone.domain) for block in blocks)
    for block in blocks:
        reader.read_server(block)
    return reader.finish()


def _answering(server: Directive, domain: str) -> Directive:
    """A server block of NodeLocal DNSCache as ours: names of the cluster have answers here, and are asked of nobody."""
    domains = [_server_key(key, server.line)[0] for key in _keys(server)]
    lines: list[Directive] = []
    for line in server.block:
        if line.name == "forward" and domain in domains:
            pods = Directive(line.line, ("pods", "insecure"))
            lines.append(Directive(line.line, ("kubernetes", *domains), (pods,)))
        elif line.name == "forward" and line.arguments[1:] == (_CLUSTER_DNS,):
            continue  # reverse names: those of the cluster are here
        else:
            words = ("/etc/resolv.conf" if word == _UPSTREAM_SERVERS else word for word in line.words)
            lines.append(replace(line, words=tuple(words)))
    return replace(server, block=tuple(lines))


def _keys(server: Directive) -> list[str]:
    return " ".join(server.words).replace(",", " ").split()


class _Reader:
    def __init__(self, base: DnsConfig, around: Surroundings) -> None:
        self._around = around
        self._config = replace(base, upstreams=(), health=None, ready=None, metrics=None)
        self._stubs: list[tuple[str, tuple[Server, ...]]] = []
        self._excepted: list[str] = []
        self._has_cache = False  # that of the block for everything else
        self._denied: list[tuple[str, int]] = []
        self._lacking: list[str] = []
        self._remarks: list[str] = []
        self._has_cluster = False
        self._ports: list[tuple[int, int | str]] = []  # and the line of each
        self._limits: list[int] = []

    def finish(self) -> Reading:
        served = {port for _, port in self._config.listen}
        for port, line in self._ports:
            if self._has_cluster and port not in served:
                self._lacking.append(f"port {port} (line {line}: all names are served where those of the cluster are)")
        if self._lacking:
            raise ConfigInvalid(f"Corefile: not supported: {', '.join(self._lacking)}; take out what is not needed")
        if not self._has_cluster:
            raise ConfigInvalid("Corefile: no server block has a `kubernetes` directive")
        stubs = {zone for zone, _ in self._stubs}
        denied: dict[str, int] = {}
        for zone, rcode in self._denied:
            if zone not in stubs:
                denied.setdefault(zone, rcode)
        config = replace(self._config, stub_domains=tuple(self._stubs), denied=(*denied.items(), *self._left_out()))
        return Reading(config, tuple(self._remarks))

    def read_server(self, server: Directive) -> None:
        keys = [_server_key(key, server.line) for key in _keys(server)]
        self._ports += [(port, server.line) for _, port in keys]
        is_cluster = any(directive.name == "kubernetes" for directive in server.block)
        if is_cluster:
            if self._has_cluster:
                raise server.invalid("a second `kubernetes`")
            self._has_cluster = True
            hosts = {host for host, _ in self._config.listen}
            ports = dict.fromkeys(port for _, port in keys)
            self._set(listen=tuple((host, port) for port in ports for host in sorted(hosts)))
        for directive in server.block:
            if not is_cluster and directive.name == "forward":
                for zone, _ in keys:  # "." is all of the block's zone
                    of = zone if directive.arguments[:1] == (".",) and zone else "".join(directive.arguments[:1])
                    self._read_forward(replace(directive, words=("forward", of, *directive.arguments[1:])))
            elif directive.name == "template":
                self._read_template(directive, tuple(zone for zone, _ in keys), for_others=not is_cluster)
            elif directive.name == "cache":
                self._read_cache(directive, is_for_all=any(not zone for zone, _ in keys), is_cluster=is_cluster)
            elif directive.name == "kubernetes" and not directive.arguments:
                self._read_kubernetes(replace(directive, words=("kubernetes", *(zone for zone, _ in keys))))
            elif directive.name == "rewrite" and (is_cluster or any(not zone for zone, _ in keys)):
                self._read_rewrite(directive, for_others=not is_cluster)
            elif not is_cluster and directive.name in ("rewrite", "transfer", "autopath"):
                self._lacking.append(f"{directive.name} outside the cluster's server block (line {directive.line})")
            elif directive.name == "hosts":
                self._read_hosts(directive, tuple(zone for zone, _ in keys))
            else:
                self._read(directive, f"_read_{directive.name}")

    def _read(self, directive: Directive, method: str) -> None:
        read: Callable[[Directive], None] | None = getattr(self, method, None)
        if read is not None:
            read(directive)
        elif directive.name in _TUNING:
            self._remarks.append(f"line {directive.line}: {directive.name!r} has no effect here")
        elif directive.name not in _WITHOUT_EFFECT:
            self._lacking.append(f"{directive.name} (line {directive.line}{self._advice(directive.name, method)})")

    def _advice(self, name: str, method: str) -> str:
        """What to write instead, as far as it can be guessed."""
        if name in _INSTEAD:
            return f": {_INSTEAD[name]}"
        place = method.removesuffix(name)
        known = [known.removeprefix(place) for known in dir(self) if known.startswith(place)]
        alike = difflib.get_close_matches(name, [*known, *_WITHOUT_EFFECT, *_TUNING], n=1, cutoff=0.8)
        return f": {alike[0]}?" if alike else ""

    def _set(self, **changes: object) -> None:
        self._config = replace(self._config, **changes)  # type: ignore[arg-type]

    # --- Directives of a server block --------------------------------------------------------------------------

    def _read_kubernetes(self, directive: Directive) -> None:
        zones = dict.fromkeys(_domains(directive.arguments))
        domains = [zone for zone in zones if not zone.endswith((".arpa", "arpa"))]
        if len(domains) != 1:
            raise directive.invalid(f"kubernetes with {len(domains)} domains, not one")
        self._set(zone=replace(self._config.zone, domain=domains[0], pods="disabled"))
        for option in directive.block:
            self._read(option, f"_kubernetes_{option.name}")
        # Addresses of the cluster have their names; of others in zones that do not fall through nobody is asked.
        through = [line.arguments or ("",) for line in directive.block if line.name == "fallthrough"]
        falling = _domains(word for words in through for word in words)
        self._denied += [(zone, _NXDOMAIN) for zone in zones if zone not in domains and not _is_in(zone, falling)]

    def _kubernetes_pods(self, option: Directive) -> None:
        self._set(zone=replace(self._config.zone, pods=_one(option)))

    def _kubernetes_fallthrough(self, option: Directive) -> None:
        """What it says of reverse zones is heard above. Names of the cluster are asked of nobody."""
        if not option.arguments or self._config.zone.domain in _domains(option.arguments):
            self._remarks.append(f"line {option.line}: names of {self._config.zone.domain} do not fall through")

    def _kubernetes_namespaces(self, option: Directive) -> None:
        self._set(zone=replace(self._config.zone, namespaces=option.arguments))

    def _kubernetes_endpoint_pod_names(self, option: Directive) -> None:
        self._set(zone=replace(self._config.zone, endpoint_pod_names=True))

    def _kubernetes_ttl(self, option: Directive) -> None:
        self._set(zone=replace(self._config.zone, ttl=_number(option)))

    def _read_forward(self, directive: Directive) -> None:
        zone = as_domain(directive.arguments[0]) if directive.arguments else ""
        if len(directive.arguments) == 2 and directive.arguments[1].startswith("/") and not zone:
            self._set(upstreams=None, resolv_conf=directive.arguments[1])
        elif zone:
            self._stubs.append((zone, self._upstreams(directive)))
        else:
            self._set(upstreams=self._upstreams(directive))
        for option in directive.block:
            match option.name:
                case "policy" if option.arguments == ("sequential",):
                    self._set(asked_in_order=(*self._config.asked_in_order, zone))
                case "policy" if option.arguments in (("random",), ("round_robin",)):
                    continue  # who asks at random asks all alike
                case "force_tcp":
                    self._set(asked_by_tcp=(*self._config.asked_by_tcp, zone))
                case "tls" | "tls_servername":
                    continue  # read with the servers
                case "except" if not zone:
                    self._excepted += _domains(option.arguments)
                case _:
                    self._read(option, f"_forward_{option.name}")

    def _forward_max_concurrent(self, option: Directive) -> None:
        """One limit is for all questions that are open, the largest. 0 is none."""
        self._limits.append(_number(option) or _NO_LIMIT)
        self._set(most_open=max(self._limits))

    def _left_out(self) -> Iterable[tuple[str, int]]:
        """What `except` keeps from the upstreams, and nobody else is asked about: CoreDNS says SERVFAIL, too."""
        asked = [zone for zone, _ in self._stubs] + [zone for zone, _ in self._denied if zone]
        own = (self._config.zone.domain,)
        return [(zone, wire.SERVFAIL) for zone in dict.fromkeys(self._excepted) if not _is_in(zone, (*asked, *own))]

    def _upstreams(self, directive: Directive) -> tuple[Server, ...]:
        if len(directive.arguments) < 2:
            raise directive.invalid("forward FROM TO...")
        servers: list[Server] = []
        for text in directive.arguments[1:]:
            try:
                if text.startswith("/"):
                    servers += parse_resolv_conf(self._around.read(text))
                else:
                    servers.append(parse_server(text))
            except ConfigInvalid as error:
                raise directive.invalid(str(error)) from error
            except OSError as error:
                raise directive.invalid(f"{text}: {error.strerror}") from error
        return tuple(
            server if server.tls is None else self._proven(server, server.tls, directive) for server in servers
        )

    def _proven(self, server: Server, tls: Tls, directive: Directive) -> Server:
        """With what the lines `tls [CERT KEY] [CA]` and `tls_servername NAME` say of it."""
        for option in directive.block:
            words = option.arguments
            if option.name == "tls_servername":
                if tls.name:
                    raise option.invalid(f"tls_servername, and {tls.name} for {server}")
                tls = tls._replace(name=_one(option))
            elif option.name == "tls":
                if len(words) > 3:
                    raise option.invalid("tls [CERT KEY] [CA]")
                paths = [os.path.join(self._around.directory, path) for path in words]
                *own, authority = paths if len(paths) % 2 else [*paths, ""]
                certificate, key = own or ("", "")
                tls = tls._replace(authority=authority, certificate=certificate, key=key)
        return server._replace(tls=tls)

    def _read_cache(self, directive: Directive, *, is_for_all: bool, is_cluster: bool) -> None:
        """One cache is for all outside names. What the block for everything else says of it counts."""
        if self._has_cache or not (is_for_all or is_cluster):
            self._remarks.append(f"line {directive.line}: one cache is for all, and not this one")
            return
        self._has_cache = is_for_all
        self._set(**{name: getattr(DnsConfig(), name) for name in _OF_CACHE})
        words = directive.arguments
        if words and words[0].isdecimal():
            self._set(cache_seconds=int(words[0]), cache_negative_seconds=int(words[0]))
            words = words[1:]
        if words:
            self._set(cached=_domains(words))
        for option in directive.block:
            self._read(option, f"_cache_{option.name}")

    def _cache_success(self, option: Directive) -> None:
        entries, seconds = self._capacity(option, self._config.cache_seconds)
        self._set(cache_entries=entries, cache_seconds=seconds)

    def _cache_denial(self, option: Directive) -> None:
        _, seconds = self._capacity(option, self._config.cache_negative_seconds)  # they share the room of the others
        self._set(cache_negative_seconds=seconds)

    def _capacity(self, option: Directive, seconds: int) -> tuple[int, int]:
        """CAPACITY [TTL [MINTTL]]; nothing is kept for longer than its owner says."""
        words = option.arguments
        if not 1 <= len(words) <= 3 or not all(word.isdecimal() for word in words):
            raise option.invalid(f"{option.name} CAPACITY [TTL [MINTTL]]")
        if len(words) == 3:
            self._remarks.append(f"line {option.line}: the least TTL has no effect here")
        return int(words[0]), int(words[1]) if len(words) > 1 else seconds

    def _cache_serve_stale(self, option: Directive) -> None:
        self._set(serve_stale_seconds=int(_seconds(option)) if option.arguments else 3600)

    def _cache_disable(self, option: Directive) -> None:
        """`disable success cluster.local`: the cluster's names never are in the cache."""
        kind, *zones = option.arguments or ("",)
        if kind not in ("success", "denial"):
            raise option.invalid("disable success|denial [ZONE...]")
        self._set(uncached=(*self._config.uncached, *((kind, zone) for zone in _domains(zones) or ("",))))

    def _read_bufsize(self, directive: Directive) -> None:
        size = _number(directive) if directive.arguments else DnsConfig.udp_size
        if not wire.UDP_SIZE <= size <= 4096:
            raise directive.invalid(f"bufsize {size}: {wire.UDP_SIZE} to 4096")
        self._set(udp_size=size)

    def _read_health(self, directive: Directive) -> None:
        self._set(health=_page(directive, 8080))
        for option in directive.block:
            self._read(option, f"_health_{option.name}")

    def _health_lameduck(self, option: Directive) -> None:
        self._set(lameduck_seconds=_seconds(option))

    def _read_ready(self, directive: Directive) -> None:
        self._set(ready=_page(directive, 8181))

    def _read_prometheus(self, directive: Directive) -> None:
        self._set(metrics=_page(directive, 9153, host="localhost"))

    def _read_log(self, directive: Directive) -> None:
        if directive.arguments not in ((), (".",)):
            self._lacking.append(f"log {' '.join(directive.arguments)} (line {directive.line})")
        classes: list[str] = []
        for option in directive.block:
            if option.name == "class" and option.arguments and set(option.arguments) <= {*CLASSES, "all"}:
                classes += option.arguments
            else:
                self._lacking.append(f"{' '.join(option.words)!r} in log (line {option.line})")
        self._set(log_queries=True, log_classes=() if "all" in classes else tuple(dict.fromkeys(classes)))

    def _read_autopath(self, directive: Directive) -> None:
        if _one(directive) != "@kubernetes":
            raise directive.invalid("autopath only by @kubernetes")
        self._set(autopath=True)

    def _read_hosts(self, directive: Directive, zones: tuple[str, ...]) -> None:
        """`zones` are the server block's; the directive may name others."""
        path, *its_zones = directive.arguments or ("/etc/hosts",)
        zones = _domains(its_zones) or zones
        entries: list[Entry] = []
        hosts = Hosts()
        through: tuple[str, ...] = ()
        for option in directive.block:
            match option.name:
                case "fallthrough":
                    through = _domains(option.arguments) or ("",)
                case "ttl":
                    hosts = replace(hosts, ttl=_number(option))
                case "no_reverse":
                    hosts = replace(hosts, has_reverse=False)
                case "reload":
                    continue  # the file is read whenever the Corefile is
                case _:
                    entry = parse_entry(list(option.words))
                    if entry is None:
                        self._lacking.append(f"{' '.join(option.words)!r} in hosts (line {option.line})")
                    else:
                        entries.append(entry)
        foreign = [name for _, names in entries for name in names if not _is_in(name, zones)]
        if foreign:
            self._remarks.append(f"line {directive.line}: {', '.join(foreign)}: not in a zone of these hosts")
        try:
            entries += parse_hosts(self._around.read(path))
        except OSError as error:
            self._remarks.append(f"line {directive.line}: {path}: {error.strerror}")
        entries = [(address, tuple(name for name in names if _is_in(name, zones))) for address, names in entries]
        if "" in zones and "" not in through:
            raise directive.invalid("hosts without `fallthrough` would deny every other name")
        self._denied += [(zone, _NXDOMAIN) for zone in zones if not _is_in(zone, through)]
        kept = tuple((address, names) for address, names in entries if names)
        self._set(hosts=(*self._config.hosts, replace(hosts, entries=kept)))

    def _read_rewrite(self, directive: Directive, *, for_others: bool) -> None:
        """`rewrite [continue|stop] name [KIND] FROM TO [answer auto]`, or that in a block with `answer name`."""
        words = list(directive.arguments)
        is_last = True
        if words[:1] in (["continue"], ["stop"]):
            is_last = words.pop(0) == "stop"
        if not words and directive.block:
            answers = [line for line in directive.block if line.name == "answer"]
            names = [line for line in directive.block if line.name != "answer"]
            if len(names) != 1 or any(line.arguments[:1] not in (("name",), ("auto",)) for line in answers):
                raise directive.invalid("rewrite takes one `name` line and answers to it")
            words = list(names[0].words)
        if words[-2:] == ["answer", "auto"]:
            del words[-2:]
        if words[:1] != ["name"]:
            self._lacking.append(f"rewrite {' '.join(words[:1])} (line {directive.line})")
            return
        kind, *rest = words[1:] if words[1:2] and words[1] in KINDS and len(words) > 3 else ["exact", *words[1:]]
        if len(rest) != 2:
            raise directive.invalid("rewrite name [KIND] FROM TO")
        rule = make_rule(kind, *rest, is_last=is_last, for_others=for_others)
        self._set(rewrites=(*self._config.rewrites, rule))

    def _read_template(self, directive: Directive, zones: tuple[str, ...], *, for_others: bool) -> None:
        template = read_template(directive, zones, for_others=for_others)
        if not for_others and template.is_denial and template.zones == zones:
            raise directive.invalid(
                "template would deny every name of the cluster; name zones, or give it a server block of its own"
            )
        if for_others and template.is_denial and template.zones == zones:
            self._denied += [(zone, template.rcode) for zone in zones]  # nobody is asked, whatever leads there
        else:
            self._set(templates=(*self._config.templates, template))

    def _read_transfer(self, directive: Directive) -> None:
        """Whoever is named may ask; nobody is notified."""
        found: list[Network] = []
        for option in directive.block:
            if option.name != "to" or not option.arguments:
                self._lacking.append(f"{option.name} in transfer (line {option.line})")
                continue
            for text in option.arguments:
                found += _networks(text, option.line)
        self._set(transfer_to=(*self._config.transfer_to, *found))

    def _read_bind(self, directive: Directive) -> None:
        ports = dict.fromkeys(port for _, port in self._config.listen)
        self._set(listen=tuple((host, port) for port in ports for host in directive.arguments))


def _domains(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(map(as_domain, words))


def _is_in(name: str, zones: Iterable[str]) -> bool:
    return any(is_within(name, zone) for zone in zones)


def _networks(text: str, line: int | str) -> tuple[Network, ...]:
    """Of "*", an address (with a port or without) or a range."""
    if text == "*":
        return ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")
    try:
        return (ipaddress.ip_network(text if "/" in text else parse_address("", text, 53)[0], strict=False),)
    except (ValueError, ConfigInvalid) as error:
        raise invalid(line, f"{text!r} is neither an address nor a range") from error


def _server_key(key: str, line: int | str) -> Address:
    """ ".:53", "dns://corp.example:1053", "corp.example" -> domain ("" for the root) and port."""
    scheme, separator, rest = key.rpartition("://")
    if separator and scheme != "dns":
        raise invalid(line, f"{scheme!r} is not supported, only plain DNS")
    domain, port = parse_address(f"Corefile, line {line}", rest, 53)
    return as_domain(domain), port


def _page(directive: Directive, port: int, host: str = "") -> Address:
    return parse_address(f"Corefile, line {directive.line}", _one(directive) if directive.arguments else host, port)


def _one(directive: Directive) -> str:
    if len(directive.arguments) != 1:
        raise directive.invalid(f"{directive.name} takes one word")
    return directive.arguments[0]


def _number(directive: Directive) -> int:
    words = directive.arguments
    if len(words) != 1 or not words[0].isdecimal():
        raise directive.invalid(f"{directive.name} takes a number")
    return int(words[0])


def _seconds(directive: Directive) -> float:
    """Go's way to write them: 30s, 1h, 500ms."""
    word = directive.arguments[0] if directive.arguments else ""
    found = re.fullmatch(r"(\d+)(ms|s|m|h)", word)
    if found is None:
        raise directive.invalid(f"{word!r} is not a time")
    return int(found[1]) * _UNITS[found[2]]
