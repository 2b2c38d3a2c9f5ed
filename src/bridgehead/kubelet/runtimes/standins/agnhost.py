"""The stand-in for agnhost: `netexec`, `serve-hostname` and `pause`, as far as tests of Services use them.

Source: kubernetes/kubernetes test/images/agnhost: netexec answers /hostname, /clientip, /echo?msg=, /healthz,
/header?key= and, over UDP, the commands hostname, clientip and echo.
"""

from __future__ import annotations

import time
from urllib.parse import parse_qs

import msgspec

from bridgehead.kubelet.runtimes.standins.announcing import announce
from bridgehead.kubelet.runtimes.standins.disclosures import Abilities
from bridgehead.kubelet.runtimes.standins.http_session import Handler, HttpRequest, HttpResponse, HttpSession
from bridgehead.kubelet.runtimes.standins.pause import pause
from bridgehead.kubelet.runtimes.standins.standin import Launch
from bridgehead.kubelet.runtimes.standins.stream_server import Peer, StreamServer, fail

_PRODUCT = "bridgehead-agnhost"


def run(launch: Launch) -> int:
    subcommand, flags = parse_flags(launch.argv[1:])
    if subcommand == "pause":
        return pause(msgspec.structs.replace(launch, argv=(launch.argv[0], *(f"--{flag}" for flag in flags))))
    try:
        if subcommand == "netexec":
            return _netexec(launch, flags)
        if subcommand == "serve-hostname":
            return _serve_hostname(launch, flags)
    except (OSError, ValueError) as error:
        return fail(f"{subcommand}: {error}")
    return fail(f"unknown command {subcommand!r} for the stand-in of agnhost: it has netexec, serve-hostname and pause")


def parse_flags(args: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """The subcommand and its flags: `("netexec", "--http-port=80", "--udp-port", "81")` has two flags."""
    subcommand = "pause"
    flags: dict[str, str] = {}
    wanted = ""
    for arg in args:
        if arg.startswith("-"):
            name, equals, value = arg.lstrip("-").partition("=")
            flags[name] = value if equals else "true"
            wanted = "" if equals else name
        elif wanted:
            flags[wanted], wanted = arg, ""
        else:
            subcommand = arg
    return subcommand, flags


def _abilities(subcommand: str, flags: dict[str, str], used: tuple[str, ...], ports: tuple[str, ...]) -> Abilities:
    return Abilities(
        role=f"a server with agnhost's {subcommand}",
        ports=ports,
        ignored_arguments=tuple(f"--{flag}" for flag in flags if flag not in used),
    )


def _netexec(launch: Launch, flags: dict[str, str]) -> int:
    http_port, udp_port = int(flags.get("http-port", "8080")), int(flags.get("udp-port", "8081"))
    handler = netexec_site(launch.hostname)

    def datagram(data: bytes, peer: Peer) -> bytes | None:
        command, _, rest = data.decode("utf-8", "replace").strip().partition(" ")
        return {"hostname": launch.hostname, "clientip": str(peer), "echo": rest}.get(command, "").encode() or None

    server = StreamServer()
    server.listen(http_port, lambda peer: HttpSession(handler, peer, _PRODUCT, None))
    if udp_port > 0:
        server.listen_datagrams(udp_port, datagram)
    ports = (f"{http_port}/TCP", *((f"{udp_port}/UDP",) if udp_port > 0 else ()))
    announce(launch.setup, _abilities("netexec", flags, ("http-port", "udp-port"), ports))
    return server.serve(launch.started)


def netexec_site(hostname: str) -> Handler:
    def answer(request: HttpRequest) -> HttpResponse:
        path, _, query = request.target.partition("?")
        values = {key: value[0] for key, value in parse_qs(query).items()}
        if path == "/":
            return _text(time.strftime("NOW: %Y-%m-%d %H:%M:%S +0000 UTC", time.gmtime()))
        if path in ("/hostname", "/hostName"):
            return _text(hostname)
        if path == "/clientip":
            return _text(str(request.peer))
        if path == "/echo":
            return _text(values.get("msg", ""))
        if path == "/header":
            return _text(request.header(values.get("key", "")))
        if path in ("/healthz", "/readyz"):
            return _text("")
        return HttpResponse(b"404 page not found\n", 404, "text/plain")

    return answer


def _serve_hostname(launch: Launch, flags: dict[str, str]) -> int:
    port = int(flags.get("port", "9376"))
    server = StreamServer()
    response = _text(launch.hostname)
    server.listen(port, lambda peer: HttpSession(lambda request: response, peer, _PRODUCT, None))
    announce(launch.setup, _abilities("serve-hostname", flags, ("port",), (f"{port}/TCP",)))
    return server.serve(launch.started)


def _text(text: str) -> HttpResponse:
    return HttpResponse(text.encode(), content_type="text/plain; charset=utf-8")
