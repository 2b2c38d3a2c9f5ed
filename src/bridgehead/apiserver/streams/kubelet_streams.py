"""Forwarding of logs, exec, attach and port-forward to the kubelet of a pod's node.

Called by `pod_streams` for authorized requests. An upgrade to WebSocket or SPDY is the kubelet's: it negotiates the
protocol, and the bytes that follow pass unparsed. Source: Kubernetes `pkg/registry/core/pod/strategy.go` (LogLocation,
ExecLocation, AttachLocation).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Iterable, Iterator
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from bridgehead.apiserver.errors import ApiStatus, bad_request
from bridgehead.apiserver.http.request import Request, Response
from bridgehead.apiserver.http.request_info import QueryList
from bridgehead.apiserver.http.tunnel import Tunnel, tunnel_of
from bridgehead.apiserver.http.upgrade_forwarding import MalformedAnswer, forward_upgrade, request_head
from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.addresses import join_host_port
from bridgehead.streaming.socket_stream import SocketStream

from .kubelet_access import CONNECT_SECONDS, KubeletAccess, kubelet_address
from .pod_logs import MAX_TEXT_BYTES, check_log_options, refused_log, unreachable_log

# Headers of an upgrade that are the kubelet's business.
_UPGRADE_HEADERS = frozenset(
    (
        b"connection",
        b"upgrade",
        b"sec-websocket-key",
        b"sec-websocket-version",
        b"sec-websocket-protocol",
        b"x-stream-protocol-version",
        b"user-agent",
    )
)
_PROTOCOLS = b"sec-websocket-protocol"
_TOKEN_PROTOCOL = b"base64url.bearer.authorization.k8s.io."
_MAX_ERROR_CHARACTERS = 2048
_LOG_PARAMETERS = frozenset(
    {"follow", "previous", "sinceSeconds", "sinceTime", "tailLines", "limitBytes", "timestamps"}
)
_STREAM_PARAMETERS = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}


async def answer(
    request: Request,
    pod: JsonObject,
    node: JsonObject | None,
    query: QueryList,
    access: KubeletAccess,
) -> Response:
    """Answer a request for a subresource; return when an upgraded connection has ended.

    `node` is the pod's Node, None if it has none. Raises `ApiStatus`, and `Disconnected` if the client leaves early.
    """
    subresource = request.info.subresource
    if subresource == "log":
        return await _open_log(pod, node, query, access)
    client = tunnel_of(request.scope)
    if client is None:
        raise await _refuse(pod, node, subresource, query, access)
    await _upgrade(request, client, _upgrade_url(pod, node, subresource, query, access), access)
    return Response(101, is_long_running=True)


async def _open_log(pod: JsonObject, node: JsonObject | None, query: QueryList, access: KubeletAccess) -> Response:
    check_log_options(pod["metadata"]["name"], dict(query))
    container = choose_container(pod, dict(query).get("container", ""))
    if not pod.get("spec", {}).get("nodeName"):
        return Response(200, b"", "text/plain")
    parameters = [(name, value) for name, value in query if name in _LOG_PARAMETERS]
    url = _url(access, node, "containerLogs", pod, container, parameters)
    try:
        response = await access.session().get(URL(url, encoded=True))
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise unreachable_log(url, _reason_of(error)) from error
    if response.status != 200:
        async with response:
            text = await response.content.read(MAX_TEXT_BYTES)
            raise refused_log(response.status, text.decode(errors="replace"), pod["metadata"]["name"])
    return Response(200, b"", "text/plain", stream=_LogStream(response), is_long_running=True)


class _LogStream:
    """A log, forwarded from the kubelet."""

    held_bytes = 0  # aiohttp's buffer is small and bounded

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def __aiter__(self) -> AsyncGenerator[bytes, None]:
        with contextlib.suppress(aiohttp.ClientError):  # the kubelet closed the connection: the log ends here
            async for piece in self._response.content.iter_any():
                yield piece

    async def aclose(self) -> None:
        self._response.close()


async def _refuse(
    pod: JsonObject, node: JsonObject | None, subresource: str, query: QueryList, access: KubeletAccess
) -> ApiStatus:
    """Return the kubelet's error for an exec, attach or port-forward that is no upgrade."""
    try:
        return await _why_refused(_upgrade_url(pod, node, subresource, query, access), access)
    except ApiStatus as status:
        return status


