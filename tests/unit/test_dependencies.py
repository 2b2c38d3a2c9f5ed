"""Names of dependencies that the code uses although their documentation does not promise them: one case for each.

pyproject.toml bounds the versions of these dependencies. When a case fails after a bound was raised, the module that
the case names needs a change.
"""

from __future__ import annotations

import ast
import asyncio
import functools
import inspect
import re
import sys
import tomllib
from asyncio import sslproto
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.core import TyperCommand, TyperOption
from uvicorn.config import Config
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.protocols.websockets import websockets_sansio_impl
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from uvicorn.server import Server, ServerState
from websockets.datastructures import Headers
from websockets.http11 import Request

from bridgehead import KUBERNETES_VERSION
from bridgehead.apiserver.bodies.definitions import (
    ALPHA_FIELDS,
    DEFINITIONS,
    VERSION,
    LazyDefinitions,
    load_definitions,
)
from bridgehead.apiserver.http.server import UNWANTED_LOG_MESSAGES

GET = b"GET /a?b=c HTTP/1.1\r\nHost: x\r\n\r\n"


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def close(self) -> None: ...

    def resume_reading(self) -> None: ...


async def answer_ok(scope: Any, receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
    await send({"type": "http.response.body", "body": b""})


def config(application: Any = answer_ok) -> Config:
    return Config(application, lifespan="off", log_config=None)


def connect(protocol: type[HttpToolsProtocol] = HttpToolsProtocol, app_state: Any = None) -> HttpToolsProtocol:
    connection = protocol(config(), ServerState(), app_state or {})
    connection.connection_made(FakeTransport())
    return connection


async def finish(connection: HttpToolsProtocol) -> None:
    """Let the application answer, then close the connection, which stops its timers."""
    await asyncio.gather(*connection.tasks)
    connection.connection_lost(None)


# --- The lock file -------------------------------------------------------------------------------------------------

ROOT = Path(__file__).parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
PROJECT, BUILD = PYPROJECT["project"], PYPROJECT["build-system"]["requires"]
EXTRAS = PROJECT["optional-dependencies"]
RUNNING = [*PROJECT["dependencies"], *EXTRAS["etcd"]]  # what scripts/prepare-venv installs
REQUIREMENTS = [*RUNNING, *EXTRAS["test"], *EXTRAS["dev"], *BUILD]
LOCKED = {
    canonicalize_name(name): version
    for name, _, version in (
        line.partition("==") for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    )
    if version
}


@pytest.mark.parametrize("text", REQUIREMENTS)
def test_the_lock_file_has_an_allowed_version_of_each_dependency(text):
    """`scripts/lock` writes the file."""
    requirement = Requirement(text)
    assert requirement.specifier.contains(LOCKED[canonicalize_name(requirement.name)])


@pytest.mark.parametrize("text", BUILD)
def test_a_requirement_of_the_build_has_a_bound(text):
    """An installation from the source alone, without the lock file, takes no later major version."""
    assert any(specifier.operator == "<" for specifier in Requirement(text).specifier)


@pytest.mark.parametrize("name", sorted(LOCKED))
def test_the_lock_file_has_transitive_dependencies(name):
    try:
        requirements = [Requirement(text) for text in metadata.requires(name) or ()]
    except metadata.PackageNotFoundError:
        return  # this platform or Python does not need it
    needed = [one for one in requirements if one.marker is None or one.marker.evaluate({"extra": ""})]
    assert [one.name for one in needed if canonicalize_name(one.name) not in LOCKED] == []


# --- What running needs --------------------------------------------------------------------------------------------

IMPORT = re.compile(r"^ *(?:from|import) (\w+)", re.MULTILINE)


def needed_with(name: str, known: set[str]) -> set[str]:
    """Return `known` with a distribution and those that it needs in turn."""
    if name in known:
        return known
    requirements = [Requirement(text) for text in metadata.requires(name) or ()]
    needed = [one.name for one in requirements if one.marker is None or one.marker.evaluate({"extra": ""})]
    return functools.reduce(lambda found, each: needed_with(canonicalize_name(each), found), needed, {*known, name})


def test_the_program_imports_only_what_running_installs():
    """`make up` installs no tools of tests."""
    plugin = ROOT / "src" / "bridgehead" / "testing"
    paths = [path for path in (ROOT / "src").rglob("*.py") if not path.is_relative_to(plugin)]
    assert imports_beside(paths, RUNNING) == set()


def test_the_plugin_for_pytest_imports_what_its_extra_installs():
    paths = list((ROOT / "src" / "bridgehead" / "testing").rglob("*.py"))
    assert imports_beside(paths, [*RUNNING, *EXTRAS["test"]]) == set()
    assert imports_beside(paths, RUNNING) == {"pytest"}


def imports_beside(paths: list[Path], requirements: list[str]) -> set[str]:
    """Return the modules that files import although these requirements do not install them."""
    installed: set[str] = set()
    for one in map(Requirement, requirements):
        if one.marker is None or one.marker.evaluate():  # not all are for this Python
            installed = needed_with(canonicalize_name(one.name), installed)
    imported = {name for path in paths for name in IMPORT.findall(path.read_text("utf-8"))}
    distributions = metadata.packages_distributions()
    others = {name for name in imported if name in distributions and name != "bridgehead"}
    return {name for name in others if not {canonicalize_name(one) for one in distributions[name]} & installed}


def test_the_definitions_are_of_the_served_version():
    """Definitions of a later one have fields that each update of a client of the served version would remove.

    The build takes them from the package kubernetes-validate, which running does not need.
    """
    assert f"{KUBERNETES_VERSION}-local" == VERSION
    assert "io.k8s.api.core.v1.Service" in LazyDefinitions()


def test_fields_of_alpha_features_are_left_out():
    undropped = msgspec.json.decode(DEFINITIONS.read_bytes())["$defs"]
    for name, fields in ALPHA_FIELDS.items():
        assert set(fields) <= undropped[name]["properties"].keys()
        assert not set(fields) & load_definitions()[name]["properties"].keys()


# --- uvicorn's HTTP connection, of which `apiserver.http.peer_protocol.PeerProtocol` is a subclass ----------------


@pytest.mark.parametrize(
    ("name", "purpose", "is_usable"),
    [
        ("app", "run the application for a tunnel", callable),
        ("connections", "remove a connection that a tunnel takes over", lambda value: isinstance(value, set)),
        ("tasks", "keep the application's run for a tunnel", lambda value: isinstance(value, set)),
        ("loop", "time the headers", lambda value: isinstance(value, asyncio.AbstractEventLoop)),
        ("transport", "answer and close", lambda value: isinstance(value, FakeTransport)),
        ("scheme", "tell TLS from none", lambda value: value == "http"),
        ("flow", "see whether the client reads", lambda value: value.write_paused is False),
        ("flow", "wait until the client reads", lambda value: inspect.iscoroutinefunction(value.drain)),
        ("app_state", "hold the client's user", lambda value: isinstance(value, dict)),
        ("url", "build the scope for a tunnel", lambda value: value == b"/a?b=c"),
        ("headers", "recognize an upgrade", lambda value: value == [(b"host", b"x")]),
        ("scope", "build the scope for a tunnel", lambda value: value["headers"] == [(b"host", b"x")]),
        ("parser", "recognize an upgrade", lambda value: value.should_upgrade() is False),
        ("cycle", "refuse headers only between requests", lambda value: value.response_complete is False),
        ("cycle", "join writes of new answers only", lambda value: value.response_started is False),
        ("cycle", "join writes of an answer", lambda value: isinstance(value.transport, FakeTransport)),
    ],
)
async def test_an_http_connection_has_the_attributes_that_are_used(name, purpose, is_usable):
    connection = connect()
    connection.data_received(GET)
    assert is_usable(getattr(connection, name)), purpose
    await finish(connection)


async def test_an_http_connection_has_a_keep_alive_timer():
    """`PeerProtocol` cancels the timer when a connection is reset."""
    connection = connect()
    assert connection.timeout_keep_alive_task is None
    connection.data_received(GET)
    await asyncio.gather(*connection.tasks)
    timer: Any = connection.timeout_keep_alive_task
    assert not timer.cancelled()
    await finish(connection)


async def test_app_state_reaches_the_scope():
    """`PeerProtocol` passes the client's user and the connection to the application in the state."""
    connection = connect()
    connection.app_state = {"peer": "jane"}
    connection.data_received(GET)
    assert connection.scope["state"] == {"peer": "jane"}
    await finish(connection)


async def test_the_parser_calls_overridden_methods():
    """`PeerProtocol` bounds headers and pipelined requests, drops trailers, and takes over upgrades."""
    called = []

    class Recorder(HttpToolsProtocol):
        def on_message_begin(self) -> None:
            called.append("on_message_begin")
            super().on_message_begin()

        def on_header(self, name: bytes, value: bytes) -> None:
            called.append("on_header")
            super().on_header(name, value)

        def on_headers_complete(self) -> None:
            called.append("on_headers_complete")
            super().on_headers_complete()

        def on_body(self, body: bytes) -> None:
            called.append("on_body")
            super().on_body(body)

        def on_message_complete(self) -> None:
            called.append("on_message_complete")
            super().on_message_complete()

    connection = connect(Recorder)
    connection.data_received(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nTrailer: x\r\n\r\n")
    head, end = (
        ["on_message_begin", "on_header", "on_headers_complete"],
        ["on_body", "on_header", "on_message_complete"],
    )
    assert called == head + end
    await finish(connection)


async def test_an_upgrade_that_is_not_taken_is_reported():
    """`PeerProtocol` decides about WebSockets, and goes on after an upgrade that it ignores."""
    called = []

    class Recorder(HttpToolsProtocol):
        def on_url(self, url: bytes) -> None:
            called.append("on_url")
            super().on_url(url)

        def _should_upgrade(self) -> bool:
            called.append("_should_upgrade")
            return False

        def _unsupported_upgrade_warning(self) -> None:
            called.append("_unsupported_upgrade_warning")

    connection = connect(Recorder)
    connection.data_received(GET.replace(b"Host: x", b"Connection: Upgrade\r\nUpgrade: websocket"))
    assert list(dict.fromkeys(called)) == ["on_url", "_should_upgrade", "_unsupported_upgrade_warning"]
    await finish(connection)


@pytest.mark.parametrize("message", UNWANTED_LOG_MESSAGES)
def test_a_log_message_is_filtered(message):
    sources = inspect.getsource(httptools_impl) + inspect.getsource(websockets_sansio_impl)
    assert f'"{message}"' in sources
    assert 'logging.getLogger("uvicorn.error")' in sources


# --- uvicorn's server, of which `apiserver.http.server.ApiServer` is a subclass -----------------------------------


async def test_the_server_calls_overridden_methods():
    """`ApiServer` accepts connections and handles signals itself, waits without polling, and ends watches first."""
    called = []

    class Listening:
        def close(self) -> None:
            called.append("close")

        async def wait_closed(self) -> None:
            called.append("wait_closed")

    class Recorder(Server):
        def capture_signals(self):
            called.append("capture_signals")
            return super().capture_signals()

        async def startup(self, sockets=None) -> None:
            called.append("startup")
            assert self.config.http_protocol_class is HttpToolsProtocol
            assert self.lifespan.state == {}
            listening: Any = Listening()
            self.servers, self.started = [listening], True

        async def main_loop(self) -> None:
            called.append("main_loop")

        async def shutdown(self, sockets=None) -> None:
            called.append("shutdown")
            await super().shutdown(sockets)

    server = Recorder(config())
    await server.serve([])
    assert called == ["capture_signals", "startup", "main_loop", "shutdown", "close", "wait_closed"]


async def test_on_tick_renews_the_date_and_reports_the_end():
    """`ApiServer.main_loop` calls it once a second, with multiples of ten, at which it renews the Date header."""
    server = Server(config())
    server.config.load()
    assert await server.on_tick(10) is False
    assert b"date" in dict(server.server_state.default_headers)
    server.should_exit = True
    assert await server.on_tick(20) is True


# --- uvicorn's WebSocket and the websockets library below it: `apiserver.http.socket_protocol` --------------------


async def test_the_subprotocol_choice_can_be_replaced():
    protocol = WebSocketsSansIOProtocol(config(), ServerState(), {})
    offered = Headers()
    for name, value in (
        ("Host", "x"),
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Protocol", "SPDY/3.1+portforward.k8s.io"),
    ):
        offered[name] = value
    request = Request("/", offered)
    assert protocol.conn.accept(request).status_code == 400, "websockets now accepts it: AnySubprotocol can go"
    protocol.conn.process_subprotocol = lambda headers: None
    assert protocol.conn.accept(request).status_code == 101


# --- The standard library ------------------------------------------------------------------------------------------


def test_a_tls_connection_has_a_read_buffer():
    """`client.transport` makes the buffer smaller for the whole process."""
    assert sslproto.SSLProtocol.max_size in (16 * 1024, 256 * 1024)
    assert "bytearray(self.max_size)" in inspect.getsource(sslproto.SSLProtocol.__init__)


def test_a_cache_of_the_interpreter_can_be_cleared():
    """`kubelet.runtimes.spawn.forking` clears the cache before a fork."""
    assert hasattr(sys, "_clear_internal_caches") or hasattr(sys, "_clear_type_cache")


# --- Others --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["make_context", "parse_args", "collect_usage_pieces", "format_options"])
def test_typers_command_has_the_overridden_method(name):
    """`cli.subcommand.Command` overrides the method."""
    assert callable(getattr(TyperCommand, name))


def test_typer_marks_boolean_options():
    """`cli.subcommand.Command` accepts a value for boolean options."""
    assert "is_bool_flag" in vars(TyperOption(param_decls=["--a"], is_flag=True, type=bool))


# --- No further ones -----------------------------------------------------------------------------------------------

SOURCE = ROOT / "src" / "bridgehead"
# Documented names that begin with an underscore: of named tuples and of `os`; and the cache above.
KNOWN = {"_asdict", "_clear_type_cache", "_exit", "_fields", "_make", "_replace"}


# Formatted source without a match has no private attribute of another object than `self` or `cls`.
MAYBE_PRIVATE = re.compile(rf"\.(?!__|(?:{'|'.join(KNOWN)})\b)_(?<!\bself\._)(?<!\bcls\._)")


def private_names(tree: ast.AST) -> tuple[dict[str, int], set[str]]:
    """Return private attributes of objects other than `self`, with their lines, and the private names defined here."""
    used: dict[str, int] = {}
    defined: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                defined.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name):
                defined.add(name)
            case ast.Attribute(attr=name) if name.startswith("_") and not name.startswith("__"):
                used[name] = node.lineno
    return used, defined


def test_no_module_uses_private_names_of_others():
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.read_text("utf-8")
        if path.stem.endswith("_pb2"):  # generated
            continue
        if not MAYBE_PRIVATE.search(source):  # parsing takes most of the time
            continue
        used, defined = private_names(ast.parse(source))
        found += [f"{path}:{line}: {name}" for name, line in used.items() if name not in defined | KNOWN]
    assert found == []
