"""The area of a store in etcd: the layout of its keys, and a restore that has not finished.

PREFIX/bridgehead/layout      the number of the layout, written at the first start
PREFIX/bridgehead/restoring   who restores a copy below the prefix; removed at the end
"""

from __future__ import annotations

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
    names = (layout_key(layout), restoring_key(layout))
    lookups = [get(name) for name in names]
    # A full etcd refuses transactions that could write, so the first one only reads.
    found = {kv.key: kv.value for kv in found_keys(await client.txn([], lookups))}
    if not found:
        compares = [create_revision_equals(name, 0) for name in names]
        result = await client.txn(compares, [put(layout_key(layout), LAYOUT)], lookups)
        found = {kv.key: kv.value for kv in found_keys(result)}
    check_layout(layout, found.get(layout_key(layout)))
    if restoring_key(layout) in found:
        raise StoreBroken(
            f"a restore below {layout.shown} in etcd has not finished: wait for it, or run `bridgehead restore` again"
        )


def check_layout(layout: Layout, number: bytes | None) -> None:
    """Raise `StoreBroken` for the layout of another version; None is that of an area without a number."""
    if number is not None and number != LAYOUT:
        found = number[:40].decode(errors="replace")
        shown = "".join(one if one.isprintable() else "?" for one in found)
        raise StoreBroken(
            f"the objects below {layout.shown} in etcd have layout {shown!r}, this bridgehead knows {LAYOUT.decode()}:"
            " start the version that wrote them, or choose another --etcd-prefix"
        )
