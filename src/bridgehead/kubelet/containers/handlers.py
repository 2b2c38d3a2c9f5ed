"""The actions of probes and lifecycle hooks: exec, httpGet, tcpSocket, grpc, sleep.

Called by the prober, and for postStart and preStop hooks. HTTP and TCP connections come from the node's network
namespace. Messages are those of Kubernetes' `pkg/probe`, as `kubectl describe` shows them in Unhealthy events.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket

import msgspec

from bridgehead.kubelet.errors import ArgumentListTooLong
from bridgehead.kubelet.runtimes.runtime import Runtime, RuntimeFailure
from bridgehead.objects.addresses import join_host_port
from bridgehead.objects.core import Container, HTTPGetAction, LifecycleHandler, Probe

from .argument_list import ArgumentList
from .go_urls import Url, to_bytes_text, to_text, url_of_action
from .grpc_health import BadPacket, HealthAnswer, health_request
from .http_get import BodyFailed, RequestFailed, Requests
from .http_messages import Headers, headers_of_action
from .restart_backoff import format_duration

PROBE_AGENT, HOOK_AGENT = "kube-probe/1.36", "kube-lifecycle/1.36"
# Headers of the kubelet's two HTTP clients themselves: that of probes keeps no connections and takes no compressed
# bodies, that of hooks has the defaults of Go's client.
_CLOSE = (("Connection", "close"),)
_COMPRESSED = (("Accept-Encoding", "gzip"),)
_READ_BYTES = 16_384


class Outcome(msgspec.Struct, frozen=True):
    """`success` is None when the action could not be performed, so nothing is known about the container.

    `is_warning` is a success whose output is an Event. `fallback` is the message about a hook that is configured for
    HTTPS and was answered in HTTP.
    """

    success: bool | None
    output: str = ""
    fallback: str = ""
    is_warning: bool = False


class Target(msgspec.Struct, frozen=True):
    """The container that an action is performed on."""

    container: Container
    container_id: str
    pod_ip: str


def resolve_port(port: int | str, container: Container) -> int:
    """Return the number of a port, given by its number or by the name of a container port. Raises ValueError."""
    if isinstance(port, str):
        if port.isdigit():
            port = int(port)
        else:
            number = next((p.container_port for p in container.ports if p.name == port), None)
            if number is None:
                raise ValueError(f'strconv.Atoi: parsing "{port}": invalid syntax')  # Kubernetes' own text
            port = number
    if not 0 < port < 65536:
        raise ValueError(f"invalid port number: {port}")
    return port


def probe_command(command: tuple[str, ...], container: Container) -> tuple[str, ...]:
    """Return a probe's command, with the variables that the container's `env` sets to a text; hooks have none.

    Raises ArgumentListTooLong. Source: Kubernetes' `ExpandContainerCommandOnlyStatic`.
    """
    return ArgumentList().expand_texts(command, "exec.command", {one.name: one.value for one in container.env})


class Handlers:
    """Performs actions."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._requests = Requests(_reason)

    async def perform(self, handler: LifecycleHandler | Probe, target: Target, timeout: float) -> Outcome:
        """Perform the action once. An action that takes longer than `timeout` seconds has failed, except a sleep."""
        try:
            if handler.exec is not None:
                is_probe = isinstance(handler, Probe)
                command = probe_command(handler.exec.command, target.container) if is_probe else handler.exec.command
                return await self._exec(command, target, timeout)
            if handler.http_get is not None:
                return await self._http_get(handler.http_get, target, timeout, is_probe=isinstance(handler, Probe))
            if isinstance(handler, LifecycleHandler) and handler.tcp_socket is not None:
                return Outcome(False, "invalid handler: tcpSocket is not supported as a lifecycle hook")
            if handler.tcp_socket is not None:
                port = resolve_port(handler.tcp_socket.port, target.container)
                return await self._tcp_connect(handler.tcp_socket.host or target.pod_ip, port, timeout)
            if isinstance(handler, Probe) and handler.grpc is not None:
                port = resolve_port(handler.grpc.port, target.container)
                return await _check_health(target.pod_ip, port, handler.grpc.service, timeout)
            if isinstance(handler, LifecycleHandler) and handler.sleep is not None:
                await asyncio.sleep(handler.sleep.seconds)
                return Outcome(True)
        except (ValueError, ArgumentListTooLong) as error:
            return Outcome(None, str(error))
        return Outcome(True)

    async def _exec(self, command: tuple[str, ...], target: Target, timeout: float) -> Outcome:
        try:
            result = await self._runtime.exec_in_container(target.container_id, command, timeout=timeout)
        except TimeoutError:
            shown = msgspec.json.encode(" ".join(command)).decode()
            return Outcome(False, f"command timed out: {shown} timed out after {format_duration(timeout)}")
        except RuntimeFailure as error:
            return Outcome(None, str(error))
        return Outcome(result.exit_code == 0, result.output.decode("utf-8", "replace"))

    async def _tcp_connect(self, host: str, port: int, timeout: float) -> Outcome:
        try:
            async with asyncio.timeout(timeout):
                _, writer = await asyncio.open_connection(host, port)
        except TimeoutError:
            return Outcome(False, f"dial tcp {join_host_port(host, port)}: i/o timeout")
        except socket.gaierror:
            return Outcome(False, f"dial tcp: lookup {host}: no such host")
        except OSError as error:
            return Outcome(False, f"dial tcp {join_host_port(host, port)}: {_reason(error)}")
        writer.transport.abort()
        return Outcome(True)

    async def _http_get(self, action: HTTPGetAction, target: Target, timeout: float, *, is_probe: bool) -> Outcome:
        """GET a page. Any response to a hook is a success, as in Kubernetes (`runHTTPHandler`)."""
        port = resolve_port(action.port, target.container)
        host = to_bytes_text(join_host_port(action.host or target.pod_ip, port))
        url = url_of_action(action.scheme.lower() or "http", host, to_bytes_text(action.path))
        headers = headers_of_action(action.http_headers, PROBE_AGENT if is_probe else HOOK_AGENT)
        try:
            return await (self._probe if is_probe else self._call_hook)(url, headers, timeout)
        except RequestFailed as error:
            return Outcome(False, str(error))
        except BodyFailed as error:
            return Outcome(None, str(error))

    async def _probe(self, url: Url, headers: Headers, timeout: float) -> Outcome:
        """GET a page. A redirect to another host is a success with a warning (pkg/probe/http)."""
        is_closing = any("close" in value.lower() for value in headers.get("Connection", ()))
        response = await self._requests.get(url, headers, () if is_closing else _CLOSE, timeout)
        if 300 <= response.status < 400:
            body = response.body.decode("utf-8", "replace")
            return Outcome(True, f"Probe terminated redirects, Response body: {body}", is_warning=True)
        if 200 <= response.status < 300:
            return Outcome(True)
        return Outcome(False, f"HTTP probe failed with statuscode: {response.status}")

    async def _call_hook(self, url: Url, headers: Headers, timeout: float) -> Outcome:
        """GET a page. A server without TLS is called again in HTTP, without credentials (`runHTTPHandler`)."""
        extra = () if headers.keys() & {"Accept-Encoding", "Range"} else _COMPRESSED
        try:
            await self._get_any(url, headers, extra, timeout)
        except RequestFailed as error:
            if not error.is_plain:
                raise
            headers.pop("Authorization", None)
            await self._get_any(url._replace(scheme="http"), headers, extra, timeout)
            message = (
                f"request to HTTPS lifecycle hook {to_text(url.host)} got HTTP response, retry with HTTP succeeded"
            )
            return Outcome(True, fallback=message)
        return Outcome(True)

    async def _get_any(self, url: Url, headers: Headers, extra: tuple[tuple[str, str], ...], timeout: float) -> None:
        with contextlib.suppress(BodyFailed):
            await self._requests.get(url, headers, extra, timeout)


