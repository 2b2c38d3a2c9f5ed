"""/healthz, /livez and /readyz, with one path below for each check, and /metrics/slis with the checks' results.

Pure: no I/O, no clock, no randomness. Source: Kubernetes "API health endpoints", apiserver/pkg/server/healthz.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bridgehead.apiserver.errors import PageNotFound
from bridgehead.apiserver.http.request import Response, text_response
from bridgehead.apiserver.http.request_info import QueryList
from bridgehead.exposition.formats import render

SLIS_PATH = "/metrics/slis"

# Returns the reason of a failed check, None for a successful one.
Check = Callable[[], str | None]


class Health(Collector):
    """Health endpoints. `live` and `ready` are checks by name; /healthz has the checks of /livez."""

    def __init__(self, live: Mapping[str, Check], ready: Mapping[str, Check]) -> None:
        self._checks: dict[str, Mapping[str, Check]] = {"healthz": live, "livez": live, "readyz": ready}
        # The last result, and the number of each result, by check and endpoint.
        self._last: dict[tuple[str, str], bool] = {}
        self._counts: dict[tuple[str, str, str], int] = {}
        self._registry = CollectorRegistry()
        self._registry.register(self)

    @property
    def paths(self) -> list[str]:
        """All paths that are served, without /metrics/slis."""
        return [path for kind in self._checks for path in (f"/{kind}", *(f"/{kind}/{c}" for c in self._checks[kind]))]

    def serves(self, path: str) -> bool:
        return path.startswith("/") and path.split("/")[1] in self._checks

    def handle(self, path: str, query: QueryList) -> Response:
        """Run the checks of a path. `exclude` names checks to leave out. Raises a 404 for an unknown one."""
        kind, slash, name = path[1:].partition("/")
        checks = self._checks[kind]
        if not slash:
            return self._run_all(kind, checks, query)
        if name not in checks:
            raise PageNotFound
        why = checks[name]()
        return text_response(200, "ok") if why is None else text_response(500, f"internal server error: {why}\n")

    def _run_all(self, kind: str, checks: Mapping[str, Check], query: QueryList) -> Response:
        """Run checks. The answer names failed ones without the reason, because everybody may ask."""
        excluded = {value for key, value in query if key == "exclude"}
        lines, has_failed = [], False
        for name, check in checks.items():
            if name in excluded:
                lines.append(f"[+]{name} excluded: ok")
                continue
            is_ok = check() is None
            self._record(name, kind, is_ok=is_ok)
            has_failed |= not is_ok
            lines.append(f"[+]{name} ok" if is_ok else f"[-]{name} failed: reason withheld")
        if unknown := excluded - checks.keys():
            names = ",".join(json.dumps(name) for name in sorted(unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        if has_failed:
            return text_response(500, "\n".join([*lines, f"{kind} check failed", ""]))
        if any(key == "verbose" for key, _ in query):
            return text_response(200, "\n".join([*lines, f"{kind} check passed", ""]))
        return text_response(200, "ok")

    # --- Results as metrics

    def _record(self, name: str, kind: str, *, is_ok: bool) -> None:
        self._last[name, kind] = is_ok
        key = (name, "success" if is_ok else "error", kind)
        self._counts[key] = self._counts.get(key, 0) + 1

    def collect(self) -> Iterator[Metric]:
        """Return the results as the client library writes them."""
        last = GaugeMetricFamily(
            "kubernetes_healthcheck", "Whether a health check succeeded the last time.", labels=("name", "type")
        )
        for labels, is_ok in self._last.items():
            last.add_metric(labels, is_ok)
        counts = CounterMetricFamily(
            "kubernetes_healthchecks_total", "Results of health checks.", labels=("name", "status", "type")
        )
        for key, count in self._counts.items():
            counts.add_metric(key, count)
        yield from (last, counts)

    def slis(self, accept: str) -> Response:
        page, content_type = render(self._registry, accept)
        return Response(200, page, content_type)
