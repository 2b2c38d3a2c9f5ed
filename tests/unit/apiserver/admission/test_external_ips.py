"""The plug-in DenyServiceExternalIPs, and the option that enables it."""

from __future__ import annotations

import contextlib
from types import SimpleNamespace
from typing import Any

import pytest

from bridgehead.apiserver.admission.attributes import UPDATE
from bridgehead.apiserver.admission.enabled_plugins import DENY_SERVICE_EXTERNAL_IPS, select_plugins
from bridgehead.apiserver.admission.external_ips import DenyServiceExternalIps
from bridgehead.apiserver.errors import ApiStatus
from bridgehead.apiserver.resources import build_table
from tests.unit.apiserver.world import open_world

URL = "/api/v1/namespaces/default/services"
DENIED = 'services "web" is forbidden: Use of external IPs is denied by admission control'


def service(*external_ips: str) -> dict[str, Any]:
    return {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}], "externalIPs": list(external_ips)}}


async def test_services_get_no_external_ips_where_the_plugin_is_enabled() -> None:
    async with open_world() as world:  # off by default
        assert (await world.call("POST", URL, service("192.0.2.1"))).status == 201
    async with open_world(admission_plugins=frozenset({DENY_SERVICE_EXTERNAL_IPS})) as world:
        refused = await world.call("POST", URL, service("192.0.2.1"))
        assert (refused.status, refused.json["reason"], refused.json["message"]) == (403, "Forbidden", DENIED)
        assert refused.json["details"] == {"name": "web", "kind": "services"}
        assert (await world.call("POST", URL, service())).status == 201
        patched = await world.patch(f"{URL}/web", {"spec": {"externalIPs": ["192.0.2.1"]}})
        assert (patched.status, patched.json["message"]) == (403, DENIED)
        assert (await world.patch(f"{URL}/web", {"metadata": {"labels": {"a": "b"}}})).status == 200
        assert (await world.patch(f"{URL}/web/status", {"metadata": {"labels": {"a": "c"}}})).status == 200


@pytest.mark.parametrize(
    ("old", "new", "is_allowed"),
    [
        (["192.0.2.1", "192.0.2.2"], ["192.0.2.2", "192.0.2.1"], True),
        (["192.0.2.1", "192.0.2.2"], ["192.0.2.2"], True),
        (["192.0.2.1"], [], True),
        ([], [], True),
        (["192.0.2.1"], ["192.0.2.2"], False),
        (["192.0.2.1"], ["192.0.2.1", "192.0.2.2"], False),
    ],
)
async def test_a_service_keeps_and_removes_those_that_it_has(old: list[str], new: list[str], is_allowed: bool) -> None:
    table = build_table(service_cidrs=("10.96.0.0/12",), node_port_range=(30000, 32767))
    resource = next(resource for resource in table if resource.id == "services")
    attributes: Any = SimpleNamespace(resource=resource, name="web", operation=UPDATE, subresource="")
    plugin = DenyServiceExternalIps()
    assert plugin.handles(attributes)
    with contextlib.nullcontext() if is_allowed else pytest.raises(ApiStatus, match="external IPs is denied"):
        await plugin.validate(attributes, service(*new), service(*old))


@pytest.mark.parametrize(
    ("names", "enabled"),
    [
        ([], set()),
        (["NodeRestriction", "PodSecurity"], set()),  # always on
        (["DenyServiceExternalIPs", "NodeRestriction"], {"DenyServiceExternalIPs"}),
    ],
)
def test_plugins_are_enabled_by_name(names: list[str], enabled: set[str]) -> None:
    assert select_plugins(names) == enabled


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("denyserviceexternalips", 'enable-admission-plugins plugin "denyserviceexternalips" is unknown'),
        ("AlwaysPullImages", "this server does not have AlwaysPullImages; optional ones: DenyServiceExternalIPs"),
    ],
)
def test_an_unknown_plugin_is_refused(name: str, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        select_plugins([name])
