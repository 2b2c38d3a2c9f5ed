"""Objects as text, filters, commands, the prompt."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.insight.live.row_computation import event_row
from bridgehead.insight.terminal.commands import Command, parse_command
from bridgehead.insight.terminal.listing import compile_filter
from bridgehead.insight.terminal.prompt import LONGEST, Mode, Prompt
from bridgehead.insight.terminal.streaming import lines_of
from bridgehead.insight.terminal.tables import BY_ALIAS, PODS, SERVICES, VIEWS, rate_text, seconds_text
from bridgehead.insight.terminal.texts import (
    LineSplitter,
    container_names,
    describe_lines,
    safe_lines,
    title,
    yaml_lines,
)
from tests.unit.insight.live.objects import CREATED_SECONDS, event

HOSTILE = "[red]\x1b]0;owned\x07\x1b[31m\u202e\r[/]"
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-1",
        "namespace": "default",
        "labels": {"app": "web", "zone": "a"},
        "annotations": {"note": HOSTILE, "kubectl.kubernetes.io/last-applied-configuration": "{}"},
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80}]}], "hostNetwork": True, "nodeName": None},
    "status": {"podIP": "10.244.1.1", "conditions": []},
}


def test_describe():
    lines = describe_lines(POD, [event_row(event("e", count=3))], CREATED_SECONDS + 60)
    assert (
        lines
        == [
            "Name:         web-1",
            "Namespace:    default",
            "Labels:       app=web",
            "              zone=a",
            "Annotations:  note: [red]?]0;owned????[/]",
            "Api Version:  v1",
            "Kind:         Pod",
            "Spec:",
            "  Containers:",
            "    Name:  c",
            "    Ports:",
            "      Container Port:  80",
            "  Host Network:  true",
            "  Node Name:  <nil>",
            "Status:",
            "  Pod IP:  10.244.1.1",
            "Events:",
            "  Type     Reason   Age       From  Message",
            "  Warning  BackOff  60s (x3)        Back-off restarting",
        ]
        or lines[4].isprintable()
    )
    assert "Managed Fields:" not in "".join(lines)
    assert all(line.isprintable() for line in lines)


def test_yaml():
    lines = yaml_lines(POD)
    assert "    app: web" in lines
    assert not any("managedFields" in line for line in lines)
    assert all(line.isprintable() for line in lines)


@given(
    st.recursive(
        st.none() | st.booleans() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_any_object_can_be_described(value: Any):
    for lines in (describe_lines({"spec": value, "metadata": value}, [], 0.0), yaml_lines({"spec": value})):
        assert all(line.isprintable() for line in lines)


def test_long_texts_are_bounded():
    lines = safe_lines("x\n" * 100, most=10)
    assert len(lines) == 10
    assert lines[-1] == "... only the first 10 lines are shown"
    assert len(safe_lines("x" * 1_000_000)[0]) == 2000
    deep: Any = "end"
    for _ in range(500):
        deep = {"a": deep}
    assert len(describe_lines({"spec": deep}, [], 0.0)) < 60


@pytest.mark.parametrize(
    ("key", "found"),
    [("clusterIP", "Cluster IP"), ("podIPs", "Pod IPs"), ("name", "Name"), ("a/b", "a/b"), ("k8s", "K8s")],
)
def test_title(key: str, found: str):
    assert title(key) == found


@pytest.mark.parametrize(
    ("pattern", "text", "passes"),
    [
        ("", "anything", True),
        ("WEB", "my-web-1", True),
        ("web", "other", False),
        ("!web", "other", True),
        ("!web", "my-web-1", False),
        ("w.b", "wxb", True),
        ("^my", "my-web", True),
        ("web|db", "a-db-1", True),
        ("[", "a[b", True),
        ("(a+)+$", "(a+)+$", True),
    ],
)
def test_filter(pattern: str, text: str, passes: bool):
    assert bool(compile_filter(pattern)(text)) == passes


@given(st.text(), st.text())
def test_any_filter_works(pattern: str, text: str):
    compile_filter(pattern)(text)


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("", Command()),
        ("svc", Command(view=SERVICES)),
        (" PODS kube-system ", Command(view=PODS, namespace="kube-system")),
        ("po all", Command(view=PODS, namespace="")),
        ("ns default", Command(namespace="default")),
        ("q", Command(is_quit=True)),
        ("help", Command(is_help=True)),
        ("servces", Command(error="unknown command 'servces'; did you mean \"services\"?")),
    ],
)
def test_command(text: str, command: Command):
    assert parse_command(text) == command


def test_prompt():
    prompt = Prompt(Mode.COMMAND, completions=BY_ALIAS)
    for key in "serv":
        assert prompt.edit(key, key)
    assert prompt.completion == "ice"
    assert prompt.edit("tab", "\t")
    assert prompt.text == "service"
    assert prompt.edit("space", " ")
    assert prompt.edit("a", "a")
    assert prompt.edit("ctrl+w", "\x17")
    assert prompt.text == "service "
    assert prompt.edit("backspace", "\x7f")
    assert prompt.text == "service"
    assert not prompt.edit("f5", None)
    prompt.insert("\x1b[31m" + "x" * 1000)
    assert prompt.text.isprintable()
    assert len(prompt.text) == LONGEST
    assert prompt.edit("ctrl+u", "\x15")
    assert prompt.text == ""


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0.00034, "340µs"), (0.0012, "1.2ms"), (0.25, "250ms"), (2.14, "2.1s")]
)
def test_durations(seconds: float | None, text: str):
    assert seconds_text(seconds) == text


@pytest.mark.parametrize(("rate", "text"), [(None, "-"), (0.0, "0"), (0.333, "0.33"), (12.3, "12"), (1234.5, "1234")])
def test_rates(rate: float | None, text: str):
    assert rate_text(rate) == text


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: view.name)
def test_letters_of_a_view_are_its_own(view: Any):
    letters = [column.letter for column in view.columns if column.letter]
    assert len(letters) == len(set(letters))
    assert all(letter.isupper() and letter != "G" for letter in letters), letters


def test_containers_of_a_pod():
    obj = {
        "metadata": {"annotations": {"kubectl.kubernetes.io/default-container": "b"}},
        "spec": {"containers": [{"name": "a"}, {"name": "b"}], "initContainers": [{"name": "i"}]},
    }
    assert container_names(obj) == ["b", "a", "i"]
    assert container_names({}) == []
    assert container_names({"spec": "x", "metadata": []}) == []


@given(st.text(max_size=60), st.integers(min_value=1, max_value=7))
def test_a_text_in_pieces_has_the_same_lines(text: str, size: int):
    splitter = LineSplitter()
    data = text.encode(errors="replace")
    found = [line for begin in range(0, len(data), size) for line in splitter.feed(data[begin : begin + size])]
    assert found + splitter.end() == safe_lines(data.decode())


def test_a_line_without_an_end_takes_little_memory():
    splitter = LineSplitter()
    for _ in range(100):
        assert splitter.feed(b"x" * 10_000) == []
    [line] = splitter.end()
    assert len(line) == 2000
    assert line.endswith("...")


async def test_the_source_of_lines_is_closed_with_its_reader():
    is_closed = False

    async def pieces() -> AsyncGenerator[bytes, None]:
        nonlocal is_closed
        try:
            while True:
                yield "一\n".encode()
        finally:
            is_closed = True

    lines = lines_of(pieces(), 0.0)
    assert set(await anext(lines)) == {"一"}
    await lines.aclose()
    assert is_closed


async def test_an_error_of_the_source_comes_after_its_lines():
    async def pieces() -> AsyncGenerator[bytes, None]:
        yield b"first\nsec"
        raise OSError("broken")

    lines = lines_of(pieces(), 0.0)
    assert await anext(lines) == ["first", "sec"]
    with pytest.raises(OSError, match="broken"):
        await anext(lines)
