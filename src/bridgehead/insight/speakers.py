"""Read the status pages of the load-balancer speakers, and what Services wait for, for `bridgehead balancer status`.

The pages are read through the API server's proxy of pods, so this works wherever kubectl does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from bridgehead.balancer.controller.service_patches import CONDITION
from bridgehead.balancer.heartbeat_key import OWN_NAMESPACE, SECRET_NAME, STEPPED_BACK_ANNOTATION
from bridgehead.client import ApiClient
from bridgehead.client.errors import ClientError, Forbidden, NotFound
from bridgehead.objects.core import Pod, Service
from bridgehead.objects.kinds import PODS, SECRETS
from bridgehead.objects.meta import find_condition

SELECTOR = "k8s-app=bridgehead-speaker"
_PORT = 7472
_SECONDS = 5.0

Rows = list[tuple[str, ...]]


@dataclass(frozen=True)
class SpeakerReport:
    """The page of one node's speaker, or the reason why there is none."""

    node: str
    page: dict[str, Any] = field(default_factory=dict)
    problem: str = ""


async def find_other_balancer(client: ApiClient) -> str:
    """Return the pod of MetalLB or OpenELB for which the balancer has stepped back, "" if it has not.

    Raises ClientError, but not for a user who may not see the speakers' Secret.
    """
    try:
        secret = await client.get(SECRETS, SECRET_NAME, OWN_NAMESPACE)
    except (NotFound, Forbidden):
        return ""
    return secret.metadata.annotations.get(STEPPED_BACK_ANNOTATION, "")


async def read_speakers(client: ApiClient) -> list[SpeakerReport]:
    """Return the reports of all speakers that run as pods, by node. Raises ClientError if they cannot be listed."""
    pods = (await client.list(PODS, label_selector=SELECTOR)).items
    reports = await asyncio.gather(*(_read(client, pod) for pod in pods if pod.spec.node_name))
    return sorted(reports, key=lambda report: report.node)


async def _read(client: ApiClient, pod: Pod) -> SpeakerReport:
    meta, node = pod.metadata, pod.spec.node_name
    path = f"/api/v1/namespaces/{meta.namespace}/pods/http:{meta.name}:{_PORT}/proxy/status"
    try:
        async with asyncio.timeout(_SECONDS):
            return SpeakerReport(node, await client.request("GET", path))
    except TimeoutError:
        return SpeakerReport(node, problem=f"no answer within {_SECONDS:g} s")
    except ClientError as error:
        return SpeakerReport(node, problem=str(error))


def speaker_rows(reports: list[SpeakerReport]) -> Rows:
    """Return a row for each speaker: the node, its state, and the nodes that it believes alive."""
    rows: Rows = [("NODE", "SPEAKER", "MEMBERS", "HOLDS")]
    for report in reports:
        page = report.page
        problem = report.problem or page.get("notReady") or page.get("detectorError") or page.get("configurationError")
        state = problem or ("isolated: receives no other speaker" if page.get("isolated") else "ready")
        members = ",".join(page.get("members", ())) or "-"
        rows.append((report.node, state, members, str(len(page.get("held", ())))))
    return rows


def address_rows(reports: list[SpeakerReport], now: float) -> Rows:
    """Return a row for each announced address and node. `now`: epoch seconds."""
    found = [(held, report.node) for report in reports for held in report.page.get("held", ())]
    rows: Rows = [("ADDRESS", "SERVICE", "BY", "NODE", "SINCE", "THROUGH", "WHY")]
    for held, node in sorted(found, key=lambda one: (one[0]["service"], one[0]["address"], one[1])):
        through = ",".join(held["detail"]) or "-"
        since = f"{age(now - held['since'])} ago"
        rows.append((held["address"], held["service"], held["protocol"], node, since, through, held["why"] or "-"))
    return rows


def silent_rows(services: Iterable[Service]) -> Rows:
    """Return a row for each Service that has no address, or one that no node announces, with the reason."""
    rows: Rows = [("NOT ANNOUNCED", "SERVICE", "REASON", "WHY")]
    for service in sorted(services, key=lambda service: service.key):
        condition = find_condition(service.status.conditions, CONDITION)
        if condition is not None:
            given = [entry.ip for entry in service.status.load_balancer.ingress]
            named = {word.removesuffix(":").removesuffix(",") for word in condition.message.split()}
            # The message names the addresses that no node announces; others may be announced.
            addresses = ",".join([ip for ip in given if ip in named] or given) or "<pending>"
            rows.append((addresses, str(service.key), condition.reason, condition.message))
    return rows


def session_rows(reports: list[SpeakerReport], now: float) -> Rows:
    """Return a row for each BGP session. `now`: epoch seconds."""
    rows: Rows = [("PEER", "ADDRESS", "NODE", "STATE", "SINCE", "BFD", "ROUTES", "REASON")]
    for report in reports:
        for one in report.page.get("sections", {}).get("bgp", ()):
            since = f"{age(now - one['since'])} ago" if one.get("since") else "-"
            routes = str(one.get("announced", 0))
            texts = (one["peer"], one["address"], report.node, one["state"], since)
            rows.append((*texts, one.get("bfd") or "-", routes, one.get("reason") or "-"))
    return rows


def takeover_rows(reports: list[SpeakerReport], now: float) -> Rows:
    """Return a row for each recent takeover, the newest first. `now`: epoch seconds."""
    found = [(one, report.node) for report in reports for one in report.page.get("takeovers", ())]
    rows: Rows = [("TAKEOVER", "NODE", "FROM", "ADDRESSES", "TOOK", "REASON")]
    for one, node in sorted(found, key=lambda pair: -pair[0]["at"]):
        took = f"{one['seconds'] * 1000:.0f} ms"
        before = ",".join(one["nodes"])
        rows.append((f"{age(now - one['at'])} ago", node, before, str(one["addresses"]), took, one["reason"]))
    return rows


def age(seconds: float) -> str:
    """Return a duration in its largest unit: `42s`, `17m`, `5h`, `3d`."""
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * length:
            return f"{int(seconds // length)}{unit}"
    return f"{max(0, int(seconds))}s"
