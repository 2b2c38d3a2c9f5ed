"""One log line for each query, as CoreDNS' `log` writes it. `server.py` calls this after every reply, if configured.

10.244.1.2:40712 - 4660 "A IN web.default.svc.cluster.local. udp 47 false 512" NOERROR qr,aa,rd,ra 63 0.000080s
"""

from __future__ import annotations

import logging

from bridgehead.dns.errors import BadPacket
from bridgehead.dns.messages import wire
from bridgehead.objects.addresses import join_host_port

log = logging.getLogger("bridgehead.dns.queries")

_FLAGS = (
    ("qr", 2, wire.QR), ("aa", 2, wire.AA), ("tc", 2, wire.TC), ("rd", 2, wire.RD), ("ra", 3, wire.RA),
    ("ad", 3, wire.AD), ("cd", 3, wire.CD),
)  # fmt: skip


class QueryLog:
    """Logs queries whose replies are of these classes; all queries without classes."""

    def __init__(self, classes: tuple[str, ...] = ()) -> None:
        self._classes = classes

    def __call__(
        self, client: tuple[str, int], data: bytes, reply: bytes | None, protocol: str, seconds: float
    ) -> None:
        """Log one message and its reply; None: no reply was sent."""
        if not self._classes or class_of(reply) in self._classes:
            log.info("%s", query_line_untrusted(client, data, reply, protocol, seconds))


def class_of(reply: bytes | None) -> str:
    """Return the class of a reply, as CoreDNS sorts them. Denial: NXDOMAIN, or an empty answer with an SOA record."""
    if reply is None:
        return "error"
    rcode = reply[3] & 15
    if rcode not in (wire.NOERROR, wire.NXDOMAIN):
        return "error"
    has_answers, has_authority = (reply[at : at + 2] != b"\0\0" for at in (6, 8))
    return "denial" if rcode == wire.NXDOMAIN or (has_authority and not has_answers) else "success"


def query_line_untrusted(
    client: tuple[str, int], data: bytes, reply: bytes | None, protocol: str, seconds: float
) -> str:
    """Return the line; `data` may be any bytes."""
    who = join_host_port(*client)
    outcome = "- - 0"
    if reply is not None:
        rcode = reply[3] & 15
        name = wire.RCODE_NAMES[rcode] if rcode < len(wire.RCODE_NAMES) else str(rcode)
        outcome = f"{name} {','.join(flag for flag, at, bit in _FLAGS if reply[at] & bit)} {len(reply)}"
    try:
        query = wire.parse_query_untrusted(data)
    except BadPacket as error:
        return f'{who} - "{protocol} {len(data)}: {error}" {outcome} {seconds:.6f}s'
    kind = wire.TYPE_NAMES.get(query.type, f"TYPE{query.type}")
    class_ = "IN" if query.class_ == wire.IN else f"CLASS{query.class_}"
    size = wire.UDP_SIZE if query.edns is None else query.edns.size
    do = "true" if query.edns is not None and query.edns.do else "false"
    asked = f"{kind} {class_} {wire.decode_name(query.name)}. {protocol} {len(data)} {do} {size}"
    return f'{who} - {int.from_bytes(query.id, "big")} "{asked}" {outcome} {seconds:.6f}s'
