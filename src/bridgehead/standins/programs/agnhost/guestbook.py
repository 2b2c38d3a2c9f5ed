"""agnhost's guestbook: a store of keys, whose primary sends every change to its replicas, and a front end for both."""

from __future__ import annotations

import http.client
import socket
import time
from typing import Any, Final
from urllib.parse import parse_qs, urlencode

import msgspec

from bridgehead.standins.programs.announcing import announce
from bridgehead.standins.programs.http_session import HttpRequest, HttpResponse, LateResponse
from bridgehead.standins.programs.stream_server import StreamServer
from bridgehead.standins.standin import Launch

from .dialing import get
from .flags import CommandLine, describe
from .responses import json, not_found, sessions, text

_REGISTRATION_SECONDS: Final = 15.0
_RETRY_SECONDS: Final = 1.0


def serve(launch: Launch, line: CommandLine) -> int:
    port, backend_port = line.port("http-port", 80), line.port("backend-port", 6379)
    primary = line.flags.get("replicaof", "")
    server = StreamServer()
    book = Guestbook(backend_port)
    # Before the registration: from then on the primary sends changes, which wait in the socket's queue.
    server.listen(port, sessions(book.answer))
    announce(launch.setup, describe(line, ("http-port", "backend-port", "replicaof"), (f"{port}/TCP",)))
    if primary:
        book.store |= _register(primary, backend_port)
    return server.serve(launch.started)


def _register(primary: str, port: int) -> dict[str, Any]:
    """Register this host with the primary, and return what it has. Raises OSError after a while without success."""
    deadline = time.monotonic() + _REGISTRATION_SECONDS
    while True:
        try:
            with socket.create_connection((primary, port), timeout=_RETRY_SECONDS) as connection:
                own = connection.getsockname()[0]
            status, body = get(primary, port, f"/register?{urlencode({'host': own})}")
            if status == 200:
                return dict(msgspec.json.decode(body)["data"])
        except (OSError, http.client.HTTPException) as error:
            if time.monotonic() > deadline:
                raise OSError(f"cannot register with the primary: {error}") from error
        time.sleep(_RETRY_SECONDS)


class Guestbook:
    def __init__(self, backend_port: int) -> None:
        self.store: dict[str, str] = {}
        self._backend_port = backend_port
        self._replicas: list[str] = []

    def answer(self, request: HttpRequest) -> HttpResponse | LateResponse:
        path, _, query = request.target.partition("?")
        values = {key: value[0] for key, value in parse_qs(query).items()}
        key, value = values.get("key", ""), values.get("value", "")
        match path:
            case "/register":
                self._replicas.append(values.get("host", ""))
                return json({"data": self.store})
            case "/get":
                return json({"data": self.store.get(key, "") if key else self.store})
            case "/set" if key:
                self.store[key] = value
                return LateResponse(lambda: self._propagate(key, value))
            case "/guestbook" if values.get("cmd", "").lower() in ("get", "set"):
                command = values["cmd"].lower()
                if command == "get" or key:
                    return LateResponse(lambda: self._forward(command, key, value))
            case "/guestbook":
                return text(f"unsupported cmd: '{values.get('cmd', '')}'\n", 400)
        if path in ("/set", "/guestbook"):
            return text("cannot set with empty key.\n", 400)
        return not_found()

    def _propagate(self, key: str, value: str) -> HttpResponse:
        for replica in self._replicas:
            try:
                get(replica, self._backend_port, f"/set?{urlencode({'key': key, 'value': value})}")
            except (OSError, http.client.HTTPException) as error:
                return text(f"encountered error while propagating to replica '{replica}': {error}\n", 417)
        return json({"message": "Updated"})

    def _forward(self, command: str, key: str, value: str) -> HttpResponse:
        host = "agnhost-replica" if command == "get" else "agnhost-primary"
        try:
            return text(get(host, self._backend_port, f"/{command}?{urlencode({'key': key, 'value': value})}")[1])
        except socket.gaierror as error:
            return text(f"host and/or port param are invalid. {error}\n", 400)
        except (OSError, http.client.HTTPException) as error:
            return text(f"encountered error: {error}\n", 417)
