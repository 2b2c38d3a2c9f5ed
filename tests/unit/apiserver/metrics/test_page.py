"""The page /metrics of a server."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import Any

import pytest

from bridgehead.apiserver.http import request
from bridgehead.apiserver.registry import freshness
from tests.unit.apiserver.world import ADMIN, open_world

TEMPLATE = {"spec": {"containers": [{"name": "a", "image": "b"}]}}


async def page() -> str:
    async with open_world() as world:
        await world.create("/api/v1/namespaces/default/podtemplates", {"metadata": {"name": "a"}, "template": TEMPLATE})
        return (await world.call("GET", "/metrics")).body.decode()


async def test_the_page_has_what_dashboards_read():
    text = await page()
    names = set(re.findall(r"^([a-z_]+)", text, re.MULTILINE))
    assert {
        "kubernetes_build_info",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_start_time_seconds",
        "apiserver_request_total",
        "apiserver_request_duration_seconds_bucket",
        "apiserver_request_sli_duration_seconds_bucket",
        "apiserver_current_inflight_requests",
        "apiserver_storage_objects",
        "apiserver_client_certificate_expiration_seconds_count",
        "authentication_attempts",
        "authorization_attempts_total",
        "bridgehead_store_commit_duration_seconds_count",
    } <= names
    assert 'apiserver_storage_objects{resource="podtemplates"} 1.0' in text
    assert 'apiserver_resource_objects{group="apps",resource="deployments"} 0.0' in text
    assert not [name for name in names if name.endswith("_created")]


async def test_an_open_watch_is_no_request_that_is_carried_out_now():
    async with open_world() as world:
        watch = await world.watch("/api/v1/nodes")
        text = (await world.call("GET", "/metrics")).body.decode()
        await watch.leave()
    (open_now,) = re.findall(r'apiserver_longrunning_requests{.*verb="WATCH".*} (.*)', text)
    (in_flight,) = re.findall(r'apiserver_current_inflight_requests{request_kind="readOnly"} (.*)', text)
    assert (open_now, in_flight) == ("1.0", "1.0")  # the request of the page is in flight


async def test_only_a_request_that_the_server_ends_is_a_termination(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "_BODY_SECONDS", 0.01)
    monkeypatch.setattr(freshness, "BLOCK_SECONDS", 0.01)
    sent: list[Mapping[str, Any]] = []

    async def receive() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    async with open_world() as world:
        too_new = await world.call("GET", "/api/v1/nodes?resourceVersion=1000000")
        scope = world.scope("POST", "/api/v1/namespaces/default/configmaps", {"content-length": "9"}, ADMIN)
        await world.parts.application(scope, receive, send)
        text = (await world.call("GET", "/metrics")).body.decode()
    assert (too_new.status, sent[0]["status"]) == (504, 504)
    (termination,) = re.findall(r"^apiserver_request_terminations_total({.*)", text, re.MULTILINE)
    assert 'code="504"' in termination
    assert 'resource="configmaps"' in termination
    assert termination.endswith(" 1.0")
