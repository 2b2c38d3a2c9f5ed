"""The directives `forward` and `cache`: which upstreams are asked, how, and what of their answers is kept.

Pure: no I/O, no clock, no randomness. The caller's `Sources` reads files like resolv.conf.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from bridgehead.dns.config import (
    DEFAULT_PREFETCH,
    FORWARD_POLICIES,
    STALE_MODES,
    CacheSettings,
    ForwardSettings,
    Prefetch,
    Server,
    Tls,
    TtlLimits,
)
from bridgehead.dns.errors import ConfigInvalid
from bridgehead.dns.messages import wire
from bridgehead.dns.messages.names import as_domain, as_zones, is_name
from bridgehead.dns.upstreams import parse_resolv_conf, parse_server

from .draft import (
    Draft,
    ServerBlock,
    Spec,
    Table,
    WrongArguments,
    bounded,
    ignore,
    no_argument,
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
    settings: ForwardSettings = field(default_factory=ForwardSettings)

    def set(self, **changes: object) -> None:
        """Change settings."""
        self.settings = replace(self.settings, **changes)  # type: ignore[arg-type]


def read_forward(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `forward FROM TO...`. In a block for other zones than the cluster's, `.` stands for each of the zones."""
    own = as_zones(directive.arguments[:1]) or ("",)
    for zone in block.zones if own == ("",) and not block.is_cluster else own:
        _read_forward(draft, Forward(zone), directive)


def _read_forward(draft: Draft, forward: Forward, directive: Directive) -> None:
    for option in directive.block:
        read_line(draft, forward, option, FORWARD_OPTIONS)
    if forward.settings != ForwardSettings():
        draft.set(forwarding=(*draft.config.forwarding, (forward.zone, forward.settings)))
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
    forward.set(policy=one_of(option, one_argument(option), FORWARD_POLICIES))


def _force_tcp(draft: Draft, forward: Forward, option: Directive) -> None:
    no_argument(option)
    forward.set(tcp_only=True)


def _except(draft: Draft, forward: Forward, option: Directive) -> None:
    if forward.zone:
        draft.reject(option, "except", "only in a `forward .`")
    else:
        draft.excepted += as_zones(option.arguments)


def _failover(draft: Draft, forward: Forward, option: Directive) -> None:
    codes = [one_of(option, code.upper(), wire.RCODE_NAMES) for code in option.arguments]
    if not codes or "NOERROR" in codes:
        raise WrongArguments
    found = frozenset(map(wire.RCODE_NAMES.index, codes))
    forward.set(failover=(forward.settings.failover or frozenset()) | found)


def _max_concurrent(draft: Draft, forward: Forward, option: Directive) -> None:
    """There is one limit for all queries to upstreams: the largest. 0 is none."""
    draft.concurrency_limits.append(number(option) or NO_LIMIT)
    draft.set(max_concurrent=max(draft.concurrency_limits))


def _max_fails(draft: Draft, forward: Forward, option: Directive) -> None:
    forward.set(max_fails=number(option))


def _most_attempts(draft: Draft, forward: Forward, option: Directive) -> None:
    forward.set(most_attempts=number(option))


def _most_idle(draft: Draft, forward: Forward, option: Directive) -> None:
    forward.set(most_idle=number(option))


def _expire(draft: Draft, forward: Forward, option: Directive) -> None:
    one_argument(option)
    forward.set(idle_seconds=seconds(option))


def _fail_fast(draft: Draft, forward: Forward, option: Directive) -> None:
    no_argument(option)
    forward.set(fails_fast=True)


def _health_check(draft: Draft, forward: Forward, option: Directive) -> None:
    """Read `health_check DURATION [no_rec] [domain FQDN]`."""
    duration = seconds(option)
    if duration <= 0:
        raise option.invalid("health_check: the interval has to be longer than 0; max_fails 0 ends health checks")
    forward.set(health_seconds=duration)
    rest = tuple(word for word in option.arguments[1:] if word != "no_rec")
    if len(rest) < len(option.arguments) - 1:
        forward.set(health_rd=False)
    match rest:
        case ():
            pass
        case ("domain", name) if name == "." or is_name(as_domain(name)):
            forward.set(health_name=as_domain(name))
        case _:
            raise WrongArguments


