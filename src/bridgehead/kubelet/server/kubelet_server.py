"""The kubelet's HTTPS server (port 10250): logs, exec, attach, port-forward, and pages about the node.

Most requests come from the API server, which forwards those of users (`apiserver.streams`). Scrapers of metrics come
themselves, with a token that `authorization` checks. Source: kubelet's `pkg/kubelet/server`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
from aiohttp import web

from bridgehead.go_answers import answer_as_go
from bridgehead.kubelet.containers.container_logs import check_log, parse_options, read_log
from bridgehead.kubelet.errors import NotServed
from bridgehead.kubelet.kubelet import Kubelet
from bridgehead.kubelet.pods.pod_worker import PodWorker
from bridgehead.kubelet.runtimes.runtime import ExecSession, RuntimeFailure
from bridgehead.objects.core import Container
from bridgehead.streaming.byte_stream import ByteStream
from bridgehead.streaming.socket_stream import keep_alive
from bridgehead.zpages import FLAGZ, STATUSZ, ZPages, offered_forms

from . import node_pages, remote_command, stream_channels
from .authorization import Reviews, authorization
from .channels import COMMAND_PROTOCOLS, ERROR, PORT_PROTOCOLS, RESIZE, STDERR, STDIN, STDOUT, Channels, SocketChannels
from .metrics_pages import MetricsPage, MetricsPages
from .port_channels import PortChannels, parse_ports
from .port_forward import SPDY_PROTOCOLS, TUNNEL_PROTOCOL, PortForward, SocketCarrier, StreamCarrier
from .stream_channels import StreamChannels
from .system_logs import serve_log
from .upgrades import Upgrade, negotiate, take_over

_MAX_LINE_BYTES = 1024 * 1024  # Go's DefaultMaxHeaderBytes: the command of an exec is in the URL
# The text is containerd's.
_ATTACHED_TOO_LATE = "Internal error occurred: error attaching to container: container is in CONTAINER_EXITED state"

_BACKLOG = 128
# The first segments of paths that go-restful serves.
_SERVICES = ("pods", "runningpods", "stats", "logs", "containerLogs", "exec", "attach", "portForward", "configz")
_IDLE_SECONDS = 4 * 3600.0  # the default of streamingConnectionIdleTimeout


class KubeletServer:
    """Serves the pods of `kubelet`, to clients that `reviews` allow; without, everybody may use all of it.

    Exec, attach and port-forward end when no byte has passed for `idle_seconds`.
    """

    def __init__(
        self, kubelet: Kubelet, reviews: Reviews | None = None, *, idle_seconds: float = _IDLE_SECONDS
    ) -> None:
        self._kubelet = kubelet
        self._idle_seconds = idle_seconds
        self._reviews = reviews
        self._zpages = ZPages("kubelet", kubelet.settings.flags, ("/configz", "/healthz", "/metrics"), time.time)

    async def run(self, host: str, port: int, context: ssl.SSLContext | None) -> None:
        """Serve until cancelled. Without `context`, serve plain HTTP.

        Raises OSError when the port is taken. The server is made when the first client connects: many kubelets of a lab
        never have one, and the server would copy 1 MiB of the memory that they share.
        """
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with socket.create_server((host, port), family=family, backlog=_BACKLOG) as listener:
            listener.setblocking(False)
            keep_alive(listener)
            await _until_readable(listener)
            runner = web.AppRunner(
                self._application(),
                access_log=None,
                handle_signals=False,
                shutdown_timeout=1.0,
                handler_cancellation=True,
                max_line_size=_MAX_LINE_BYTES,
            )
            await runner.setup()
            try:
                await web.SockSite(runner, listener, ssl_context=context).start()
                await asyncio.Event().wait()
            finally:
                await runner.cleanup()

    def _application(self) -> web.Application:
        reviews = self._reviews
        application = web.Application()
        answer_as_go(application, _SERVICES)
        if reviews is not None:
            application.middlewares.append(authorization(reviews))
        for path in ("/healthz", "/healthz/ping", "/healthz/syncloop"):
            application.router.add_get(path, _healthz)
        for path in ("/pods", "/pods/"):
            application.router.add_get(path, self._pods)
        for path in ("/runningpods", "/runningpods/"):
            application.router.add_get(path, self._running_pods)
        metrics = MetricsPages(self._kubelet, self._kubelet.metrics, self._kubelet.probe_metrics)
        for path, page in metrics.by_path.items():
            application.router.add_get(path, functools.partial(_rendered, page))
        application.router.add_get("/configz", self._configz)
        for path in (STATUSZ, FLAGZ):
            application.router.add_get(path, self._zpage)
        application.router.add_get("/stats/summary", self._summary)
        application.router.add_get("/logs/{path:.*}", self._system_logs)
        application.router.add_get("/containerLogs/{namespace}/{pod}/{container}", self._logs)
        for path, handler in (
            ("/exec/{namespace}/{pod}/{container}", self._exec),
            ("/attach/{namespace}/{pod}/{container}", self._attach),
            ("/portForward/{namespace}/{pod}", self._port_forward),
        ):
            application.router.add_get(path, handler)
            application.router.add_post(path, handler)  # over SPDY
        return application

    async def _pods(self, _: web.Request) -> web.Response:
        return _json(node_pages.pod_list(self._kubelet.pods()))

    async def _running_pods(self, _: web.Request) -> web.Response:
        return _json(node_pages.pod_list(pod for pod in self._kubelet.pods() if pod.status.phase == "Running"))

    async def _configz(self, _: web.Request) -> web.Response:
        return _json(node_pages.configuration(self._kubelet.settings))

    async def _zpage(self, request: web.Request) -> web.Response:
        answer = self._zpages.answer(request.path, request.headers.get("Accept", ""))
        if answer is None:
            offered = ", ".join(offered_forms(request.path))
            return web.Response(status=406, text=f"only the following media types are accepted: {offered}\n")
        return web.Response(body=answer.body, headers={"Content-Type": answer.content_type})

    async def _summary(self, _: web.Request) -> web.Response:
        return _json(node_pages.summary(self._kubelet.settings, self._kubelet.pods()))

    async def _system_logs(self, request: web.Request) -> web.StreamResponse:
        return await serve_log(request, self._kubelet.settings.system_logs, request.match_info["path"])

    def _find_logged(self, request: web.Request) -> tuple[PodWorker, Container]:
        """Return what `_find` does. Raises `NotServed` with the texts of getContainerLogs."""
        match = request.match_info
        if self._kubelet.worker(match["namespace"], match["pod"]) is None:
            raise NotServed(404, f'pod "{match["pod"]}" does not exist\n')
        try:
            return self._find(request)
        except NotServed:
            text = f'container "{match["container"]}" not found in pod "{match["pod"]}"\n'
            raise NotServed(404, text) from None

    def _find(self, request: web.Request) -> tuple[PodWorker, Container]:
        """Return the pod and the container of the request's path. Raises `NotServed`."""
        match = request.match_info
        worker = self._kubelet.worker(match["namespace"], match["pod"])
        if worker is None:
            raise NotServed(404, f'pod "{match["pod"]}" not found')
        spec = worker.pod.spec
        for container in spec.containers + spec.init_containers + spec.ephemeral_containers:
            if container.name == match["container"]:
                return worker, container
        raise NotServed(404, f"container {match['container']} not found in pod {match['pod']}_{match['namespace']}")

    async def _logs(self, request: web.Request) -> web.StreamResponse:
        try:
            worker, container = self._find_logged(request)
            options = parse_options(request.query, time.time())
            attempt = _logged_attempt(worker, container.name, previous=options.previous)
            path = self._kubelet.settings.log_path(worker.pod, container.name, attempt)
            check_log(path)
        except NotServed as error:
            return web.Response(status=error.status, text=str(error))
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        pieces = read_log(path, options, lambda: _is_running(worker, container.name, attempt))
        with contextlib.suppress(ConnectionError):  # the client has disconnected
            async with contextlib.aclosing(pieces):
                async for piece in pieces:
                    await response.write(piece)
            await response.write_eof()
        return response

    async def _exec(self, request: web.Request) -> web.StreamResponse:
        query = request.query
        try:
            _, run_id = self._find_running(request)
            command = tuple(query.getall("command", []))
            if not command:
                raise NotServed(400, "you must specify at least one command for the container")
            upgrade = negotiate(request, COMMAND_PROTOCOLS, stream_channels.PROTOCOLS)
        except NotServed as error:
            return web.Response(status=error.status, text=str(error))
        tty = _wants(request, "tty")
        stdin = _wants(request, "stdin", "input")

        def open_session() -> Awaitable[ExecSession]:
            return self._kubelet.runtime.open_exec(run_id, command, stdin=stdin, tty=tty, stderr=not tty)

        return await self._serve_session(request, upgrade, open_session, remote_command.run_session)

    async def _attach(self, request: web.Request) -> web.StreamResponse:
        """Attach to the container's streams.

        Input for a container without stdin is dropped, as container runtimes do. The session for a container that has
        ended has only a status: kubectl shows the log then, without trying SPDY first.
        """
        try:
            worker, container = self._find(request)
            latest = worker.containers.runs.get(container.name)
            if latest is None:
                raise _not_running(worker, container)
            upgrade = negotiate(request, COMMAND_PROTOCOLS, stream_channels.PROTOCOLS)
        except NotServed as error:
            return web.Response(status=error.status, text=str(error))
        stdin = container.stdin and _wants(request, "stdin", "input")

        async def open_session() -> ExecSession:
            if not latest.is_running:
                raise RuntimeFailure(_ATTACHED_TOO_LATE)
            try:
                return await self._kubelet.runtime.open_attach(latest.id, stdin=stdin, stderr=not container.tty)
            except RuntimeFailure as error:
                raise RuntimeFailure(_ATTACHED_TOO_LATE) from error

        passes_end_on = container.stdin_once and not container.tty
        run = functools.partial(
            remote_command.run_session, status=remote_command.detached_status, ends_with_input=not passes_end_on
        )
        return await self._serve_session(request, upgrade, open_session, run)

    def _find_running(self, request: web.Request) -> tuple[Container, str]:
        """Return the container and the id of its present run. Raises `NotServed`."""
        worker, container = self._find(request)
        run = worker.containers.runs.get(container.name)
        if run is None or not run.is_running:
            raise _not_running(worker, container)
        return container, run.id

    async def _port_forward(self, request: web.Request) -> web.StreamResponse:
        match = request.match_info
        worker = self._kubelet.worker(match["namespace"], match["pod"])
        if worker is None:
            return web.Response(status=404, text=f'pod "{match["pod"]}" not found')
        pod_uid = worker.pod.metadata.uid

        def open_port(port: int) -> Awaitable[socket.socket]:
            return self._kubelet.runtime.open_port(pod_uid, port)

        try:
            # Over SPDY, each connection names its port.
            ports = () if _asks_for_spdy(request) else parse_ports(request.query.getall("port", []))
            upgrade = negotiate(request, (TUNNEL_PROTOCOL, *PORT_PROTOCOLS), SPDY_PROTOCOLS)
        except (ValueError, NotServed) as error:
            return web.Response(status=getattr(error, "status", 400), text=str(error))

        async def serve(stream: ByteStream) -> None:
            if upgrade.is_spdy:
                await PortForward(StreamCarrier(stream), match["pod"], open_port).run()
            elif upgrade.protocol == TUNNEL_PROTOCOL:
                carrier = SocketCarrier(stream)
                await PortForward(carrier, match["pod"], open_port).run()
                await carrier.finish()
            else:
                channels = SocketChannels(stream, upgrade.protocol)
                await PortChannels(channels, match["pod"], pod_uid, open_port).run(ports)

        return await take_over(request, upgrade, serve, idle_seconds=self._idle_seconds)

    async def _serve_session(
        self,
        request: web.Request,
        upgrade: Upgrade,
        open_session: Callable[[], Awaitable[ExecSession]],
        run: Callable[[Channels, ExecSession], Awaitable[None]],
    ) -> web.StreamResponse:
        """Take the connection over, open a session and `run` it."""

        async def serve(stream: ByteStream) -> None:
            kind = StreamChannels if upgrade.is_spdy else SocketChannels
            channels = kind(stream, upgrade.protocol, _wanted_channels(request, upgrade))
            if await channels.begin():
                await serve_channels(channels, open_session, run)
            else:
                stream.abort()

        # A command takes its input when it wants to, however late.
        return await take_over(request, upgrade, serve, idle_seconds=self._idle_seconds, keeps_input=True)


