"""The proxy's HTTP pages: health on 10256, metrics on 10249. `process.py` serves them.

The pages of healthCheckNodePorts are in `health_ports.py`. Source: kube-proxy's proxy_health.go and server.go, 1.36.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from bridgehead.pages import Negotiated, Page, Routes, metrics_page
from bridgehead.zpages import FLAGZ, STATUSZ, ZPages, offered_forms

from .health import ProxyHealth
from .metrics import ProxyMetrics

JSON_HEADERS = (("X-Content-Type-Options", "nosniff"),)
_NEVER = "0001-01-01T00:00:00Z"  # Go's zero time


def health_routes(health: ProxyHealth, metrics: ProxyMetrics) -> Routes:
    """Return the health pages: /healthz for load balancers and start-up probes, /livez for liveness probes.

    Both pages are 503 while a change has waited too long; /healthz also while the node is being removed and, unlike
    kube-proxy's, until the first rules are in the kernel.
    """

    def healthz() -> Page:
        is_programmed = bool(health.updates)
        is_good = health.is_alive and health.is_node_eligible and is_programmed
        metrics.healthz.labels("200" if is_good else "503").inc()
        more = {"nodeEligible": health.is_node_eligible, "healthy": health.is_alive and is_programmed}
        return _health_page(health, is_good, more)

    def livez() -> Page:
        metrics.livez.labels("200" if health.is_alive else "503").inc()
        return _health_page(health, health.is_alive, {"healthy": health.is_alive})

    return {"/healthz": healthz, "/livez": livez}


def _health_page(health: ProxyHealth, is_good: bool, more: Mapping[str, bool]) -> Page:
    """Render a health page. As in kube-proxy, `lastUpdated` is the present time if the proxy is healthy."""
    now, updates = health.now(), health.updates
    last = now if is_good else max(updates.values(), default=None)
    content: dict[str, Any] = {"lastUpdated": _go_time(last), "currentTime": _go_time(now), **more}
    if updates:
        content["status"] = {
            f"IPv{family}": {"lastUpdated": _go_time(updates[family]), "healthy": health.is_alive}
            for family in sorted(updates)
        }
    body = json.dumps(content, separators=(",", ":")).encode()
    return Page(200 if is_good else 503, body, "application/json", JSON_HEADERS)


def _go_time(seconds: float | None) -> str:
    """Render a time as Go's time.Time in JSON: RFC 3339 without trailing zeros. None: never."""
    if seconds is None:
        return _NEVER
    text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")
    return text.rstrip("0").removesuffix(".") + "Z"


def metrics_routes(
    metrics: ProxyMetrics,
    mode: str,
    configuration: Mapping[str, Any],
    flags: Mapping[str, str],
    clock: Callable[[], float] = time.time,
) -> Routes:
    """Return the pages of port 10249.

    `configuration`: the KubeProxyConfiguration in use, for /configz. `flags`: the options of the command, for /flagz.
    """
    configz = json.dumps({"kubeproxy.config.k8s.io": configuration}).encode()
    pages: Routes = {
        "/configz": lambda: Page(200, configz, "application/json"),
        "/metrics": metrics_page(metrics.registry),
        "/proxyMode": lambda: Page(200, mode.encode(), headers=JSON_HEADERS),
        "/healthz": lambda: Page(200, b"ok", headers=JSON_HEADERS),
        "/healthz/ping": lambda: Page(200, b"ok", headers=JSON_HEADERS),
    }
    zpages = ZPages("kube-proxy", flags, [*pages], clock)
    return {**pages, **{path: Negotiated(_zpage(zpages, path)) for path in (STATUSZ, FLAGZ)}}


def _zpage(pages: ZPages, path: str) -> Callable[[str], Page]:
    def render(accept: str) -> Page:
        answer = pages.answer(path, accept)
        if answer is None:
            offered = ", ".join(offered_forms(path))
            return Page(406, f"only the following media types are accepted: {offered}\n".encode())
        return Page(200, answer.body, answer.content_type)

    return render
