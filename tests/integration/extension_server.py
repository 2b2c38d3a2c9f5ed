"""A small server of an aggregated API, wardle.example.com/v1alpha1 with its resource flunders."""

from __future__ import annotations

import asyncio
import json
import ssl
from typing import Any

from aiohttp import web

GROUP, VERSION = "wardle.example.com", "v1alpha1"
ROOT = f"/apis/{GROUP}/{VERSION}"

_RESOURCES = [
    {
        "name": "flunders",
        "singularName": "flunder",
        "namespaced": True,
        "kind": "Flunder",
        "verbs": ["create", "delete", "get", "list", "watch"],
        "shortNames": ["fl"],
    },
    {"name": "flunders/status", "singularName": "", "namespaced": True, "kind": "Flunder", "verbs": ["get"]},
]
_DEFINITION = f"com.example.{VERSION}.Flunder"
_SCHEMA = {
    "description": "Flunder is an example.",
    "type": "object",
    "properties": {"spec": {"type": "object", "description": "What it is to be."}},
    "x-kubernetes-group-version-kind": [{"group": GROUP, "version": VERSION, "kind": "Flunder"}],
}


class ExtensionServer:
    """The server. `requests` are (method, path, user, groups, extra) of all requests for flunders.

    `is_healthy` False: every answer is a 500. `has_aggregated`: it has aggregated discovery and OpenAPI 3.
    """

    def __init__(self, *, has_aggregated: bool) -> None:
        self.requests: list[tuple[str, str, str | None, list[str], str | None, str | None]] = []
        self.flunders: dict[str, dict[str, Any]] = {}
        self.is_healthy = True
        self._has_aggregated = has_aggregated
        self._changed = asyncio.Condition()

    def application(self) -> web.Application:
        app = web.Application(middlewares=[self._check])
        app.router.add_get(ROOT, self._resource_list)
        flunders = f"{ROOT}/namespaces/{{namespace}}/flunders"
        app.router.add_get(flunders, self._list)
        app.router.add_post(flunders, self._create)
        app.router.add_get(f"{flunders}/{{name}}", self._get)
        app.router.add_get(f"{flunders}/{{name}}/echo", self._echo)
        if self._has_aggregated:
            app.router.add_get("/apis", self._aggregated)
            app.router.add_get("/openapi/v3", self._index)
            app.router.add_get(f"/openapi/v3{ROOT}", self._document_3)
        app.router.add_get("/openapi/v2", self._document_2)
        return app

    @web.middleware
    async def _check(self, request: web.Request, handler: Any) -> web.StreamResponse:
        if not self.is_healthy:
            return web.Response(status=500, text="not healthy")
        certificate = request.transport.get_extra_info("peercert") if request.transport else None
        names = [value for part in (certificate or {}).get("subject", ()) for key, value in part if key == "commonName"]
        if names != ["front-proxy-client"]:
            return web.Response(status=401, text=f"not the front proxy: {names}")
        if "flunders" in request.path:
            headers = request.headers
            self.requests.append(
                (
                    request.method,
                    request.raw_path,
                    headers.get("X-Remote-User"),
                    [*headers.getall("X-Remote-Group", []), *headers.getall("X-Team", [])],
                    headers.get("X-Remote-Extra-Example.com%2fkey"),
                    headers.get("Audit-ID"),
                )
            )
        response: web.StreamResponse = await handler(request)
        return response

    async def _resource_list(self, _: web.Request) -> web.Response:
        body = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": f"{GROUP}/{VERSION}"}
        return web.json_response({**body, "resources": _RESOURCES})

    async def _aggregated(self, _: web.Request) -> web.Response:
        kind = {"group": GROUP, "version": VERSION, "kind": "Flunder"}
        resource = {"resource": "flunders", "responseKind": kind, "scope": "Namespaced", "singularResource": "flunder"}
        resource |= {"verbs": ["create", "get", "list"], "shortNames": ["fl"]}
        version = {"version": VERSION, "resources": [resource], "freshness": "Current"}
        items = [{"metadata": {"name": GROUP}, "versions": [version]}]
        kind_and_version = {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2"}
        return web.json_response({**kind_and_version, "metadata": {}, "items": items})

    async def _index(self, _: web.Request) -> web.Response:
        path = ROOT.removeprefix("/")
        return web.json_response({"paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash=ABC"}}})

    async def _document_3(self, _: web.Request) -> web.Response:
        info = {"openapi": "3.0.0", "info": {"title": "wardle", "version": "1"}}
        kind = {"group": GROUP, "version": VERSION, "kind": "Flunder"}
        listing = {"x-kubernetes-action": "list", "x-kubernetes-group-version-kind": kind, "responses": {}}
        paths = {f"{ROOT}/namespaces/{{namespace}}/flunders": {"get": listing}}
        return web.json_response({**info, "paths": paths, "components": {"schemas": {_DEFINITION: _SCHEMA}}})

    async def _document_2(self, _: web.Request) -> web.Response:
        paths = {f"{ROOT}/": {}, "/version": {}}
        return web.json_response({"swagger": "2.0", "paths": paths, "definitions": {_DEFINITION: _SCHEMA}})

    def _response(self, flunder: dict[str, Any], status: int = 200) -> web.Response:
        return web.json_response(flunder, status=status)

    async def _create(self, request: web.Request) -> web.Response:
        flunder = await request.json()
        self.flunders[flunder["metadata"]["name"]] = flunder
        async with self._changed:
            self._changed.notify_all()
        return self._response(flunder, 201)

    async def _get(self, request: web.Request) -> web.Response:
        flunder = self.flunders.get(request.match_info["name"])
        if flunder is None:
            details = {"name": request.match_info["name"], "group": GROUP, "kind": "flunders"}
            message = f'flunders.{GROUP} "{details["name"]}" not found'
            status = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message}
            return web.json_response({**status, "reason": "NotFound", "details": details, "code": 404}, status=404)
        return self._response(flunder)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        items = list(self.flunders.values())
        if "watch" not in request.query:
            body = {"kind": "FlunderList", "apiVersion": f"{GROUP}/{VERSION}", "metadata": {"resourceVersion": "1"}}
            return web.json_response({**body, "items": items})
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        await response.prepare(request)
        sent = 0
        while True:
            for flunder in list(self.flunders.values())[sent:]:
                await response.write(json.dumps({"type": "ADDED", "object": flunder}).encode() + b"\n")
                sent += 1
            async with self._changed:
                await self._changed.wait()

    async def _echo(self, request: web.Request) -> web.WebSocketResponse:
        messages = web.WebSocketResponse()
        await messages.prepare(request)
        await messages.send_str(request.headers.get("X-Remote-User", ""))
        async for message in messages:
            await messages.send_str(message.data)
        return messages


def server_context(directory: str, name: str) -> ssl.SSLContext:
    """TLS of the server with the certificate `name`; clients may prove that the CA of `directory` signed theirs."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{directory}/{name}.crt", f"{directory}/{name}.key")
    context.load_verify_locations(f"{directory}/ca.crt")
    context.verify_mode = ssl.CERT_OPTIONAL
    return context