async def serve_channels(
    channels: Channels,
    open_session: Callable[[], Awaitable[ExecSession]],
    run: Callable[[Channels, ExecSession], Awaitable[None]],
) -> None:
    """Open a session and `run` it."""
    opening = asyncio.ensure_future(open_session())
    try:
        session = await asyncio.shield(opening)
    except asyncio.CancelledError:  # the server stops; the command has started, or is about to
        with contextlib.suppress(RuntimeFailure):
            await (await opening).close()
        raise
    except RuntimeFailure as error:
        await channels.send_status(remote_command.failure_status(str(error)))
        await channels.finish()
    else:
        await run(channels, session)


def _asks_for_spdy(request: web.Request) -> bool:
    """Whether a port-forward is over SPDY, or over a WebSocket that carries SPDY."""
    first = request.headers.get("Sec-WebSocket-Protocol", "").partition(",")[0].strip()
    return request.headers.get("Upgrade", "").lower().startswith("spdy/") or first == TUNNEL_PROTOCOL


def _wants(request: web.Request, *names: str) -> bool:
    return any(request.query.get(name) in ("1", "true") for name in names)


def _wanted_channels(request: web.Request, upgrade: Upgrade) -> set[int]:
    """The channels of a request's query, and always the one for errors."""
    has_terminal = _wants(request, "tty")
    wanted = {
        ERROR: True,
        STDIN: _wants(request, "stdin", "input"),
        STDOUT: _wants(request, "stdout", "output"),
        STDERR: _wants(request, "stderr", "error") and not has_terminal,
        RESIZE: has_terminal and upgrade.version not in stream_channels.WITHOUT_RESIZE,
    }
    return {channel for channel, is_wanted in wanted.items() if is_wanted}


