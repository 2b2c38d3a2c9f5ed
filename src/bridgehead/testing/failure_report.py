"""Events, pods and logs of a failing test's namespace, as text of a bounded size."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

from bridgehead.client import ApiClient
from bridgehead.client.errors import ClientError

SECONDS: Final = 10.0
_MOST_EVENTS: Final = 30
_MOST_PODS: Final = 10
_MOST_LINES: Final = 20  # of a container's log
_MOST_LOG_BYTES: Final = 4096
_LOG_SECONDS: Final = 3.0
_MOST_TEXT: Final = 20_000
_MOST_MESSAGE: Final = 300


async def collect(client: ApiClient, namespace: str) -> str:
    """Return the text. It has what could be read; it never raises ClientError."""
    sections = []
    try:
        path = f"/api/v1/namespaces/{namespace}"
        events = (await client.request("GET", f"{path}/events", params={"limit": "500"})).get("items") or []
        sections.append("\n".join(("--- Events", *render_events(events))))
        pods = (await client.request("GET", f"{path}/pods", params={"limit": "500"})).get("items") or []
        sections.append("\n".join(("--- Pods", *(map(render_pod, pods)))))
        for pod in sorted(pods, key=_is_healthy)[:_MOST_PODS]:
            for container, previous in logs_of(pod):
                log = await _read_log(client, namespace, pod["metadata"]["name"], container, previous)
                if log:
                    run = ", the run before" if previous else ""
                    sections.append(f"--- Log of {pod['metadata']['name']}, {container}{run}\n{log}")
        if len(pods) > _MOST_PODS:
            sections.append(f"--- {len(pods) - _MOST_PODS} pods more")
    except (ClientError, TimeoutError) as error:
        sections.append(f"--- The rest cannot be read: {error}")
    return bounded("\n".join(sections))


def bounded(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}\n... ({len(text) - _MOST_TEXT} characters more)"


def render_events(events: list[dict[str, Any]]) -> Iterator[str]:
    """Yield lines for the last Events, in the order of their times."""

    def when(event: dict[str, Any]) -> str:
        return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp"))

    ordered = sorted(events, key=when)
    if len(ordered) > _MOST_EVENTS:
        yield f"({len(ordered) - _MOST_EVENTS} earlier ones)"
    for event in ordered[-_MOST_EVENTS:]:
        involved = event.get("involvedObject") or {}
        count = f" (x{event['count']})" if (event.get("count") or 1) > 1 else ""
        subject = f"{str(involved.get('kind', '')).lower()}/{involved.get('name', '')}"
        message = " ".join(str(event.get("message") or "").split())[:_MOST_MESSAGE]
        yield f"{when(event)[11:19]} {event.get('type', '')} {event.get('reason', '')} {subject}: {message}{count}"


def render_pod(pod: dict[str, Any]) -> str:
    status = pod.get("status") or {}
    containers = status.get("containerStatuses") or ()
    ready = sum(bool(each.get("ready")) for each in containers)
    restarts = sum(each.get("restartCount") or 0 for each in containers)
    node = (pod.get("spec") or {}).get("nodeName") or "no node"
    reasons = [
        state["waiting"].get("reason", "") for each in containers if "waiting" in (state := each.get("state") or {})
    ]
    why = f" ({', '.join(filter(None, reasons))})" if any(reasons) else ""
    return (
        f"{pod['metadata']['name']}: {status.get('phase', 'Unknown')}{why}, {ready} of {len(containers)} ready,"
        f" {restarts} restarts, on {node}"
    )


def logs_of(pod: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """Yield the containers whose logs there are, and whether the log is that of the run before."""
    status = pod.get("status") or {}
    for each in (*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())):
        if each.get("restartCount"):
            yield each["name"], True
        if "waiting" not in (each.get("state") or {}):
            yield each["name"], False


def _is_healthy(pod: dict[str, Any]) -> bool:
    containers = (pod.get("status") or {}).get("containerStatuses") or ()
    return bool(containers) and all(each.get("ready") and not each.get("restartCount") for each in containers)


async def _read_log(client: ApiClient, namespace: str, pod: str, container: str, previous: bool) -> str:
    path = f"/api/v1/namespaces/{namespace}/pods/{quote(pod, safe='')}/log"
    params = {"container": container, "tailLines": str(_MOST_LINES), "limitBytes": str(_MOST_LOG_BYTES)}
    if previous:
        params["previous"] = "true"
    content = bytearray()
    try:
        async with contextlib.aclosing(client.stream_raw(path, params, _LOG_SECONDS)) as chunks:
            async for chunk in chunks:
                content += chunk
                if len(content) >= _MOST_LOG_BYTES:
                    break
    except ClientError as error:
        return f"(cannot be read: {error})"
    return content[:_MOST_LOG_BYTES].decode(errors="replace").rstrip()
