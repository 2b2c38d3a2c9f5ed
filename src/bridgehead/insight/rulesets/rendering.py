"""The rules that a node would have in a mode that is not in use, as the kernel's programs would print or read them.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from bridgehead.insight.expectations import Expectations, service_of
from bridgehead.insight.facts.network_state import Destination, VirtualServer
from bridgehead.objects.addresses import join_host_port
from bridgehead.proxy.frontends import Frontend
from bridgehead.proxy.iptables.render import Renderer as IptablesRenderer
from bridgehead.proxy.ipvs.readback import KernelState
from bridgehead.proxy.ipvs.render import Renderer as IpvsRenderer
from bridgehead.proxy.ipvs.transaction import DUMMY
from bridgehead.proxy.nftables.render import Renderer as NftablesRenderer
from bridgehead.proxy.nftables.render import TableSpec
from bridgehead.proxy.userspace.redirects import LISTENING, TABLE, guards, redirect, sides

from .virtual_servers import destination_line, server_line

_FIRST_PORT = 32768  # of listeners, which get any free port

_IPVSADM_HEAD = (
    "IP Virtual Server version 1.2.1 (size=4096)",
    "Prot LocalAddress:Port Scheduler Flags",
    "  -> RemoteAddress:Port           Forward Weight ActiveConn InActConn",
)


class Rendered(NamedTuple):
    """`heading`: the rest of a sentence that begins with "with it," and ends before `text`."""

    heading: str
    text: str


def render_mode(expected: Expectations, service: str = "", node_addresses: Iterable[str] = ()) -> list[Rendered]:
    """Return the rules of the mode of `expected`, of all Services or of one, `namespace/name`.

    `node_addresses`: all addresses of the node, for the node ports of mode ipvs; without them, the primary ones.
    """
    frontends = [one for one in expected.table if not service or str(service_of(one.owner)) == service]
    if service:
        cluster_ips = [address for key in {service_of(one.owner) for one in frontends}
                       for address in _cluster_ips(expected, key)]  # fmt: skip
    else:
        cluster_ips = list(expected.table.cluster_ips())
    match expected.mode:
        case "nftables":
            text = NftablesRenderer(expected.settings).full(frontends, cluster_ips, {}).text()
            return [Rendered("nft -f - would read", text)]
        case "iptables":
            texts = IptablesRenderer(expected.settings).full(frontends, cluster_ips, {}).texts()
            return [
                Rendered(f"ip{'6' if family == 6 else ''}tables-restore --noflush would read", text)
                for family, text in texts.items()
            ]
        case "ipvs":
            return _ipvs(expected, frontends, cluster_ips, node_addresses)
        case "userspace":
            return _userspace(expected, frontends, cluster_ips)
    return []


def _cluster_ips(expected: Expectations, key: object) -> tuple[str, ...]:
    compiled = next((expected.table.compiled(each) for each in expected.table.services() if each == key), None)
    return compiled.cluster_ips if compiled is not None else ()


def _ipvs(
    expected: Expectations, frontends: list[Frontend], cluster_ips: list[str], node_addresses: Iterable[str]
) -> list[Rendered]:
    addresses = tuple(node_addresses) or expected.facts.addresses
    renderer = IpvsRenderer(expected.settings, expected.config.ipvs)
    transaction = renderer.full(frontends, cluster_ips, KernelState(), addresses)
    destinations: dict[object, list[Destination]] = {}
    for server, (address, port) in transaction.destinations:
        one = Destination(address=address, port=port, weight=1, forwarding="Masq")
        destinations.setdefault(server, []).append(one)
    lines = list(_IPVSADM_HEAD)
    for server, scheduling in sorted(transaction.servers.items()):
        lines.append(
            server_line(
                VirtualServer(
                    protocol=server.protocol,
                    address=server.address,
                    port=server.port,
                    mark=server.mark,
                    family=server.family,
                    scheduler=scheduling.scheduler,
                    persistent_seconds=scheduling.persistent or None,
                )
            )
        )
        lines += map(destination_line, destinations.get(server, ()))
    return [
        Rendered("ipvsadm -Ln would print", _lines(lines)),
        Rendered(f"ip addr show {DUMMY} would print", _lines(_dummy(transaction.bound))),
    ]


def _dummy(addresses: Iterable[str]) -> Iterator[str]:
    yield f"{DUMMY}: <BROADCAST,NOARP> mtu 1500 qdisc noop state DOWN group default"
    for address in addresses:
        kind, length = ("inet6", 128) if ":" in address else ("inet", 32)
        yield f"    {kind} {address}/{length} scope global {DUMMY}"
        yield "       valid_lft forever preferred_lft forever"


def _userspace(expected: Expectations, frontends: list[Frontend], cluster_ips: list[str]) -> list[Rendered]:
    wanted = [(side, frontend) for frontend in frontends for side in sides(frontend)]
    ports = {side: _FIRST_PORT + number % (65536 - _FIRST_PORT) for number, (side, _) in enumerate(wanted)}
    listeners = []
    for side, frontend in wanted:
        targets = ", ".join(join_host_port(one.address, one.port) for one in sides(frontend)[side])
        where = join_host_port(LISTENING[side.key.family], ports[side])
        listeners.append(f"{side.key.protocol} {where}: {side} of {frontend.owner}, to {targets} in turn")
    redirected = [redirect(frontend, ports) for frontend in frontends]
    text = NftablesRenderer(expected.settings, TableSpec(TABLE, guards())).full(redirected, cluster_ips, {}).text()
    return [
        Rendered("the proxy would listen (at other ports)", _lines(listeners)),
        Rendered("nft -f - would read", text),
    ]


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
