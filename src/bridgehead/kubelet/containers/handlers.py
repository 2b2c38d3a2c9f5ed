"""The actions of probes and lifecycle hooks: exec, httpGet, tcpSocket, grpc, sleep.

Called by the prober, and for postStart and preStop hooks. HTTP and TCP connections come from the node's network
namespace. Messages are those of Kubernetes' `pkg/probe`, as `kubectl describe` shows them in Unhealthy events.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import Mapping
from types import TracebackType
from typing import Self
from urllib.parse import urljoin, urlsplit

import aiohttp
import msgspec
from multidict import CIMultiDict

from bridgehead.kubelet.errors import ArgumentListTooLong
from bridgehead.kubelet.runtimes.runtime import Runtime, RuntimeFailure
from bridgehead.objects.addresses import join_host_port
from bridgehead.objects.core import Container, HTTPGetAction, LifecycleHandler, Probe
from bridgehead.tls_failures import is_plain_answer

from .argument_list import ArgumentList
from .grpc_health import BadPacket, HealthAnswer, health_request
from .restart_backoff import format_duration

PROBE_AGENT, HOOK_AGENT = "kube-probe/1.36", "kube-lifecycle/1.36"
_MAX_REDIRECTS = 10
_MAX_SHOWN_BODY = 10 << 10  # bytes of an answer in an Event
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
                raise ValueError(f'strconv.Atoi: parsing "{port}": invalid syntax')  # Kubernetes' own words
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
    """Performs actions. An async context manager, which holds the HTTP client."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        insecure = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        insecure.check_hostname = False
        insecure.verify_mode = ssl.CERT_NONE  # Kubernetes' probes skip verification
        connector = aiohttp.TCPConnector(ssl=insecure, force_close=True, limit=0)
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),  # pods must not get each other's cookies
            auto_decompress=False,
            trust_env=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

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
        except OSError as error:
            return Outcome(False, f"dial tcp {join_host_port(host, port)}: {_reason(error)}")
        writer.transport.abort()
        return Outcome(True)

    async def _http_get(self, action: HTTPGetAction, target: Target, timeout: float, *, is_probe: bool) -> Outcome:
        """GET a page. Any response to a hook is a success, as in Kubernetes (`runHTTPHandler`)."""
        if self._session is None:
            raise RuntimeError("Handlers is used outside its context")
        host = action.host or target.pod_ip
        port = resolve_port(action.port, target.container)
        path = action.path if action.path.startswith("/") else "/" + action.path
        url = f"{action.scheme.lower()}://{join_host_port(host, port)}{path}"
        headers = CIMultiDict((header.name, header.value) for header in action.http_headers)
        headers.setdefault("User-Agent", PROBE_AGENT if is_probe else HOOK_AGENT)
        try:
            async with asyncio.timeout(timeout):
                if is_probe:
                    return await _probe(self._session, url, headers)
                return await _call_hook(self._session, url, headers)
        except TimeoutError:
            waiting = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
            return Outcome(False, f'Get "{url}": {waiting}')
        except aiohttp.ClientConnectorSSLError as error:
            return Outcome(False, f'Get "{url}": {_describe_tls(error)}')
        except aiohttp.ClientConnectorError as error:
            return Outcome(False, f'Get "{url}": dial tcp {join_host_port(host, port)}: {_reason(error.os_error)}')
        except (aiohttp.ClientError, OSError) as error:
            return Outcome(False, f'Get "{url}": {_describe(error)}')


async def _probe(session: aiohttp.ClientSession, url: str, headers: Mapping[str, str]) -> Outcome:
    """GET `url`.

    Redirects are followed on the same host only; one to another host is a success with a warning, as in Kubernetes
    (pkg/probe/http).
    """
    for _ in range(_MAX_REDIRECTS):
        async with session.get(url, headers=headers, allow_redirects=False) as response:
            location = response.headers.get("Location")
            if response.status in (301, 302, 303, 307, 308) and location:
                target = urljoin(url, location)
                if urlsplit(target).hostname == urlsplit(url).hostname:
                    url = target
                    continue
            if 300 <= response.status < 400:
                body = (await response.content.read(_MAX_SHOWN_BODY)).decode("utf-8", "replace")
                return Outcome(True, f"Probe terminated redirects, Response body: {body}", is_warning=True)
            if 200 <= response.status < 300:
                return Outcome(True)
            return Outcome(False, f"HTTP probe failed with statuscode: {response.status}")
    return Outcome(False, f'Get "{url}": stopped after {_MAX_REDIRECTS} redirects')


async def _call_hook(session: aiohttp.ClientSession, url: str, headers: CIMultiDict[str]) -> Outcome:
    """GET `url`. A server without TLS is called again in HTTP, without credentials. Source: `runHTTPHandler`."""
    try:
        async with session.get(url, headers=headers, max_redirects=_MAX_REDIRECTS):
            return Outcome(True)
    except aiohttp.ClientConnectorSSLError as error:
        if not is_plain_answer(error.os_error):
            raise
    headers.popall("Authorization", None)
    async with session.get(url.replace("https:", "http:", 1), headers=headers, max_redirects=_MAX_REDIRECTS):
        host = urlsplit(url).netloc
        message = f"request to HTTPS lifecycle hook {host} got HTTP response, retry with HTTP succeeded"
        return Outcome(True, fallback=message)


def _describe_tls(error: aiohttp.ClientConnectorSSLError) -> str:
    if is_plain_answer(error.os_error):
        return "http: server gave HTTP response to HTTPS client"
    return f"tls: {getattr(error.os_error, 'reason', None) or error.os_error}"


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


def _describe(error: Exception) -> str:
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    if isinstance(error, ConnectionResetError):
        return "read: connection reset by peer"
    return str(error) or type(error).__name__
