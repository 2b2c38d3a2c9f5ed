"""Aggregated APIs: APIServices, and a server behind one of them, with kubectl and raw requests.

Each test runs in a network namespace of its own, whose loopback has the addresses of pods.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import ssl
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bridgehead.apiserver.access.request_headers import RequestHeaders
from bridgehead.apiserver.proxying.aggregation.server_transport import ProxyCertificate

from .api_world import ApiWorld, running, until
from .certificates import Authority
from .extension_server import GROUP, ROOT, VERSION, ExtensionServer, server_context
from .namespaced import in_namespace
from .proxy_backends import POD_IP, add_addresses, backend, kubectl

pytestmark = [pytest.mark.integration, pytest.mark.needs("ip", "unshare", "kubectl")]

_SERVICES = "/apis/apiregistration.k8s.io/v1/apiservices"
_NAME = f"{VERSION}.{GROUP}"
_FLUNDERS = f"{ROOT}/namespaces/default/flunders"
_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


class World:
    """An API server whose aggregator runs, and a client with the admin's token."""

    def __init__(self, api: ApiWorld, session: aiohttp.ClientSession, directory: Path) -> None:
        self.api = api
        self.session = session
        self.directory = directory

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Return the status and the body, decoded if it is JSON."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        data = None if body is None else json.dumps(body)
        given = {"Content-Type": kind, **{name.replace("_", "-"): value for name, value in headers.items()}}
        url = self.api.config.server + path
        async with self.session.request(method, url, data=data, headers=given) as response:
            text = await response.text()
            is_json = "json" in response.headers.get("Content-Type", "")
            return response.status, json.loads(text) if is_json else text

    async def available(self, name: str) -> dict[str, Any] | None:
        _, obj = await self.call("GET", f"{_SERVICES}/{name}")
        conditions = obj.get("status", {}).get("conditions", [])
        return next((one for one in conditions if one["type"] == "Available"), None)

    async def until_available(self, name: str, status: str, reason: str) -> str:
        """Wait for a state of the condition; return its message."""

        async def message() -> str | None:
            condition = await self.available(name)
            is_right = condition is not None and (condition["status"], condition["reason"]) == (status, reason)
            return condition["message"] if condition is not None and is_right else None

        found: str = await until(message)
        return found

    def api_service(self, **spec: Any) -> dict[str, Any]:
        own = {"group": GROUP, "version": VERSION, "groupPriorityMinimum": 1000, "versionPriority": 15}
        own["service"] = {"namespace": "default", "name": "api"}
        bundle = base64.b64encode((self.directory / "ca.crt").read_bytes()).decode()
        return {"metadata": {"name": _NAME}, "spec": {**own, "caBundle": bundle, **spec}}


@contextlib.asynccontextmanager
async def aggregating() -> AsyncIterator[World]:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        authority = Authority(directory)
        authority.issue("server", "kube-apiserver")
        authority.issue("front-proxy", "front-proxy-client")
        authority.issue("api", "api", serves="api.default.svc")
        certificate = ProxyCertificate(directory / "front-proxy.crt", directory / "front-proxy.key")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory / "server.crt", directory / "server.key")
        headers = RequestHeaders(directory / "ca.crt", groups=("X-Remote-Group", "X-Team"))
        api = ApiWorld(context, proxy_certificate=certificate, request_headers=headers)
        async with contextlib.AsyncExitStack() as stack:
            stack.push_async_callback(api.close)
            await api.start()
            await stack.enter_async_context(running(api.parts.aggregator.run()))
            session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=False), headers={"Authorization": "Bearer admin"}
            )
            yield World(api, await stack.enter_async_context(session), directory)


