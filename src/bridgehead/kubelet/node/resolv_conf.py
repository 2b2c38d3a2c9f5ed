"""The resolv.conf format: parsed and rendered.

Pure: no I/O, no clock, no randomness. Source: resolv.conf(5).
"""

from __future__ import annotations

import msgspec


class Resolver(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a resolv.conf."""

    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


def parse_resolver(text: str) -> Resolver:
    """Parse a node's resolv.conf. The last `search` line counts; `domain` is ignored, as by kubelet."""
    nameservers: list[str] = []
    searches: tuple[str, ...] = ()
    options: list[str] = []
    for line in text.splitlines():
        fields = line.split("#", 1)[0].split(";", 1)[0].split()
        if len(fields) < 2:
            continue
        if fields[0] == "nameserver":
            nameservers.append(fields[1])
        elif fields[0] == "search":
            searches = tuple(domain.rstrip(".") for domain in fields[1:] if domain != ".")
        elif fields[0] == "options":
            options += fields[1:]
    return Resolver(nameservers=tuple(nameservers), searches=searches, options=tuple(options))


def resolver_file(resolver: Resolver) -> str:
    """Render the content of a resolv.conf."""
    lines = []
    if resolver.searches:
        lines.append("search " + " ".join(resolver.searches))
    lines += [f"nameserver {address}" for address in resolver.nameservers]
    if resolver.options:
        lines.append("options " + " ".join(resolver.options))
    return "\n".join(lines) + "\n" if lines else ""
