"""Ranges of cluster IPs: from the cluster's ServiceCIDRs to the mode's settings."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import pytest

from bridgehead.client import ListResult
from bridgehead.client.errors import ClientError, Forbidden, NotFound, Unreachable
from bridgehead.objects.kinds import SERVICE_CIDRS, SERVICES, Kind
from bridgehead.proxy import service_ranges
from bridgehead.proxy.agent import ProxyAgent
from tests.unit.proxy.agent_world import CONFIG, ScriptedApi, ScriptedMode, eventually, running, service


def ranges(name: str, *cidrs: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"cidrs": list(cidrs)}}


async def test_ranges_are_known_before_the_first_sync_and_watched_after_it() -> None:
    api, mode = ScriptedApi(), ScriptedMode()
    api.put(SERVICE_CIDRS, ranges("kubernetes", "10.96.0.0/12", "FD00:10:96:0::/112"))
    api.put(SERVICES, service("s", "10.96.0.1"))
    async with running(api, mode):
        assert mode.settings.service_cidrs == ("10.96.0.0/12", "fd00:10:96::/112")
        assert len(mode.synced) == 1

        api.put(SERVICE_CIDRS, ranges("more", "192.0.2.0/24", "nonsense"))
        await eventually(lambda: len(mode.synced) == 2)
        assert mode.settings.service_cidrs == ("10.96.0.0/12", "192.0.2.0/24", "fd00:10:96::/112")

        api.delete(SERVICE_CIDRS, "more")
        await eventually(lambda: len(mode.synced) == 3)
        assert mode.settings.service_cidrs == ("10.96.0.0/12", "fd00:10:96::/112")


async def test_configured_ranges_cause_no_request() -> None:
    api, mode = ScriptedApi(), ScriptedMode()
    api.put(SERVICE_CIDRS, ranges("kubernetes", "10.96.0.0/12"))
    agent = ProxyAgent(api, mode, CONFIG, "node1", service_cidrs=("192.0.2.0/24",))  # type: ignore[arg-type]
    run = asyncio.create_task(agent.run())
    try:
        async with asyncio.timeout(20):
            await agent.wait_programmed()
        assert mode.settings.service_cidrs == ("192.0.2.0/24",)
    finally:
        run.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await run


class Refusing(ScriptedApi):
    """Answers for ServiceCIDRs with these errors, one after the other, before it lists them."""

    def __init__(self, *errors: ClientError) -> None:
        super().__init__()
        self.errors = list(errors)

    async def list(self, kind: Kind[Any], *rest: Any, **more: Any) -> ListResult[Any]:
        if kind is SERVICE_CIDRS and self.errors:
            raise self.errors.pop(0)
        return await super().list(kind, *rest, **more)


@pytest.mark.parametrize("error", [NotFound(404, "", "HTTP 404"), Forbidden(403, "Forbidden", "may not list")])
async def test_without_ranges_services_are_served_and_the_reason_is_logged_once(
    error: ClientError, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(service_ranges, "REFUSED_SECONDS", 3600.0)
    api, mode = Refusing(error), ScriptedMode()
    api.put(SERVICE_CIDRS, ranges("kubernetes", "10.96.0.0/12"))
    api.put(SERVICES, service("s", "10.96.0.1"))
    with caplog.at_level(logging.INFO):
        async with running(api, mode):
            assert mode.synced == [{"10.96.0.1:80/tcp": 0}]
            assert mode.settings.service_cidrs == ()
    assert caplog.text.count(str(error)) == 1


async def test_a_refused_request_is_repeated(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(service_ranges, "REFUSED_SECONDS", 0.01)
    monkeypatch.setattr(service_ranges, "UNREACHABLE_SECONDS", 0.01)
    refusal = Forbidden(403, "Forbidden", "may not list")
    api, mode = Refusing(Unreachable("nobody there"), refusal, refusal, refusal), ScriptedMode()
    api.put(SERVICE_CIDRS, ranges("kubernetes", "10.96.0.0/12"))
    with caplog.at_level(logging.INFO):
        async with running(api, mode):
            await eventually(lambda: mode.settings.service_cidrs == ("10.96.0.0/12",))
    assert caplog.text.count("may not list") == 1
