"""Reads the state of a network namespace: by one call where that is possible, else by the programs that are there."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

import msgspec

from bridgehead.insight.network_namespaces import NetworkNamespace, NetworkNamespaces, NotEntered, OnlyPrograms

from .network_state import NetworkState, Section

SECONDS = 30.0  # for all sections together

ALL = frozenset(Section)


async def read_node(
    namespaces: NetworkNamespaces, name: str, sections: Collection[Section] = ALL, *, seconds: float = SECONDS
) -> NetworkState:
    """Read the wanted sections of a node. All are unseen if there is no way into it. Raises nothing."""
    try:
        namespace = await namespaces.node(name)
    except NotEntered as error:
        return _unseen(sections, str(error))
    return await read_network(namespace, sections, seconds=seconds)


async def read_network(
    namespace: NetworkNamespace, sections: Collection[Section] = ALL, *, seconds: float = SECONDS
) -> NetworkState:
    """Read the wanted sections.

    A section that cannot be read is unseen; all are where the namespace cannot be entered. Raises nothing.
    """
    from .network_local_reading import collect  # not needed for namespaces in which only programs run

    wanted = tuple(section for section in Section if section in sections)
    try:
        return msgspec.msgpack.decode(await namespace.call(collect, wanted, seconds=seconds), type=NetworkState)
    except OnlyPrograms:
        pass
    except NotEntered as error:
        return _unseen(wanted, str(error))
    from .network_remote_reading import read_by_programs

    try:
        async with asyncio.timeout(seconds):
            return await read_by_programs(namespace, wanted)
    except TimeoutError:
        return _unseen(wanted, f"no answer within {seconds:g} s")


def _unseen(sections: Collection[Section], reason: str) -> NetworkState:
    return NetworkState(unseen=dict.fromkeys(sections, reason))