async def _upgrade(request: Request, client: Tunnel, url: str, access: KubeletAccess) -> None:
    """Pass an upgrade on, with all that follows. Raises `ApiStatus` if the kubelet does not accept it."""
    parts = URL(url, encoded=True)
    headers = [(b"host", parts.raw_authority.encode()), *_upgrade_headers(request.scope["headers"])]
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            kubelet = await SocketStream.connect(parts.host or "", parts.port or 0, access.context)
    except (OSError, TimeoutError) as error:
        raise _unreachable(url, error) from error
    try:
        head = request_head(request.method, parts.raw_path_qs, headers)
        refusal = await forward_upgrade(request, client, kubelet, head, patience=None)
    except (OSError, MalformedAnswer) as error:
        raise _unreachable(url, error) from error
    finally:
        kubelet.close()
    if refusal is not None:
        raise _refused(refusal.status, refusal.body.decode(errors="replace"))


def _upgrade_headers(headers: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    for name, value in headers:
        if name == _PROTOCOLS:
            protocols = [protocol.strip() for protocol in value.split(b",")]
            value = b", ".join(protocol for protocol in protocols if not protocol.startswith(_TOKEN_PROTOCOL))
        if name in _UPGRADE_HEADERS and value:
            yield name, value


# --- The kubelet's URL, and its errors ---------------------------------------------------------------------------


def choose_container(pod: JsonObject, wanted: str) -> str:
    """Return the wanted or the only container. Raises a 400 with Kubernetes' text."""
    name, spec = pod["metadata"]["name"], pod.get("spec", {})
    own = [container["name"] for container in spec.get("containers", ())]
    init = [container["name"] for container in spec.get("initContainers", ())]
    ephemeral = [container["name"] for container in spec.get("ephemeralContainers", ())]
    if wanted:
        if wanted not in own + init + ephemeral:
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(own) == 1 and not init:
        return str(own[0])
    text = f"a container name must be specified for pod {name}, choose one of: [{' '.join(own)}]"
    if init:
        text += f" or one of the init containers: [{' '.join(init)}]"
    raise bad_request(text)


def _upgrade_url(
    pod: JsonObject, node: JsonObject | None, subresource: str, query: QueryList, access: KubeletAccess
) -> str:
    if subresource == "portforward":
        ports = [(name.removesuffix("s"), value) for name, value in query if name == "ports"]
        return _url(access, node, "portForward", pod, "", ports)
    values = dict(query)
    container = choose_container(pod, values.get("container", ""))
    parameters = []
    if subresource == "exec":
        parameters = [("command", value) for name, value in query if name == "command"]
        if not parameters:
            raise bad_request("you must specify at least one command for the container")
    for name, kubelet_name in _STREAM_PARAMETERS.items():
        if values.get(name, "").lower() in ("1", "true"):
            parameters.append((kubelet_name, "1"))
    return _url(access, node, subresource, pod, container, parameters)


def _url(
    access: KubeletAccess,
    node: JsonObject | None,
    what: str,
    pod: JsonObject,
    container: str,
    parameters: QueryList,
) -> str:
    name = pod["metadata"]["name"]
    node_name = pod.get("spec", {}).get("nodeName", "")
    if not node_name:
        raise bad_request(f"pod {name} does not have a host assigned")
    if node is None:
        raise ApiStatus(404, "NotFound", f'nodes "{node_name}" not found', {"name": node_name, "kind": "nodes"})
    parts = [part for part in (what, pod["metadata"]["namespace"], name, container) if part]
    path = "/".join(quote(part, safe="") for part in parts)
    query = f"?{urlencode(parameters)}" if parameters else ""
    return f"{access.scheme}://{join_host_port(*kubelet_address(node))}/{path}{query}"


async def _why_refused(url: str, access: KubeletAccess) -> ApiStatus:
    """Return the kubelet's error for the same request without an upgrade."""
    try:
        async with access.session().get(URL(url, encoded=True)) as response:
            text = await response.content.read(MAX_TEXT_BYTES)
            return _refused(response.status, text.decode(errors="replace"))
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        return _unreachable(url, error)


def _refused(code: int, text: str) -> ApiStatus:
    reasons = {400: "BadRequest", 401: "Unauthorized", 403: "Forbidden", 404: "NotFound"}
    text = text.strip()[:_MAX_ERROR_CHARACTERS]
    if code in (401, 403):
        # The kubelet refused the API server's credentials, not the user's.
        return ApiStatus(500, "InternalError", f"the kubelet does not accept this API server: {text}", {})
    return ApiStatus(code if code in reasons else 500, reasons.get(code, "InternalError"), text, {})


def _unreachable(url: str, error: Exception) -> ApiStatus:
    return ApiStatus(500, "InternalError", f'Get "{url}": {_reason_of(error)}', {})


def _reason_of(error: Exception) -> str:
    reason: Any = getattr(error, "os_error", None) or error
    return str(reason) or type(error).__name__
