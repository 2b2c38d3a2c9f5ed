"""JSON patches.

Pure: no I/O, no clock, no randomness. Source: Kubernetes `apiserver/pkg/cel/library/jsonpatch.go`.
"""

from __future__ import annotations

from collections.abc import Mapping

from bridgehead.apiserver.cel.costs import traversal
from bridgehead.apiserver.cel.declarations import Overload, overload

FUNCTIONS: Mapping[str, tuple[Overload, ...]] = {
    "jsonpatch.escapeKey": (
        overload(
            "(string) -> string", lambda key: key.replace("~", "~0").replace("/", "~1"), traversal(keeps_size=True)
        ),
    ),
}
