"""The proxy's HTTP pages: health on 10256, metrics on 10249. `process.py` serves them.

The pages of healthCheckNodePorts are in `health_ports.py`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any

from bridgehead.pages import Page, Routes, metrics_page

from .health import ProxyHealth
from .metrics import ProxyMetrics

JSON_HEADERS = (("X-Content-Type-Options", "nosniff"),)


def health_routes(health: ProxyHealth, metrics: ProxyMetrics) -> Routes:
    """Return the health pages: /healthz for load balancers and start-up probes, /livez for liveness probes.

    Both are 503 while a change has waited too long; /healthz also while the node is being removed and, unlike
    kube-proxy's, until the first rules are in the kernel.
    """

    def healthz() -> Page:
        is_good = health.is_alive and health.is_node_eligible and health.last_updated > 0
        metrics.healthz.labels("200" if is_good else "503").inc()
        return _health_page(is_good, health.last_updated, {"nodeEligible": health.is_node_eligible})

    def livez() -> Page:
        metrics.livez.labels("200" if health.is_alive else "503").inc()
        return _health_page(health.is_alive, health.last_updated, {})

    return {"/healthz": healthz, "/livez": livez}


def _health_page(is_good: bool, last_updated: float, more: dict[str, bool]) -> Page:
    """Render a health page. As in kube-proxy, `lastUpdated` is the present time if the proxy is healthy."""
    now = time.time()
    times = {"lastUpdated": _go_time(now if is_good else last_updated), "currentTime": _go_time(now)}
    return Page(200 if is_good else 503, json.dumps(times | more).encode(), "application/json", JSON_HEADERS)


def _go_time(seconds: float) -> str:
    """Render a time as Go prints it, like kube-proxy; 0 (never) is the year 1."""
    if not seconds:
        return "0001-01-01 00:00:00 +0000 UTC"
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(seconds))}.{int(seconds % 1 * 1e9):09d} +0000 UTC"


def metrics_routes(metrics: ProxyMetrics, mode: str, configuration: Mapping[str, Any]) -> Routes:
    """Return the pages of port 10249. `configuration`: the KubeProxyConfiguration in use, for /configz."""
    configz = json.dumps({"kubeproxy.config.k8s.io": configuration}).encode()
    return {
        "/configz": lambda: Page(200, configz, "application/json"),
        "/metrics": lambda: metrics_page(metrics.exposition()),
        "/proxyMode": lambda: Page(200, mode.encode()),
        "/healthz": lambda: Page(200, b"ok"),
    }
