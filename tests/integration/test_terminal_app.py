"""The application, driven by keys, on a live cluster without a server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any, cast

import pytest
from textual import events
from textual.pilot import Pilot

from bridgehead.client import ApiClient
from bridgehead.client.errors import ClientError, Forbidden, NotFound, Unreachable
from bridgehead.insight.live import observing
from bridgehead.insight.live.cluster import LiveCluster
from bridgehead.insight.terminal.app import TopApp
from bridgehead.objects.kinds import ENDPOINT_SLICES, EVENTS, NODES, PODS, SERVICES
from bridgehead.objects.meta import ObjectKey
from tests.unit.insight.live.objects import (
    CREATED_SECONDS,
    ApiDouble,
    endpoint,
    event,
    meta,
    node,
    pod,
    service,
    slice_,
)

SECONDS = 20.0
MARKUP = "[bold red]web[/]\x1b]0;owned\x07\x1b[2J"


class InspectorDouble:
    """Objects, logs and commands without a cluster."""

    def __init__(self) -> None:
        self.error: ClientError | None = None
        self.log = b"line one\nline two\n"
        self.arguments: list[Sequence[str]] = []
        self.containers = ["c", "side"]

    async def read_object(self, kind: str, key: ObjectKey) -> Mapping[str, Any]:
        if self.error is not None:
            raise self.error
        spec = {"containers": [{"name": name} for name in self.containers], "note": MARKUP}
        return {"kind": kind, "metadata": meta(key.name, key.namespace), "spec": spec}

    async def follow_log(
        self, pod: ObjectKey, container: str, *, is_previous: bool = False
    ) -> AsyncGenerator[bytes, None]:
        yield self.log
        yield f"of {container}, previous: {is_previous}\n{MARKUP}\n".encode()
        if not is_previous:
            await asyncio.Event().wait()

    async def run(self, arguments: Sequence[str]) -> AsyncGenerator[bytes, None]:
        self.arguments.append(arguments)
        yield b"\x1b[31mverdict"
        yield b": all is well\x1b[0m\n" + b"long " * 30 + b"end\n"


@pytest.fixture
def api():
    return ApiDouble(
        (SERVICES, service("web")),
        (SERVICES, service("db")),
        (SERVICES, service("dns", "kube-system")),
        (ENDPOINT_SLICES, slice_("web", endpoint("10.244.1.1", "web-1"))),
        (PODS, pod("web-1")),
        (PODS, pod("other-1")),
        (PODS, pod("dns-1", "kube-system", node="node2")),
        (NODES, node("node1")),
        (EVENTS, event("e1")),
    )


class Screen:
    """The screen and the keyboard."""

    def __init__(self, app: TopApp, pilot: Pilot[None], inspector: InspectorDouble) -> None:
        self.app, self.pilot, self.inspector = app, pilot, inspector

    def lines(self) -> list[str]:
        """Return the lines of the screen."""
        found: list[str] = []
        for widget in (*self.app.query("Line"), *self.app.query("Grid"), *self.app.query("TextPane")):
            if widget.display:
                found += [strip.text.rstrip() for strip in widget.render_lines(widget.size.region)]
        return found

    async def shows(self, *texts: str, hides: Sequence[str] = ()) -> None:
        """Wait until all these texts are on the screen, whatever its spaces, and none of the others."""

        def is_shown() -> bool:
            whole = " ".join(" ".join(self.lines()).split())
            return all(text in whole for text in texts) and not any(text in whole for text in hides)

        await self.until(is_shown)

    async def until(self, condition: Callable[[], bool]) -> None:
        try:
            async with asyncio.timeout(SECONDS):
                while not condition():  # noqa: ASYNC110  # a screen has no event
                    await asyncio.sleep(0.01)
        except TimeoutError:
            raise AssertionError("\n".join(self.lines())) from None

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def type(self, text: str) -> None:
        await self.press(*(NAMES.get(character, character) for character in text), "enter")


NAMES = {":": "colon", "/": "slash", " ": "space", "!": "exclamation_mark", "?": "question_mark", "-": "minus"}


@contextlib.asynccontextmanager
async def showing(api: ApiDouble, size: tuple[int, int] = (100, 24), **options: Any) -> AsyncIterator[Screen]:
    inspector = InspectorDouble()
    async with LiveCluster(cast(ApiClient, api)) as live:
        assert await live.synced(SECONDS)
        app = TopApp(live, inspector, "lab", clock=lambda: CREATED_SECONDS + 300, **options)
        async with app.run_test(size=size) as pilot:
            screen = Screen(app, pilot, inspector)
            yield screen


async def test_the_first_screen(api: ApiDouble):
    async with showing(api) as screen:
        await screen.shows("lab 3 Services (2 with a problem) 3 pods 1/1 nodes ready", "default web", "1/1", "5m")
        await screen.shows("Services all namespaces [3]", "1 default", "2 kube-system", "NoPods")


async def test_tables_by_commands(api: ApiDouble):
    async with showing(api) as screen:
        await screen.type(":po")
        await screen.shows("Pods all namespaces [3]", "other-1")
        await screen.type(":no")
        await screen.shows("Nodes [1]", "node1 Ready -, not running")
        await screen.type(":ev")
        await screen.shows("Events", "BackOff", "Pod/web-1")
        await screen.type(":svc kube-system")
        await screen.shows("Services kube-system [1]", hides=["NAMESPACE", "web"])
        await screen.type(":wrong")
        await screen.shows("unknown command 'wrong'")


async def test_keys_that_are_typed_ahead_keep_their_order(api: ApiDouble):
    async with showing(api) as screen:
        for key in ("colon", "p", "o", "enter", "j", "d"):
            screen.app.post_message(events.Key(key, {"colon": ":"}.get(key, key if len(key) == 1 else None)))
        await screen.shows("describe pod default/web-1")


async def test_filter(api: ApiDouble):
    async with showing(api) as screen:
        await screen.press("slash", "w", "e")
        await screen.shows("[1 of 3]", "/we", hides=["default db"])
        await screen.press("b", "enter")
        await screen.shows("/web")
        await screen.press("escape", "G", "slash", "d", "b", "enter")
        await screen.shows("[1 of 3]", "/db")
        assert screen.app._grid.key == "default/db"
        await screen.press("escape")
        await screen.shows("[3]", "db")
        await screen.press("slash", "z", "z")
        await screen.shows("nothing passes the filter")
        await screen.press("escape")
        await screen.shows("[3]")


async def test_drill_down_and_back(api: ApiDouble):
    async with showing(api) as screen:
        await screen.shows("default web")
        await screen.press("j", "enter")
        await screen.shows("Pods of service default/web [1]", "web-1", hides=["other-1"])
        await screen.press("enter")
        await screen.shows(
            "log of pod default/web-1, container c (1 of 2, c: next)", "line two", "of c, previous: False"
        )
        await screen.press("c")
        await screen.shows("container side (2 of 2", "of side")
        await screen.press("question_mark")
        await screen.shows("Help", "drill down", hides=["of side"])
        assert screen.app._reading is not None
        assert screen.app._reading.cancelling() or screen.app._reading.done()
        await screen.press("escape", "enter", "p")
        await screen.shows("previous run", "previous: True")
        await screen.press("escape")
        await screen.shows("Pods of service default/web")
        await screen.press("escape")
        await screen.shows("Services all namespaces")
        assert screen.app._grid.key == "default/web"
        await screen.type(":no")
        await screen.press("enter")
        await screen.shows("Pods on node node1 [2]", hides=["dns-1"])


async def test_changes_are_shown(api: ApiDouble):
    async with showing(api) as screen:
        await screen.shows("1/1")
        api.put(ENDPOINT_SLICES, slice_("web", endpoint("10.244.1.1", "web-1", ready=False), version=2))
        await screen.shows("0/1", "NotReady", "(3 with a problem)", "•")
        api.put(SERVICES, service("new"))
        await screen.shows("default new", "4 Services")
        api.remove(SERVICES, service("db"))
        await screen.shows("[3]", hides=["default db"])


async def test_the_cursor_stays_on_its_row(api: ApiDouble):
    async with showing(api) as screen:
        await screen.shows("default web")
        await screen.press("j")
        assert screen.app._grid.key == "default/web"
        api.put(SERVICES, service("aaa"))
        await screen.shows("aaa")
        assert screen.app._grid.key == "default/web"
        await screen.press("G")
        assert screen.app._grid.key == "kube-system/dns"
        await screen.press("g")
        assert screen.app._grid.key == "default/aaa"


async def test_namespaces(api: ApiDouble):
    async with showing(api) as screen:
        await screen.shows("2 kube-system")
        await screen.press("2")
        await screen.shows("Services kube-system [1]")
        await screen.press("0")
        await screen.shows("Services all namespaces [3]")
        await screen.type(":ns")
        await screen.shows("Namespaces [2]", "WITH PROBLEM")
        await screen.press("j", "enter")
        await screen.shows("Services kube-system [1]")
        await screen.type(":ns default")
        await screen.shows("Services default [2]")


async def test_sort(api: ApiDouble):
    async with showing(api) as screen:
        await screen.shows("default web")
        await screen.press("O")  # by problem
        await screen.shows("PROBLEM↓")
        assert screen.app._grid.key != "default/web"
        await screen.press("O")
        await screen.shows("PROBLEM↑")
        await screen.press("g")
        assert screen.app._grid.key == "default/web"


async def test_describe_and_yaml(api: ApiDouble):
    async with showing(api) as screen:
        await screen.type(":po")
        await screen.press("j", "d")
        await screen.shows("describe pod default/web-1", "Namespace: default", "Events:", "BackOff")
        await screen.press("slash", "k", "i", "n", "d", "enter")
        await screen.shows("Kind:", hides=["Namespace:"])
        await screen.press("escape")
        await screen.shows("Namespace:")
        await screen.press("q")
        await screen.press("y")
        await screen.shows("yaml pod default/web-1", " namespace: default")
        await screen.press("escape")
        screen.inspector.error = NotFound(404, "NotFound", "it is gone\x1b[1m")
        await screen.press("d")
        await screen.shows("error: it is gone")


async def test_doctor_and_trace_are_run(api: ApiDouble):
    async with showing(api) as screen:
        await screen.shows("default web")
        await screen.press("x")
        await screen.shows("bridgehead doctor service/db -n default", "verdict: all is well", "end")
        await screen.press("w")
        await screen.shows("long", hides=["end"])
        await screen.press("escape", "t")
        await screen.shows("bridgehead trace service/db -n default")
        await screen.press("escape")
        await screen.type(":po")
        await screen.press("t", "escape", "x")
        await screen.shows("bridgehead doctor")
        assert screen.inspector.arguments == [
            ["doctor", "service/db", "-n", "default"],
            ["trace", "service/db", "-n", "default"],
            ["trace", "pod/other-1", "-n", "default"],
            ["doctor"],
        ]


async def test_keys_without_an_object(api: ApiDouble):
    async with showing(api) as screen:
        await screen.press("l")
        await screen.shows("only pods have logs")
        await screen.type(":no")
        await screen.press("t")
        await screen.shows("trace follows a connection")
        await screen.type(":ns")
        await screen.press("y")
        await screen.shows("no object is selected")


async def test_help_and_quit(api: ApiDouble):
    async with showing(api) as screen:
        await screen.press("question_mark")
        await screen.shows("Help", "drill down")
        await screen.press("q")
        await screen.shows("Services")
        await screen.press("q")
        await screen.until(lambda: not screen.app.is_running)


async def test_hostile_names_are_text(api: ApiDouble):
    api.put(SERVICES, service(MARKUP))
    api.put(EVENTS, event("bad", message=MARKUP, reason=MARKUP, about=MARKUP))
    async with showing(api, (140, 30)) as screen:
        await screen.shows("[bold red]web[/]?]0;owned??[2J", "[4]")
        await screen.press("d")
        await screen.shows("describe service default/[bold red]web[/]?]0;owned??[2J", "Note: [bold red]web[/]")
        await screen.press("escape")
        await screen.type(":ev")
        await screen.shows("Pod/[bold red]web[/]")
        await screen.type(":po")
        await screen.press("l")
        await screen.shows("[bold red]web[/]?]0;owned?")
        assert all(line.isprintable() for line in screen.lines())


async def test_a_lost_server_is_named(api: ApiDouble, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(observing, "PROBE_SECONDS", 0.01)
    async with showing(api) as screen:
        await screen.shows("? help")
        api.errors[""] = Unreachable("https://test:6443: connection refused")
        api.break_watches(Unreachable("https://test:6443: reset"))
        await screen.shows("no answer from the API server, trying again: https://test:6443")
        await screen.shows("default web")
        api.errors.clear()
        await screen.shows("? help", hides=["no answer"])


async def test_missing_rights_are_named(api: ApiDouble):
    api.errors["events"] = Forbidden(403, "Forbidden", "events is forbidden")
    async with showing(api) as screen:
        await screen.shows("cannot see events: events is forbidden", "default web")


@pytest.mark.parametrize("size", [(80, 24), (20, 5)])
async def test_sizes(api: ApiDouble, size: tuple[int, int]):
    async with showing(api, size) as screen:
        await screen.until(lambda: len(screen.app._store.tables) > 0)
        for command in (":po", ":ev", ":api", ":ns"):
            await screen.type(command)
            assert all(len(line) <= size[0] for line in screen.lines())
        await screen.pilot.resize_terminal(60, 12)
        await screen.type(":svc")
        await screen.shows("web")
