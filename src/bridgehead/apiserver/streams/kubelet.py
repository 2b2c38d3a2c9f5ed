"""Forwarding of logs, exec, attach and port-forward to the kubelet of a pod's node.

Called by `pod_streams` for authorized requests: `answer` for HTTP, `answer_socket` for a WebSocket. SPDY connections
are WebSockets here, too (`http.spdy_upgrade`). Source: Kubernetes `pkg/registry/core/pod/strategy.go`
(LogLocation, ExecLocation, AttachLocation) and KEP-4006.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import quote, urlencode

import aiohttp
from yarl import URL

from bridgehead.apiserver.errors import ApiStatus, bad_request
from bridgehead.apiserver.http.paths import QueryList
from bridgehead.apiserver.http.request import Receive, Response, Scope, Send
from bridgehead.apiserver.resource import JsonObject
from bridgehead.objects.addresses import join_host_port

from .kubelet_access import KubeletAccess, kubelet_address
from .log_options import check_log_options
from .log_refusals import MAX_TEXT_BYTES, refused_log, unreachable_log

# WebSocket subprotocols by subresource; a client may also offer none. The kubelet speaks them, messages pass unparsed.
_CHANNEL_PROTOCOLS = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io")
_COMMAND_PROTOCOLS = ("v5.channel.k8s.io", *_CHANNEL_PROTOCOLS, "channel.k8s.io", "base64.channel.k8s.io")
_PROTOCOLS = {
    "exec": _COMMAND_PROTOCOLS,
    "attach": _COMMAND_PROTOCOLS,
    "portforward": ("SPDY/3.1+portforward.k8s.io", *_CHANNEL_PROTOCOLS),
}
_MAX_MESSAGE_BYTES = 4 * 1024 * 1024
_MAX_ERROR_CHARACTERS = 2048
_LOG_PARAMETERS = frozenset(
    {"follow", "previous", "sinceSeconds", "sinceTime", "tailLines", "limitBytes", "timestamps"}
)
_STREAM_PARAMETERS = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}


async def answer(
    pod: JsonObject, node: JsonObject | None, subresource: str, query: QueryList, access: KubeletAccess
) -> Response:
    """Answer `GET pods/NAME/log`. `node` is the pod's Node, None if it has none.

    Raises `ApiStatus`; always for exec, attach and port-forward, which need a WebSocket.
    """
    match subresource:
        case "log":
            return await _open_log(pod, node, query, access)
        case "exec" | "attach" | "portforward":
            raise await _refuse(pod, node, subresource, query, access)
    raise _not_offered(subresource)


async def answer_socket(
    scope: Scope,
    receive: Receive,
    send: Send,
    pod: JsonObject,
    node: JsonObject | None,
    subresource: str,
    query: QueryList,
    access: KubeletAccess,
) -> None:
    """Serve a WebSocket until it is closed. Raises `ApiStatus` if it is not accepted."""
    if subresource not in _PROTOCOLS:
        raise _not_offered(subresource)
    url = _upgrade_url(pod, node, subresource, query, access)
    await _proxy(scope, receive, send, url, _PROTOCOLS[subresource], access)


def _not_offered(subresource: str) -> ApiStatus:
    return bad_request(f"pods/{subresource} is not offered by this API server")


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
    """Return the error for an exec, attach or port-forward that is not a WebSocket.

    kubectl sends such a request after a refused WebSocket and shows only this answer: it needs the kubelet's reason.
    """
    try:
        return await _why_refused(_upgrade_url(pod, node, subresource, query, access), access)
    except ApiStatus as status:
        return status


async def _proxy(
    scope: Scope, receive: Receive, send: Send, url: str, protocols: tuple[str, ...], access: KubeletAccess
) -> None:
    """Connect the client's WebSocket with one to the kubelet. Raises `ApiStatus` if the kubelet does not accept it."""
    await receive()  # websocket.connect
    asked = scope.get("subprotocols", ())
    offered = [name for name in asked if name in protocols]
    if asked and not offered:
        raise bad_request(f"unable to upgrade: the subprotocols offered here are {', '.join(protocols)}")
    try:
        kubelet = await access.session().ws_connect(
            URL(url, encoded=True), protocols=offered, max_msg_size=_MAX_MESSAGE_BYTES, autoclose=True, compress=0
        )
    except aiohttp.WSServerHandshakeError:
        raise await _why_refused(url, access) from None
    except (aiohttp.ClientError, OSError, TimeoutError) as error:
        raise _unreachable(url, error) from error
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(kubelet.close)
        await send({"type": "websocket.accept", "subprotocol": kubelet.protocol})
        upward = asyncio.create_task(_to_kubelet(receive, kubelet))
        downward = asyncio.create_task(_to_client(kubelet, send))
        try:
            await asyncio.wait((upward, downward), return_when=asyncio.FIRST_COMPLETED)
        finally:
            upward.cancel()
            downward.cancel()
            await asyncio.gather(upward, downward, return_exceptions=True)


async def _to_kubelet(receive: Receive, kubelet: aiohttp.ClientWebSocketResponse) -> None:
    while True:
        message = await receive()
        if message["type"] == "websocket.disconnect":
            return
        data = message.get("bytes")
        if data is None:
            await kubelet.send_str(message.get("text") or "")
        else:
            await kubelet.send_bytes(data)


async def _to_client(kubelet: aiohttp.ClientWebSocketResponse, send: Send) -> None:
    async for message in kubelet:
        if isinstance(message.data, bytes):
            await send({"type": "websocket.send", "bytes": message.data})
        elif isinstance(message.data, str):
            await send({"type": "websocket.send", "text": message.data})
    await send({"type": "websocket.close", "code": aiohttp.WSCloseCode.OK})


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
            return _refused(response.status, await response.text())
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
