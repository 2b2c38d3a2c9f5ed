"""Keys below the prefix that are no object's: each path that nobody knows is named once in the log."""

from __future__ import annotations

import logging

from .layout import Layout

log = logging.getLogger(__name__)

# Keys of kube-apiserver that are no objects: allocations, its servers, and its peers.
_KNOWN = frozenset({"ranges", "masterleases", "peerserverleases", "bridgehead"})
_MOST = 100


class ForeignKeys:
    """Names the first key of each unknown path, up to a bound."""

    def __init__(self, layout: Layout) -> None:
        self._prefix = layout.prefix
        self._known = set(_KNOWN)

    def see(self, etcd_key: bytes) -> None:
        key = etcd_key.decode(errors="replace")
        path = key[len(self._prefix) :].partition("/")[0]
        if path in self._known or len(self._known) >= _MOST:
            return
        self._known.add(path)
        shown = "".join(one if one.isprintable() else "?" for one in key[:300])
        log.warning("%s in etcd is the key of no object: it and others below its path are left alone", shown)