@in_namespace
async def test_apis_of_the_server_are_registered() -> None:
    async with aggregating() as world:
        await world.until_available("v1.", "True", "Local")
        await world.until_available("v1.storage.k8s.io", "True", "Local")
        lines = (await kubectl(world.api, "get", "apiservices", "--no-headers")).splitlines()
        shown = {line.split()[0]: line.split()[1:3] for line in lines}
        assert shown["v1."] == shown["v1.apps"] == shown["v1.authentication.k8s.io"] == ["Local", "True"]
        assert "v1.apiregistration.k8s.io" not in shown
        _, core = await world.call("GET", f"{_SERVICES}/v1.")
        assert core["spec"] == {"version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}
        assert core["metadata"]["labels"] == {"kube-aggregator.kubernetes.io/automanaged": "onstart"}
        # A deleted one is only registered again at the next start.
        await world.call("DELETE", f"{_SERVICES}/v1.apps")
        assert (await world.call("GET", "/apis/apps/v1/deployments"))[0] == 200


@in_namespace
async def test_requests_reach_the_server_of_an_api() -> None:
    add_addresses(POD_IP)
    server = ExtensionServer(has_aggregated=True)
    async with aggregating() as world:
        status, body = await world.call("POST", _SERVICES, world.api_service())
        assert (status, body["spec"]["service"]["port"]) == (201, 443)
        text = await world.until_available(_NAME, "False", "ServiceNotFound")
        assert text == 'service/api in "default" is not present'
        assert await world.call("GET", ROOT) == (503, "service unavailable\n")
        assert "False (ServiceNotFound)" in await kubectl(world.api, "get", "apiservice", _NAME)
        ports = [{"name": "https", "port": 444, "targetPort": 8443}]
        await world.call(
            "POST", "/api/v1/namespaces/default/services", {"metadata": {"name": "api"}, "spec": {"ports": ports}}
        )
        text = await world.until_available(_NAME, "False", "ServicePortError")
        assert text == 'service/api in "default" is not listening on port 443'
        await world.call("PATCH", f"{_SERVICES}/{_NAME}", {"spec": {"service": {"port": 444}}})
        text = await world.until_available(_NAME, "False", "EndpointsNotFound")
        assert text == 'cannot find endpointslices for service/api in "default"'
        endpoint_slice = {
            "metadata": {"name": "api-1", "labels": {"kubernetes.io/service-name": "api"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [POD_IP], "conditions": {"ready": False}}],
            "ports": [{"name": "https", "port": 8443}],
        }
        slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
        await world.call("POST", slices, endpoint_slice)
        text = await world.until_available(_NAME, "False", "MissingEndpoints")
        assert text == 'endpointslices for service/api in "default" have no addresses with port name "https"'
        ready = {"endpoints": [{"addresses": [POD_IP], "conditions": {"ready": True}}]}
        await world.call("PATCH", f"{slices}/api-1", ready)
        text = await world.until_available(_NAME, "False", "FailedDiscoveryCheck")
        url = f"https://{POD_IP}:8443{ROOT}"
        dialing = f"dial tcp {POD_IP}:8443: connect: connection refused"
        assert text == f'failing or missing response from {url}: Get "{url}": {dialing}'

        context = server_context(str(world.directory), "api")
        async with backend(POD_IP, 8443, server.application(), ssl_context=context):
            assert await world.until_available(_NAME, "True", "Passed") == "all checks passed"
            flunder = {"apiVersion": f"{GROUP}/{VERSION}", "kind": "Flunder", "metadata": {"name": "one"}}

            async def is_served() -> bool:
                return (await world.call("POST", f"{_FLUNDERS}?b=2&a=1", flunder))[0] == 201

            await until(is_served)
            assert server.requests[-1][:3] == ("POST", f"{_FLUNDERS}?a=1&b=2", "kubernetes-admin")
            assert "system:masters" in server.requests[-1][3]
            extra = {"Impersonate-User": "eve", "Impersonate-Group": "dev", "Impersonate-Extra-Example.com%2fkey": "v"}
            status, body = await world.call("GET", f"{_FLUNDERS}/one", **extra)
            assert status == 403, "the user is authorized here, too"
            message = f'flunders.{GROUP} "one" is forbidden: User "eve" cannot get resource "flunders" in API group '
            assert body["message"].startswith(message)
            extra["Impersonate-Group"] = "system:masters"
            extra["Audit-Id"] = "of-the-client"
            # The server behind would take them for groups that this server has verified.
            extra["X-Team"] = extra["X-Remote-Group"] = "of-the-client"
            assert await world.call("GET", f"{_FLUNDERS}/one", **extra) == (200, flunder)
            eve = ("eve", ["system:masters", "system:authenticated"], "v", "of-the-client")
            assert server.requests[-1][2:] == eve

            await check_documents(world)
            await check_kubectl(world)
            await check_streams(world)

            server.is_healthy = False
            await world.call("PATCH", f"{_SERVICES}/{_NAME}", {"spec": {"versionPriority": 16}})
            text = await world.until_available(_NAME, "False", "FailedDiscoveryCheck")
            assert text == f"failing or missing response from {url}: bad status from {url}: 500"
            _, found = await world.call("GET", "/apis", Accept=_AGGREGATED)
            (group,) = [item for item in found["items"] if item["metadata"]["name"] == GROUP]
            assert group["versions"][0]["freshness"] == "Stale"
            server.is_healthy = True
            # The certificate is not for the Service's name, and requests verify it.
            await world.call("PATCH", f"{_SERVICES}/{_NAME}", {"spec": {"service": {"name": "other"}}})
            await world.until_available(_NAME, "False", "ServiceNotFound")
            other = {"metadata": {"name": "other"}, "spec": {"ports": ports}}
            await world.call("POST", "/api/v1/namespaces/default/services", other)
            labelled = {**endpoint_slice, **ready, "metadata": {"name": "other-1"}}
            labelled["metadata"] = {"name": "other-1", "labels": {"kubernetes.io/service-name": "other"}}
            await world.call("POST", slices, labelled)
            await world.until_available(_NAME, "True", "Passed")

            async def is_refused() -> Any:
                status, text = await world.call("GET", _FLUNDERS)
                return status == 503 and "certificate" in text and text

            text = await until(is_refused)
            assert text.startswith("error trying to reach service: tls: failed to verify certificate: x509: ")
            spec = {"caBundle": None, "insecureSkipTLSVerify": True}
            await world.call("PATCH", f"{_SERVICES}/{_NAME}", {"spec": spec})

            async def is_accepted() -> bool:
                return (await world.call("GET", _FLUNDERS))[0] == 200

            await until(is_accepted)
            await world.call("DELETE", f"{_SERVICES}/{_NAME}")

            async def is_gone() -> bool:
                return (await world.call("GET", _FLUNDERS))[0] == 404

            await until(is_gone)
            _, groups = await world.call("GET", "/apis")
            assert GROUP not in [group["name"] for group in groups["groups"]]


async def check_documents(world: World) -> None:
    _, groups = await world.call("GET", "/apis")
    assert [group["name"] for group in groups["groups"]][-1] == GROUP
    _, group = await world.call("GET", f"/apis/{GROUP}")
    assert group["preferredVersion"] == {"groupVersion": f"{GROUP}/{VERSION}", "version": VERSION}
    _, resources = await world.call("GET", ROOT)
    assert [one["name"] for one in resources["resources"]] == ["flunders", "flunders/status"]
    _, found = await world.call("GET", "/apis", Accept=_AGGREGATED)
    (item,) = [item for item in found["items"] if item["metadata"]["name"] == GROUP]
    (version,) = item["versions"]
    assert (version["freshness"], version["resources"][0]["resource"]) == ("Current", "flunders")
    _, index = await world.call("GET", "/openapi/v3")
    url = index["paths"][ROOT.removeprefix("/")]["serverRelativeURL"]
    assert url == f"/openapi/v3{ROOT}?hash=ABC"
    _, document = await world.call("GET", url)
    assert list(document["components"]["schemas"]) == ["com.example.v1alpha1.Flunder"]
    _, swagger = await world.call("GET", "/openapi/v2")
    assert "com.example.v1alpha1.Flunder" in swagger["definitions"]
    assert f"{ROOT}/" in swagger["paths"]
    assert "/version" not in swagger["paths"]


async def check_kubectl(world: World) -> None:
    assert (await kubectl(world.api, "get", "fl", "-o", "name")) == f"flunder.{GROUP}/one\n"
    lines = (await kubectl(world.api, "api-resources", f"--api-group={GROUP}", "--no-headers")).splitlines()
    assert [line.split() for line in lines] == [["flunders", "fl", f"{GROUP}/{VERSION}", "true", "Flunder"]]
    assert "Flunder is an example." in await kubectl(world.api, "explain", "flunders")
    errors = await kubectl(world.api, "get", "flunders", "none", fails=True)
    assert errors == f'Error from server (NotFound): flunders.{GROUP} "none" not found\n'
    assert "default/api" in await kubectl(world.api, "get", "apiservice", _NAME)


async def check_streams(world: World) -> None:
    url = f"{world.api.config.server}{_FLUNDERS}"
    async with world.session.get(f"{url}?watch=true") as response:
        assert json.loads(await response.content.readline())["object"]["metadata"]["name"] == "one"
        await world.call("POST", _FLUNDERS, {"metadata": {"name": "two"}})
        assert json.loads(await response.content.readline())["object"]["metadata"]["name"] == "two"
    async with world.session.ws_connect(f"{url}/one/echo") as messages:
        assert await messages.receive_str() == "kubernetes-admin"
        await messages.send_str("hello")
        assert await messages.receive_str() == "hello"


@in_namespace
async def test_a_server_with_legacy_documents_only() -> None:
    add_addresses(POD_IP)
    server = ExtensionServer(has_aggregated=False)
    async with (
        aggregating() as world,
        backend(POD_IP, 8443, server.application(), ssl_context=server_context(str(world.directory), "api")),
    ):
        ports = [{"port": 443, "targetPort": 8443}]
        service = {"metadata": {"name": "api"}, "spec": {"ports": ports}}
        await world.call("POST", "/api/v1/namespaces/default/services", service)
        endpoint_slice = {
            "metadata": {"name": "api-1", "labels": {"kubernetes.io/service-name": "api"}},
            "addressType": "IPv4",
            "endpoints": [{"addresses": [POD_IP]}],
            "ports": [{"name": "", "port": 8443}],
        }
        await world.call("POST", "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", endpoint_slice)
        broken = world.api_service(caBundle=base64.b64encode(b"no PEM").decode())
        await world.call("POST", _SERVICES, broken)
        await world.until_available(_NAME, "True", "Passed")

        async def answer() -> Any:
            status, text = await world.call("GET", _FLUNDERS)
            return status == 500 and text

        text = "unable to load root certificates: unable to parse bytes as PEM block\n"
        assert await until(answer) == text
        await world.call("PATCH", f"{_SERVICES}/{_NAME}", {"spec": world.api_service()["spec"]})

        async def shown() -> Any:
            _, found = await world.call("GET", "/apis", Accept=_AGGREGATED)
            (item,) = [item for item in found["items"] if item["metadata"]["name"] == GROUP]
            return item["versions"][0]["resources"]

        (resource,) = await until(shown)
        assert (resource["resource"], resource["scope"], resource["shortNames"]) == ("flunders", "Namespaced", ["fl"])
        assert [one["subresource"] for one in resource["subresources"]] == ["status"]
        _, index = await world.call("GET", "/openapi/v3")
        assert ROOT.removeprefix("/") not in index["paths"]
        # An API that this server is to serve itself again.
        await world.call("PATCH", f"{_SERVICES}/{_NAME}", {"spec": {"service": None, "caBundle": None}})
        await world.until_available(_NAME, "True", "Local")
        assert (await asyncio.wait_for(world.call("GET", _FLUNDERS), 40))[0] == 404
