"""The command lines of `bridgehead rules`, `flows` and `diff-modes`."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import re
from collections.abc import AsyncIterator

import pytest

from bridgehead import cli
from bridgehead.cli import flows
from bridgehead.cli.node_choice import (
    choose_node,
    chosen_services,
    known_nodes,
    missing_lines,
    missing_sections,
    require_service,
)
from bridgehead.insight.facts.network_state import NetworkState, Section
from bridgehead.insight.findings import Unseen
from bridgehead.objects.core import Pod, PodSpec
from bridgehead.objects.meta import ObjectKey, ObjectMeta
from tests.unit.insight.rulesets.clusters import cluster, service


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    for name in ("KUBECONFIG", "BRIDGEHEAD_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def run(*arguments: str) -> object:
    with pytest.raises(SystemExit) as ended:
        cli.main(list(arguments))
    return ended.value.code


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (("rules", "pod/web"), "'pod/web' is not service/NAME"),
        (("rules", "-n", "a/b"), "'a/b' is not the name of a namespace"),
        (("rules", "-n", "shop"), "-n needs service/NAME"),
        (("flows", "-A", "-n", "shop"), "-A excludes"),
        (("flows", "deployment/x"), "'deployment/x' is not service/NAME"),
        (("diff-modes", "nftables", "iptable"), 'did you mean "iptables"?'),
        (("diff-modes", "nftables", "ipvs", "x/y"), "'x/y' is not service/NAME"),
    ],
)
def test_a_wrong_command_line_is_one_line(
    arguments: tuple[str, ...], error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*arguments) == 2
    err = capsys.readouterr().err
    assert error in err
    assert len(err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("doctor", "-o", "yaml"),
        ("trace", "web", "-o", "yaml"),
        ("rules", "-o", "yaml"),
        ("rules", "--mode", "yaml"),
        ("flows", "-o", "yaml"),
        ("diff-modes", "ipvs", "nftables", "-o", "yaml"),
    ],
)
def test_choices_are_the_same_in_all_commands(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*arguments) == 2
    assert "'yaml' is not one of " in capsys.readouterr().err


@pytest.mark.parametrize("command", [("rules",), ("flows", "service/web"), ("diff-modes", "nftables", "ipvs")])
def test_without_a_kubeconfig_the_labs_is_used(command: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*command, "--name", "nobody") == 1
    assert "there is no lab" in capsys.readouterr().err


def test_the_first_node_is_chosen_and_unknown_ones_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    state = cluster([])
    assert choose_node("rules", state, None) == "node1"
    assert choose_node("rules", state, "node2") == "node2"
    with pytest.raises(SystemExit):
        choose_node("rules", state, "node3\x1b")
    assert "node 'node3?' not found" in capsys.readouterr().err


def test_a_service_of_another_namespace_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    state = cluster([service("web", "shop", clusterIPs=["10.96.0.10"])])
    require_service("rules", state, ObjectKey("shop", "web"))
    with pytest.raises(SystemExit):
        require_service("rules", state, ObjectKey("default", "web"))
    assert "there is one in shop (-n)" in capsys.readouterr().err


def test_services_are_chosen_by_name_or_by_namespace() -> None:
    state = cluster([service("web", "shop", clusterIPs=["10.96.0.10"]), service("web", clusterIPs=["10.96.0.11"])])
    assert chosen_services(state, "", None) is None
    assert chosen_services(state, "", "shop") == {"shop/web"}
    assert chosen_services(state, "web", "default") == {"default/web"}


def test_parts_that_could_not_be_read_are_plain_lines() -> None:
    assert missing_lines([Unseen("pods", "no\x1b[2J\nright")]) == "Could not look at pods: no?[2J?right\n"


def test_sections_with_one_reason_are_one_line() -> None:
    network = NetworkState(unseen={Section.NFTABLES: "no exec", Section.IPTABLES: "no exec", Section.ROUTES: "x"})
    missing = list(map(str, missing_sections("node1", network)))
    assert missing == ["nftables, iptables of node1: no exec", "routes of node1: x"]


def test_nodes_that_cannot_be_read_are_those_of_the_pods() -> None:
    state = cluster([], pods=[pod("b"), pod("a"), pod("")])
    assert known_nodes(state) == ["node1", "node2"]
    without = dataclasses.replace(state, nodes={})
    assert known_nodes(without) == ["a", "b"]
    assert choose_node("rules", without, None) == "a"


def pod(node: str) -> Pod:
    return Pod(metadata=ObjectMeta(namespace="default", name=f"on-{node}"), spec=PodSpec(node_name=node))


def test_watched_flows_are_plain_text_with_the_time_when_the_output_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = iter(("first\n", "second\n"))

    async def look(*_: object, **__: object) -> tuple[str, bool]:
        return next(looks), True

    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    class Connected:
        @contextlib.asynccontextmanager
        async def connect(self, _: str) -> AsyncIterator[tuple[None, None]]:
            yield None, None

    monkeypatch.setattr(flows, "_look", look)
    monkeypatch.setattr(asyncio, "sleep", sleep)
    shown = flows._show(Connected(), "", "default", None, watch=True, is_json=False)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        asyncio.run(shown)
    assert re.fullmatch(r"\d\d:\d\d:\d\d\nfirst\n\d\d:\d\d:\d\d\nsecond\n", capsys.readouterr().out)
    assert pauses == [flows.WATCH_SECONDS] * 2