FORWARD_OPTIONS: Table[Forward] = {
    "except": Spec("except DOMAIN...", "domains that `forward .` leaves out", _except),
    "policy": Spec("policy random|round_robin|sequential", "the order in which servers are asked", _policy),
    "force_tcp": Spec("force_tcp", "servers are asked by TCP only", _force_tcp),
    "prefer_udp": Spec("prefer_udp", "servers are asked by UDP first, as they are anyway", ignore),
    "tls": Spec("tls [CERT KEY] [CA]", "certificates for servers that are asked by TLS", _tls),
    "tls_servername": Spec("tls_servername NAME", "the name in the servers' certificates", _tls_servername),
    "failover": Spec("failover CODE...", "codes that lead to the next server", _failover),
    "max_concurrent": Spec("max_concurrent NUMBER", "queries that wait for upstreams at one time", _max_concurrent),
    "max_fails": Spec("max_fails NUMBER", "failures after which a server is asked last; 0: never", _max_fails),
    "health_check": Spec(
        "health_check DURATION [no_rec] [domain FQDN]", "how servers that failed are probed", _health_check
    ),
    "failfast_all_unhealthy_upstreams": Spec(
        "failfast_all_unhealthy_upstreams", "while all servers are down, none is asked", _fail_fast
    ),
    "max_connect_attempts": Spec("max_connect_attempts NUMBER", "servers asked for one query", _most_attempts),
    "expire": Spec("expire DURATION", "how long idle connections are kept", _expire),
    "max_idle_conns": Spec("max_idle_conns NUMBER", "idle connections that are kept for a server", _most_idle),
}

# --- cache -------------------------------------------------------------------------------------------------------

# CoreDNS' own for a `cache` directive. Prefetching is off there.
_CACHE_DEFAULTS = CacheSettings(ttl=TtlLimits(5, 3600), negative_ttl=TtlLimits(5, 1800), servfail_seconds=5.0)
_MOST_SERVFAIL_SECONDS = 300


@dataclass
class CacheLines:
    """One `cache` directive while it is read."""

    settings: CacheSettings = _CACHE_DEFAULTS

    def set(self, **changes: object) -> None:
        """Change settings."""
        self.settings = replace(self.settings, **changes)  # type: ignore[arg-type]


