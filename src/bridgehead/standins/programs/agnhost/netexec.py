"""agnhost's netexec: an HTTP server for questions about its host, which also asks others, and the same over UDP."""

from __future__ import annotations

import functools
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, unquote

from bridgehead.objects.times import parse_duration
from bridgehead.standins.programs.announcing import announce
from bridgehead.standins.programs.http_session import (
    AccessLog,
    Handler,
    HttpRequest,
    HttpResponse,
    LateResponse,
)
from bridgehead.standins.programs.stream_server import OutputBuffer, Peer, StreamServer
from bridgehead.standins.standin import Launch

from .dialing import dial
from .flags import CommandLine, describe
from .responses import json, sessions, text
from .tls_session import load_server_context, secure

_USED = (
    *("http-port", "udp-port", "sctp-port", "tls-cert-file", "tls-private-key-file", "http-override"),
    "delay-shutdown",
)


def serve(launch: Launch, line: CommandLine) -> int:
    http_port, udp_port = line.port("http-port", 8080), line.port("udp-port", 8081)
    sctp_port = line.port("sctp-port", -1)
    handler = override(netexec_site(launch.hostname, launch.environment), line.flags.get("http-override", ""))
    output = OutputBuffer(2)
    log = request_log(output, time.time)
    server = StreamServer(after_round=output.flush, linger=float(line.flags.get("delay-shutdown", "0")))
    certificate = line.flags.get("tls-cert-file", "")
    context = load_server_context(certificate, line.flags.get("tls-private-key-file", "")) if certificate else None
    server.listen(http_port, secure(context, sessions(handler, log)))
    ports = [f"{http_port}/TCP"]
    if udp_port > 0:
        server.listen_datagrams(udp_port, lambda data, peer: answer_command(launch.hostname, data, peer))
        ports.append(f"{udp_port}/UDP")
    if sctp_port > 0:
        factory = functools.partial(CommandSession, launch.hostname)
        server.listen(sctp_port, factory, socket.IPPROTO_SCTP)
        ports.append(f"{sctp_port}/SCTP")
    announce(launch.setup, describe(line, _USED, tuple(ports)))
    return server.serve(launch.started)


def request_log(output: OutputBuffer, clock: Callable[[], float]) -> AccessLog:
    """A log with a line for each request, in the format of Go's log package."""

    def log(request: HttpRequest, status: int, size: int) -> None:
        moment = time.strftime("%Y/%m/%d %H:%M:%S", time.gmtime(clock()))
        output.add(f"{moment} {request.method} {unquote(request.target)}")

    return log


def answer_command(hostname: str, data: bytes, peer: Peer) -> bytes | None:
    """The answer to a command over UDP or SCTP, None for none."""
    command, _, rest = data.decode("utf-8", "replace").strip().lower().partition(" ")
    return {"hostname": hostname, "clientip": str(peer), "echo": rest}.get(command, "").encode() or None


class CommandSession:
    """One command over SCTP."""

    busy = False
    closing = False

    def __init__(self, hostname: str, peer: Peer) -> None:
        self._hostname = hostname
        self._peer = peer

    def receive(self, data: bytes, *, draining: bool) -> bytes:
        self.closing = True
        return answer_command(self._hostname, data, self._peer) or b""


def override(site: Handler, target: str) -> Handler:
    """A handler that answers every request as a GET of `target`; `site` itself without one."""
    if not target:
        return site
    return lambda request: site(request._replace(method="GET", target=target))


def netexec_site(hostname: str, environment: Mapping[str, str]) -> Handler:
    """`environment` is that of commands that clients have run."""

    def answer(request: HttpRequest) -> HttpResponse | LateResponse:
        path, _, query = request.target.partition("?")
        if request.header("content-type").startswith("application/x-www-form-urlencoded"):
            query = f"{query}&{request.body.decode('utf-8', 'replace')}"
        values = {key: value[0] for key, value in parse_qs(query).items()}
        match path:
            case "/hostname" | "/hostName":
                return text(hostname)
            case "/clientip":
                return text(str(request.peer))
            case "/serverport":
                return text(request.header("host").rpartition(":")[2])
            case "/echo":
                return _echo(values)
            case "/header":
                return text(request.header(values.get("key", "")))
            case "/healthz" | "/readyz":
                return text("")
            case "/redirect":
                return _redirect(values)
            case "/dial":
                return dial(values)
            case "/shell":
                command = values.get("shellCommand") or values.get("cmd", "")
                return LateResponse(lambda: _run_in_shell(command, environment))
            case "/exit":
                return _exit(values)
            case "/shutdown":
                sys.exit(0)
        return text(time.strftime("NOW: %Y-%m-%d %H:%M:%S +0000 UTC", time.gmtime()))

    return answer


def _echo(values: dict[str, str]) -> HttpResponse:
    code = values.get("code", "200")
    if not code.isdigit():
        return text(f"argument 'code' must be an integer or empty, got \"{code}\"\n")
    return text(values.get("msg", ""), int(code))


def _redirect(values: dict[str, str]) -> HttpResponse:
    code = values.get("code", "302")
    if not code.isdigit():
        return text(f"argument 'code' must be an integer or empty, got \"{code}\"\n")
    return HttpResponse(b"", int(code), headers=(("Location", values.get("location", "")),))


def _run_in_shell(command: str, environment: Mapping[str, str]) -> HttpResponse:
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    answer = {"output": done.stdout.decode("utf-8", "replace")} if done.stdout else {}
    if done.returncode:
        answer["error"] = f"exit status {done.returncode}"
    return json(answer)


def _exit(values: dict[str, str]) -> HttpResponse:
    """End the server with an exit code, at once or after `wait`."""
    try:
        wait, code = parse_duration(values.get("wait") or "0"), int(values.get("code") or "0")
    except ValueError as error:
        return text(f"invalid argument: {error}\n", 400)
    if not wait:
        sys.exit(code)
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(code))
    signal.setitimer(signal.ITIMER_REAL, wait)
    return text("")
