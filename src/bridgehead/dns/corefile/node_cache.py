"""The Corefile of NodeLocal DNSCache, made one of a server that answers for the cluster itself.

NodeLocal DNSCache forwards queries for the cluster to its DNS, by placeholders that its own program replaces.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from dataclasses import replace

from .text import Directive

_CLUSTER_DNS, _UPSTREAM_SERVERS = "__PILLAR__CLUSTER__DNS__", "__PILLAR__UPSTREAM__SERVERS__"


def with_own_answers(server: Directive, zones: tuple[str, ...], domain: str) -> Directive:
    """Return the server block with `kubernetes` in place of forwarding to the cluster DNS.

    `zones` are those of the block, `domain` is the cluster's.
    """
    lines: list[Directive] = []
    for line in server.block:
        if line.name == "forward" and domain in zones:
            pods = Directive(line.line, ("pods", "insecure"))
            lines.append(Directive(line.line, ("kubernetes", *zones), (pods,)))
        elif line.name == "forward" and line.arguments[1:] == (_CLUSTER_DNS,):
            continue  # reverse zones: the PTR records of the cluster are here
        else:
            tokens = ("/etc/resolv.conf" if word == _UPSTREAM_SERVERS else word for word in line.tokens)
            lines.append(replace(line, tokens=tuple(tokens)))
    return replace(server, block=tuple(lines))
