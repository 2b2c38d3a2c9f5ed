"""The area of a store in etcd: the layout of its keys, and a restore that has not finished.

PREFIX/bridgehead/layout      the number of the layout, written at the first start
PREFIX/bridgehead/restoring   who restores a copy below the prefix; removed at the end
"""

from __future__ import annotations

from collections.abc import Mapping

from bridgehead.storage.errors import StoreBroken

from .client.etcd_client import EtcdClient
from .client.requests import create_revision_equals, get, put
from .layout import Layout
from .transactions import found_keys

LAYOUT = b"1"


def layout_key(layout: Layout) -> bytes:
    return layout.own_prefix() + b"layout"


def restoring_key(layout: Layout) -> bytes:
    return layout.own_prefix() + b"restoring"


async def enter(client: EtcdClient, layout: Layout) -> None:
    """Check that this version may serve the area, and mark a new one as its own. Raises `StoreBroken`, `EtcdError`."""
    # A full etcd refuses transactions that could write, so the area is first read alone.
    found = await read_area(client, layout)
    if not found:
        compares = [create_revision_equals(name, 0) for name in _names(layout)]
        if not (await client.txn(compares, [put(layout_key(layout), LAYOUT)])).succeeded:
            found = await read_area(client, layout)  # another server or a restore was first
    if restoring_key(layout) in found:
        raise StoreBroken(
            f"a restore below {layout.shown} in etcd has not finished: wait for it, or run `bridgehead restore` again"
        )


async def read_area(client: EtcdClient, layout: Layout) -> Mapping[bytes, bytes]:
    """Return the values of the area's keys that are there. Raises `StoreBroken` for another layout, `EtcdError`."""
    lookups = [get(name) for name in _names(layout)]
    found = {kv.key: kv.value for kv in found_keys(await client.txn([], lookups))}
    check_layout(layout, found.get(layout_key(layout)))
    return found


def _names(layout: Layout) -> tuple[bytes, bytes]:
    return layout_key(layout), restoring_key(layout)


def check_layout(layout: Layout, number: bytes | None) -> None:
    """Raise `StoreBroken` for the layout of another version; None is that of an area without a number."""
    if number is not None and number != LAYOUT:
        found = number[:40].decode(errors="replace")
        shown = "".join(one if one.isprintable() else "?" for one in found)
        raise StoreBroken(
            f"the objects below {layout.shown} in etcd have layout {shown!r}, this bridgehead knows {LAYOUT.decode()}:"
            " start the version that wrote them, or choose another --etcd-prefix"
        )
