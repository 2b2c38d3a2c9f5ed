"""The directives `forward` and `cache`: which upstreams are asked, how, and what of their answers is kept.

Pure: no I/O, no clock, no randomness. The caller's `Sources` reads files like resolv.conf.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bridgehead.dns.config import DnsConfig, Server, Tls
from bridgehead.dns.errors import ConfigInvalid
from bridgehead.dns.messages.names import as_zones
from bridgehead.dns.upstreams import parse_resolv_conf, parse_server

from .draft import (
    Draft,
    ServerBlock,
    Spec,
    Table,
    WrongArguments,
    has_no_effect,
    ignore,
    number,
    one_argument,
    one_of,
    read_line,
    seconds,
)
from .text import Directive

NO_LIMIT = 1 << 30  # queries at one time, for `max_concurrent 0`


# --- forward -----------------------------------------------------------------------------------------------------


@dataclass
class Forward:
    """One `forward` directive for one of its block's zones; "" is the root.

    `tls` is what the options `tls` and `tls_servername` contain; `servername` is the line of the latter.
    """

    zone: str
    tls: Tls = field(default_factory=Tls)
    servername: Directive | None = None


def read_forward(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `forward FROM TO...`. In a block for other zones than the cluster's, `.` stands for each of the zones."""
    own = as_zones(directive.arguments[:1]) or ("",)
    for zone in block.zones if own == ("",) and not block.is_cluster else own:
        _read_forward(draft, Forward(zone), directive)


def _read_forward(draft: Draft, forward: Forward, directive: Directive) -> None:
    for option in directive.block:
        read_line(draft, forward, option, FORWARD_OPTIONS)
    servers = directive.arguments[1:]
    if not servers:
        raise WrongArguments
    if not forward.zone and len(servers) == 1 and servers[0].startswith("/"):
        draft.set(upstreams=None, resolv_conf=servers[0])
    elif forward.zone:
        draft.stubs.append((forward.zone, _upstreams(draft, forward, directive)))
    else:
        draft.set(upstreams=_upstreams(draft, forward, directive))


def _upstreams(draft: Draft, forward: Forward, directive: Directive) -> tuple[Server, ...]:
    servers: list[Server] = []
    for text in directive.arguments[1:]:
        try:
            if text.startswith("/"):
                servers += parse_resolv_conf(draft.sources.read(text))
            else:
                servers.append(parse_server(text))
        except ConfigInvalid as error:
            raise directive.invalid(str(error)) from error
        except OSError as error:
            raise directive.invalid(f"{text}: {error.strerror}") from error
    return tuple(server if server.tls is None else _with_tls(server, server.tls, forward) for server in servers)


def _with_tls(server: Server, tls: Tls, forward: Forward) -> Server:
    if forward.servername is None:
        return server._replace(tls=forward.tls._replace(name=tls.name))
    if tls.name:
        raise forward.servername.invalid(f"tls_servername, and {tls.name} for {server}")
    return server._replace(tls=forward.tls)


def _tls(draft: Draft, forward: Forward, option: Directive) -> None:
    if len(option.arguments) > 3:
        raise WrongArguments
    paths = [draft.sources.path(name) for name in option.arguments]
    *client, authority = paths if len(paths) % 2 else [*paths, ""]
    certificate, key = client or ("", "")
    forward.tls = forward.tls._replace(authority=authority, certificate=certificate, key=key)


def _tls_servername(draft: Draft, forward: Forward, option: Directive) -> None:
    forward.servername = option
    forward.tls = forward.tls._replace(name=one_argument(option))


def _policy(draft: Draft, forward: Forward, option: Directive) -> None:
    """Servers are asked in random order, which serves `round_robin` as well."""
    if one_of(option, one_argument(option), ("random", "round_robin", "sequential")) == "sequential":
        draft.set(sequential=(*draft.config.sequential, forward.zone))


def _force_tcp(draft: Draft, forward: Forward, option: Directive) -> None:
    draft.set(tcp_only=(*draft.config.tcp_only, forward.zone))


def _except(draft: Draft, forward: Forward, option: Directive) -> None:
    if forward.zone:
        draft.reject(option, "except", "only in a `forward .`")
    else:
        draft.excepted += as_zones(option.arguments)


def _failover(draft: Draft, forward: Forward, option: Directive) -> None:
    """Read `failover`: every code but NOERROR and NXDOMAIN leads to the next server anyway."""
    codes = [code.upper() for code in option.arguments]
    if not codes or "NOERROR" in codes:
        raise WrongArguments
    if "NXDOMAIN" in codes:
        draft.reject(option, "failover NXDOMAIN")


