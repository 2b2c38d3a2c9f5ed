"""The routes of a traced connection: the client's to its destination, and those of a node to backends."""

from __future__ import annotations

import errno
import socket
from collections.abc import Iterable

import msgspec

from bridgehead.insight.network_namespaces import NetworkNamespace, NotEntered
from bridgehead.network.host_paths import find_path

from .capture import CALL_SECONDS, only_programs


class RouteFound(msgspec.Struct, frozen=True):
    """`source`: the address that packets get there. `is_on_link`: there is no gateway between."""

    source: str
    interface: str
    is_on_link: bool


def find_route(address: str) -> RouteFound | None:
    """Return the current namespace's route to an address; None without one. Raises OSError."""
    try:
        path = find_path(address)
    except OSError as error:
        if error.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.ESRCH, errno.EINVAL, errno.EACCES):
            return None
        raise
    if path is None:
        return None
    names = dict(socket.if_nameindex())
    return RouteFound(path.source, names.get(path.link, str(path.link)), path.is_on_link)


async def read_route(where: NetworkNamespace | None, address: str) -> tuple[RouteFound | None, list[str]]:
    """Return a namespace's route to an address, and why it is not known."""
    if where is None:
        return None, []
    try:
        return await where.call(find_route, address, seconds=CALL_SECONDS), []
    except NotEntered as error:
        return None, [f"{where.name}: {error}"]


async def read_onward_routes(
    node: str, namespace: NetworkNamespace | None, backends: Iterable[str]
) -> list[tuple[str, str, RouteFound | None]]:
    """Return the node's routes to the addresses of backends, as (where, address, route). Unknown ones are left out."""
    found: list[tuple[str, str, RouteFound | None]] = []
    if namespace is not None and not await only_programs(namespace):
        for address in backends:
            route, problems = await read_route(namespace, address)
            if not problems:
                found.append((f"node {node}", address, route))
    return found