def read_cache(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `cache [TTL] [ZONE...]`, for the names of the server block.

    Names of the cluster are not cached. The TTLs of their records are limited as those of other names.
    """
    lines = CacheLines()
    arguments = directive.arguments
    if arguments and re.fullmatch(r"-?\d+", arguments[0]):
        ttl = _ttl(directive, arguments[0])
        limits = lines.settings
        lines.set(
            ttl=limits.ttl._replace(longest=ttl),
            negative_ttl=limits.negative_ttl._replace(longest=ttl),
        )
        arguments = arguments[1:]
    if arguments:
        lines.set(zones=as_zones(arguments))
    for option in directive.block:
        read_line(draft, lines, option, CACHE_OPTIONS)
    draft.add_cache(block, lines.settings)


def _ttl(directive: Directive, text: str) -> int:
    """Return the TTL, which is not 0, as CoreDNS has it. Raises ConfigInvalid."""
    ttl = bounded(directive, text) if text.isdecimal() else 0
    if ttl == 0:
        raise directive.invalid(f"cache TTL can not be zero or negative: {text}")
    return ttl


def _success(draft: Draft, lines: CacheLines, option: Directive) -> None:
    capacity, limits = _capacity(option, lines.settings.ttl)
    lines.set(capacity=capacity, ttl=limits)


def _denial(draft: Draft, lines: CacheLines, option: Directive) -> None:
    capacity, limits = _capacity(option, lines.settings.negative_ttl)
    lines.set(negative_capacity=capacity, negative_ttl=limits)


def _capacity(option: Directive, limits: TtlLimits) -> tuple[int, TtlLimits]:
    """Return CAPACITY, and TTL and MINTTL, by default those in `limits`."""
    arguments = option.arguments
    if not 1 <= len(arguments) <= 3 or not all(argument.isdecimal() for argument in arguments):
        raise WrongArguments
    if len(arguments) > 1:
        limits = limits._replace(longest=_ttl(option, arguments[1]))
    if len(arguments) > 2:
        limits = limits._replace(shortest=bounded(option, arguments[2]))
    return bounded(option, arguments[0]), limits


def _serve_stale(draft: Draft, lines: CacheLines, option: Directive) -> None:
    """Read `serve_stale [DURATION [MODE [TIMEOUT]]]`."""
    stale = seconds(option) if option.arguments else 3600.0
    mode = one_of(option, option.arguments[1], STALE_MODES) if len(option.arguments) > 1 else "immediate"
    timeout = 0.0
    if len(option.arguments) > 2:
        timeout = seconds(replace(option, tokens=("", option.arguments[2])))
    if len(option.arguments) > 3 or (timeout and mode != "verify"):
        raise WrongArguments
    lines.set(stale_seconds=stale, stale_mode=mode, verify_seconds=timeout)


def _servfail(draft: Draft, lines: CacheLines, option: Directive) -> None:
    one_argument(option)
    duration = seconds(option)
    if duration > _MOST_SERVFAIL_SECONDS:
        raise option.invalid("caching SERVFAIL responses over 5 minutes is not permitted")
    lines.set(servfail_seconds=duration)


def _prefetch(draft: Draft, lines: CacheLines, option: Directive) -> None:
    """Read `prefetch AMOUNT [DURATION [PERCENTAGE%]]`."""
    arguments = option.arguments
    if not 1 <= len(arguments) <= 3 or not arguments[0].isdecimal():
        raise WrongArguments
    gap, percentage = DEFAULT_PREFETCH.gap_seconds, "10%"
    if len(arguments) > 1:
        gap = seconds(replace(option, tokens=option.arguments))
    if len(arguments) > 2:
        percentage = arguments[2]
    if not re.fullmatch(r"[1-8]\d%|90%", percentage):
        raise option.invalid(f"prefetch {percentage!r}: 10% to 90%")
    lines.set(prefetch=Prefetch(bounded(option, arguments[0]), gap, int(percentage[:-1])))


def _keepttl(draft: Draft, lines: CacheLines, option: Directive) -> None:
    no_argument(option)
    lines.set(keeps_ttl=True)


def _disable(draft: Draft, lines: CacheLines, option: Directive) -> None:
    """Names of the cluster are never in the cache, whether or not `disable` lists them."""
    kind, *zones = option.arguments or ("",)
    if kind not in ("success", "denial"):
        raise WrongArguments
    uncached = ((kind, zone) for zone in as_zones(zones) or ("",))
    lines.set(uncached=(*lines.settings.uncached, *uncached))


CACHE_OPTIONS: Table[CacheLines] = {
    "success": Spec("success CAPACITY [TTL [MINTTL]]", "how many answers are kept, and the limits of TTLs", _success),
    "denial": Spec("denial CAPACITY [TTL [MINTTL]]", "the same for negative answers", _denial),
    "serve_stale": Spec(
        "serve_stale [DURATION [immediate|verify [TIMEOUT]]]", "expired answers are used longer", _serve_stale
    ),
    "disable": Spec("disable success|denial [ZONE...]", "answers that are not kept", _disable),
    "servfail": Spec("servfail DURATION", "how long failures are kept", _servfail),
    "prefetch": Spec("prefetch AMOUNT [DURATION [PERCENTAGE%]]", "popular answers are renewed in time", _prefetch),
    "keepttl": Spec("keepttl", "TTLs do not get lower with the age of an answer", _keepttl),
}