async def _check_health(host: str, port: int, service: str, timeout: float) -> Outcome:
    """Ask a gRPC server for the health of one of its services."""
    authority, answer = join_host_port(host, port), HealthAnswer()
    try:
        async with asyncio.timeout(timeout):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(health_request(authority, service, PROBE_AGENT))
                while not answer.is_complete:
                    data = await reader.read(_READ_BYTES)
                    if not data:
                        return Outcome(False, "error: health rpc probe failed: the server closed the connection")
                    writer.write(answer.feed_untrusted(data))
            finally:
                writer.transport.abort()
        status = answer.status()
    except TimeoutError:
        return Outcome(False, f"timeout: health rpc did not complete within {timeout:g}s")
    except OSError as error:
        return Outcome(False, f'error: failed to connect service at "{authority}": {_reason(error)}')
    except BadPacket as error:
        return Outcome(False, f"error: health rpc probe failed: {error}")
    if status != "SERVING":
        return Outcome(False, f'service unhealthy (responded with "{status}")')
    return Outcome(True, "service healthy")


def _reason(error: OSError) -> str:
    # asyncio hides the number when it tried several addresses; a pod has one.
    if error.errno == errno.ECONNREFUSED or isinstance(error, ConnectionRefusedError):
        return "connect: connection refused"
    if error.errno == errno.EHOSTUNREACH:
        return "connect: no route to host"
    if error.errno is not None and error.errno > 0:
        return f"connect: {os.strerror(error.errno).lower()}"
    return str(error)