def _is_running(worker: PodWorker, name: str, attempt: int) -> bool:
    run = worker.containers.runs.get(name)
    return run is not None and run.attempt == attempt and run.is_running


def _logged_attempt(worker: PodWorker, name: str, *, previous: bool) -> int:
    """Return the number of the run whose log is requested. Raises `NotServed` if there is none."""
    pod_name = worker.pod.metadata.name
    run, before = worker.containers.runs.get(name), worker.containers.previous.get(name)
    if previous:
        if run is not None and not run.is_running and name in worker.containers.waiting:
            return run.attempt  # the container waits for its restart: its newest run is the previous one
        if before is None:
            raise NotServed(400, f'previous terminated container "{name}" in pod "{pod_name}" not found')
        return before.attempt
    if run is None:
        waiting = worker.containers.waiting.get(name)
        default = "PodInitializing" if worker.pod.spec.init_containers else "ContainerCreating"
        reason = waiting.reason if waiting is not None else default
        if reason in ("ErrImagePull", "ImagePullBackOff"):
            reason = "trying and failing to pull image"
        raise NotServed(400, f'container "{name}" in pod "{pod_name}" is waiting to start: {reason}')
    return run.attempt


def _not_running(worker: PodWorker, container: Container) -> NotServed:
    return NotServed(400, f'container "{container.name}" in pod "{worker.pod.metadata.name}" is not running')


def _json(body: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")


async def _rendered(page: MetricsPage, request: web.Request) -> web.Response:
    """Answer with a page of metrics in the format that the client asks for."""
    try:
        body, content_type = await page(request.headers.get("Accept", ""))
    except RuntimeFailure as error:
        return web.Response(status=500, text=f"the container runtime does not answer: {error}\n")
    return web.Response(body=body, headers={"Content-Type": content_type})


async def _healthz(_: web.Request) -> web.Response:
    return web.Response(text="ok")


async def _until_readable(listener: socket.socket) -> None:
    """Wait for the first connection, which stays in the listener's queue."""
    loop = asyncio.get_running_loop()
    readable = asyncio.Event()
    loop.add_reader(listener, readable.set)
    try:
        await readable.wait()
    finally:
        loop.remove_reader(listener)