def _max_concurrent(draft: Draft, forward: Forward, option: Directive) -> None:
    """There is one limit for all queries to upstreams: the largest. 0 is none."""
    draft.concurrency_limits.append(number(option) or NO_LIMIT)
    draft.set(max_concurrent=max(draft.concurrency_limits))


FORWARD_OPTIONS: Table[Forward] = {
    "except": Spec("except DOMAIN...", "domains that `forward .` leaves out", _except),
    "policy": Spec("policy random|round_robin|sequential", "the order in which servers are asked", _policy),
    "force_tcp": Spec("force_tcp", "servers are asked by TCP only", _force_tcp),
    "prefer_udp": Spec("prefer_udp", "servers are asked by UDP first, as they are anyway", ignore),
    "tls": Spec("tls [CERT KEY] [CA]", "certificates for servers that are asked by TLS", _tls),
    "tls_servername": Spec("tls_servername NAME", "the name in the servers' certificates", _tls_servername),
    "failover": Spec("failover CODE...", "codes that lead to the next server", _failover),
    "max_concurrent": Spec("max_concurrent NUMBER", "queries that wait for upstreams at one time", _max_concurrent),
    **{
        name: Spec(name, "tunes connections and health checks of CoreDNS", has_no_effect)
        for name in (
            "expire",
            "max_idle_conns",
            "max_age",
            "max_fails",
            "health_check",
            "failfast_all_unhealthy_upstreams",
            "max_connect_attempts",
        )
    },
}

# --- cache -------------------------------------------------------------------------------------------------------

_CACHE_SETTINGS = (
    "cache_entries",
    "cache_seconds",
    "cache_negative_seconds",
    "serve_stale_seconds",
    "cached",
    "uncached",
)


def read_cache(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `cache [TTL] [ZONE...]`. There is one cache: a directive in a block for `.` goes before the cluster's."""
    if draft.has_root_cache or not (block.is_root or block.is_cluster):
        draft.remark(directive, "there is one cache for all server blocks, and this directive does not set it")
        return
    draft.has_root_cache = block.is_root
    draft.set(**{name: getattr(DnsConfig(), name) for name in _CACHE_SETTINGS})
    arguments = directive.arguments
    if arguments and arguments[0].isdecimal():
        draft.set(cache_seconds=int(arguments[0]), cache_negative_seconds=int(arguments[0]))
        arguments = arguments[1:]
    if arguments:
        draft.set(cached=as_zones(arguments))
    for option in directive.block:
        read_line(draft, block, option, CACHE_OPTIONS)


def _success(draft: Draft, block: ServerBlock, option: Directive) -> None:
    entries, ttl = _capacity(draft, option, draft.config.cache_seconds)
    draft.set(cache_entries=entries, cache_seconds=ttl)


def _denial(draft: Draft, block: ServerBlock, option: Directive) -> None:
    """Positive and negative answers share one capacity, that of `success`."""
    _, ttl = _capacity(draft, option, draft.config.cache_negative_seconds)
    draft.set(cache_negative_seconds=ttl)


def _capacity(draft: Draft, option: Directive, ttl: int) -> tuple[int, int]:
    """Return CAPACITY and TTL, `ttl` by default. No answer is kept longer than its own TTL: MINTTL has no effect."""
    arguments = option.arguments
    if not 1 <= len(arguments) <= 3 or not all(argument.isdecimal() for argument in arguments):
        raise WrongArguments
    if len(arguments) == 3:
        draft.remark(option, "MINTTL has no effect here")
    return int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else ttl


def _serve_stale(draft: Draft, block: ServerBlock, option: Directive) -> None:
    draft.set(serve_stale_seconds=int(seconds(option)) if option.arguments else 3600)


def _disable(draft: Draft, block: ServerBlock, option: Directive) -> None:
    """Names of the cluster are never in the cache, whether or not `disable` lists them."""
    kind, *zones = option.arguments or ("",)
    if kind not in ("success", "denial"):
        raise WrongArguments
    draft.set(uncached=(*draft.config.uncached, *((kind, zone) for zone in as_zones(zones) or ("",))))


CACHE_OPTIONS: Table[ServerBlock] = {
    "success": Spec("success CAPACITY [TTL [MINTTL]]", "how many answers are kept, and how long", _success),
    "denial": Spec("denial CAPACITY [TTL [MINTTL]]", "how long negative answers are kept", _denial),
    "serve_stale": Spec("serve_stale [DURATION]", "answers are used longer while no upstream answers", _serve_stale),
    "disable": Spec("disable success|denial [ZONE...]", "answers that are not kept", _disable),
    **{name: Spec(name, "tunes CoreDNS' cache", has_no_effect) for name in ("prefetch", "keepttl", "servfail")},
}
