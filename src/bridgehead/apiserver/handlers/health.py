"""/healthz, /livez and /readyz, with one path below for each check (source: Kubernetes "API health endpoints")."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bridgehead.apiserver.errors import not_found_path
from bridgehead.apiserver.http.paths import Query
from bridgehead.apiserver.http.request import Response

# Returns the reason of a failed check, None for a successful one.
Check = Callable[[], str | None]

_TEXT = "text/plain; charset=utf-8"


class Health:
    """Health endpoints. `live` and `ready` are checks by name; /healthz has the checks of /livez."""

    def __init__(self, live: Mapping[str, Check], ready: Mapping[str, Check]) -> None:
        self._checks: dict[str, Mapping[str, Check]] = {"healthz": live, "livez": live, "readyz": ready}

    def serves(self, path: str) -> bool:
        return path.split("/")[1] in self._checks

    def handle(self, path: str, query: Query) -> Response:
        """Run checks. Raises a 404 for an unknown one."""
        kind, _, name = path.strip("/").partition("/")
        checks = self._checks[kind]
        if name:
            if name not in checks:
                raise not_found_path()
            checks = {name: checks[name]}
        failed = {check: why for check, run in checks.items() if (why := run()) is not None}
        lines = [f"[-]{c} failed: {failed[c]}" if c in failed else f"[+]{c} ok" for c in checks]
        if failed:
            text = "\n".join([*lines, f"{kind} check failed", ""])
            return Response(503 if kind == "readyz" else 500, text.encode(), _TEXT)
        if "verbose" in query and not name:
            text = "\n".join([*lines, f"{kind} check passed", ""])
            return Response(200, text.encode(), _TEXT)
        return Response(200, b"ok", _TEXT)
