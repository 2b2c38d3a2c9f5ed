"""The directive `forward`: which upstreams are asked, and how.

Pure: no I/O, no clock, no randomness. The caller's `Sources` reads files like resolv.conf.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bridgehead.dns.config import FORWARD_POLICIES, Address, ForwardSettings, Server, Tls
from bridgehead.dns.corefile.draft import (
    Draft,
    ServerBlock,
    Spec,
    Table,
    WrongArguments,
    ignore,
    no_argument,
    number,
    one_argument,
    one_of,
    read_line,
    seconds,
)
from bridgehead.dns.corefile.parser import Directive
from bridgehead.dns.errors import ConfigInvalid
from bridgehead.dns.messages import wire
from bridgehead.dns.messages.domain_names import as_domain, as_zones, is_in_any, is_name
from bridgehead.dns.upstreams import parse_resolv_conf, parse_server

NO_LIMIT = 1 << 30  # queries at one time, for `max_concurrent 0`


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


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `forward FROM TO...`. In a block for other zones than the cluster's, `.` stands for each of the zones."""
    own = as_zones(directive.arguments[:1]) or ("",)
    for zone in block.zones if own == ("",) and not block.is_cluster else own:
        _read_for_zone(draft, Forward(zone), directive)


def _read_for_zone(draft: Draft, forward: Forward, directive: Directive) -> None:
    for option in directive.block:
        read_line(draft, forward, option, OPTIONS)
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


OPTIONS: Table[Forward] = {
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

FORWARD = Spec("forward FROM TO...", "the upstreams of a domain", _read, has_options=True)


def excepted_domains(draft: Draft) -> list[Address]:
    """Return the domains that `except` leaves without an upstream, for SERVFAIL as from CoreDNS."""
    answered = [zone for zone, _ in (*draft.stubs, *draft.denied) if zone]
    answered += [draft.config.zone.domain, *draft.config.owned_reverse_zones]
    return [(zone, wire.SERVFAIL) for zone in dict.fromkeys(draft.excepted) if not is_in_any(zone, answered)]
