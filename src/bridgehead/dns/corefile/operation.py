"""Directives about how the server works: addresses, pages, logs, sizes, zone transfers.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import ipaddress
from dataclasses import replace

from bridgehead.dns.config import LOG_CLASSES, Address, DnsConfig, Network, parse_address
from bridgehead.dns.errors import ConfigInvalid
from bridgehead.dns.messages import wire
from bridgehead.dns.messages.names import as_zones

from .draft import (
    Draft,
    ServerBlock,
    Spec,
    Table,
    WrongArguments,
    did_you_mean,
    no_argument,
    number,
    one_argument,
    read_line,
    seconds,
)
from .text import Directive, invalid


def read_bind(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `bind ADDRESS...`. Every server block is served at the addresses of all."""
    if not directive.arguments:
        raise WrongArguments
    for text in directive.arguments:
        try:
            ipaddress.ip_address(text)
        except ValueError:
            raise directive.invalid(f"bind {text!r}: only addresses, not names of interfaces or hosts") from None
    draft.bound += directive.arguments
    ports = dict.fromkeys(port for _, port in draft.config.listen)
    draft.set(listen=tuple((host, port) for port in ports for host in dict.fromkeys(draft.bound)))


def read_errors(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    if directive.arguments not in ((), ("stdout",)):
        raise WrongArguments


def read_loadbalance(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `loadbalance [round_robin]`: addresses rotate anyway."""
    if directive.arguments[:1] == ("weighted",):
        draft.reject(directive, "loadbalance weighted")
    elif directive.arguments not in ((), ("round_robin",)):
        raise WrongArguments


def read_reload(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `reload [INTERVAL [JITTER]]`: a change is noticed within a second, sooner than any interval."""
    if directive.arguments == ("off",):
        draft.reject(directive, "reload off", "changes of the file are always noticed")
        return
    if len(directive.arguments) > 2:
        raise WrongArguments
    for text in directive.arguments:
        seconds(replace(directive, tokens=("reload", text)))


def read_cancel(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `cancel [TIMEOUT]`: the time for one query to upstreams."""
    if not directive.arguments:
        return
    one_argument(directive)
    timeout = seconds(directive)
    if timeout <= 0:
        raise directive.invalid("cancel: the time has to be longer than 0")
    draft.set(forward_seconds=timeout)


def read_minimal(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    no_argument(directive)
    draft.set(is_minimal=True)


def read_any(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    no_argument(directive)
    draft.set(has_minimal_any=True)


def read_bufsize(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    size = number(directive) if directive.arguments else DnsConfig.udp_size
    if not wire.UDP_SIZE <= size <= 4096:
        raise directive.invalid(f"bufsize {size}: {wire.UDP_SIZE} to 4096")
    draft.set(udp_size=size)


def read_autopath(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    if one_argument(directive) != "@kubernetes":
        raise WrongArguments
    draft.set(autopath=True)


# --- Pages -------------------------------------------------------------------------------------------------------


def read_health(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    draft.set(health=_page(directive, 8080))
    for option in directive.block:
        read_line(draft, block, option, HEALTH_OPTIONS)


def _lameduck(draft: Draft, block: ServerBlock, option: Directive) -> None:
    draft.set(lameduck_seconds=seconds(option))


HEALTH_OPTIONS: Table[ServerBlock] = {
    "lameduck": Spec("lameduck DURATION", "time between SIGTERM and the end, in which queries are answered", _lameduck)
}


def read_ready(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    draft.set(ready=_page(directive, 8181))


def read_prometheus(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    draft.set(metrics=_page(directive, 9153, host="localhost"))


def _page(directive: Directive, port: int, host: str = "") -> Address:
    text = one_argument(directive) if directive.arguments else host
    return parse_address(f"Corefile, line {directive.line}", text, port)


# --- log ---------------------------------------------------------------------------------------------------------


def read_log(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `log` for all names; a name or a format of its own is not supported."""
    if directive.arguments not in ((), (".",), ("{common}",), (".", "{common}")):
        draft.reject(directive, directive.text)
    classes: list[str] = []
    for option in directive.block:
        read_line(draft, classes, option, LOG_OPTIONS)
    draft.set(log_queries=True, log_classes=() if "all" in classes else tuple(dict.fromkeys(classes)))


def _class(draft: Draft, classes: list[str], option: Directive) -> None:
    known = (*LOG_CLASSES, "all")
    unknown = [name for name in option.arguments if name not in known]
    if unknown or not option.arguments:
        draft.reject(option, f"{option.text!r} in log", did_you_mean("".join(unknown[:1]), known))
    classes += option.arguments


LOG_OPTIONS: Table[list[str]] = {
    "class": Spec("class success|denial|error|all...", "only queries with such replies", _class)
}

# --- transfer ----------------------------------------------------------------------------------------------------


def read_transfer(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read the networks that may transfer the zone. NOTIFY is not sent."""
    if any(zone != draft.config.zone.domain for zone in as_zones(directive.arguments)):
        draft.reject(directive, directive.text, "only the domain of `kubernetes` can be transferred")
    for option in directive.block:
        read_line(draft, block, option, TRANSFER_OPTIONS)


def _to(draft: Draft, block: ServerBlock, option: Directive) -> None:
    if not option.arguments:
        raise WrongArguments
    found = [network for text in option.arguments for network in _networks(text, option.line)]
    draft.set(transfer_to=(*draft.config.transfer_to, *found))


def _networks(text: str, line: int | str) -> tuple[Network, ...]:
    """Parse "*", an address (with or without a port) or a range."""
    if text == "*":
        return ipaddress.ip_network("0.0.0.0/0"), ipaddress.ip_network("::/0")
    try:
        return (ipaddress.ip_network(text if "/" in text else parse_address("", text, 53)[0], strict=False),)
    except (ValueError, ConfigInvalid) as error:
        raise invalid(line, f"{text!r} is neither an address nor a range") from error


TRANSFER_OPTIONS: Table[ServerBlock] = {"to": Spec("to ADDRESS|RANGE|*...", "clients that may have the zone", _to)}
