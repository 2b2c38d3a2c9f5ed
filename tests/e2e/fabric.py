"""Faults of the lab's local network, by name: lost packets, a split, a black hole, a pulled cable.

Each is a context manager; the fault ends with its block. nft in the lab's namespace drops frames on the ports of the
bridge, where neither nodes nor pods see the rule. Ports have the names of nodes; LAB is the lab itself, with its
clients and its API server.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Collection, Iterator

from .conftest import Lab

LAB = "lab"
_numbers = itertools.count(1)


@contextlib.contextmanager
def black_holed(lab: Lab, node: str) -> Iterator[None]:
    """Drop every frame to and from a node, whose link stays up."""
    with _dropping(lab, node, "drop"):
        yield


@contextlib.contextmanager
def deaf(lab: Lab, node: str) -> Iterator[None]:
    """Drop every frame to a node; those from it pass."""
    with _dropping(lab, node, "drop", hooks=("egress",)):
        yield


@contextlib.contextmanager
def mute(lab: Lab, node: str) -> Iterator[None]:
    """Drop every frame from a node; those to it pass."""
    with _dropping(lab, node, "drop", hooks=("ingress",)):
        yield


@contextlib.contextmanager
def lossy(lab: Lab, node: str, percent: int) -> Iterator[None]:
    """Drop this share of the frames to and from a node, by chance."""
    with _dropping(lab, node, f"numgen random mod 100 < {percent} drop"):
        yield


@contextlib.contextmanager
def split(lab: Lab, one_side: Collection[str], other_side: Collection[str]) -> Iterator[None]:
    """Drop every frame between two groups of nodes; one of the groups may contain LAB."""
    rules = "".join(
        _between(sender, receiver) for a in one_side for b in other_side for sender, receiver in ((a, b), (b, a))
    )
    hooks = {"forward": "", "input": "", "output": ""}
    for line in rules.splitlines():
        hook, rule = line.split(": ")
        hooks[hook] += f"{rule}; "
    chains = "".join(
        f"chain {hook} {{ type filter hook {hook} priority 0; {text} }}\n" for hook, text in hooks.items() if text
    )
    with _table(lab, "bridge", chains):
        yield


@contextlib.contextmanager
def unplugged(lab: Lab, node: str) -> Iterator[None]:
    """Pull a node's cable: both ends of its link lose their carrier."""
    _do(lab, "ip", "link", "set", node, "down")
    try:
        yield
    finally:
        _do(lab, "ip", "link", "set", node, "up")


def _between(sender: str, receiver: str) -> str:
    """Return the hook and the rule for frames from one port to another."""
    if sender == LAB:
        return f'output: oifname "{receiver}" drop\n'
    if receiver == LAB:
        return f'input: iifname "{sender}" drop\n'
    return f'forward: iifname "{sender}" oifname "{receiver}" drop\n'


@contextlib.contextmanager
def _dropping(lab: Lab, node: str, verdict: str, hooks: Collection[str] = ("ingress", "egress")) -> Iterator[None]:
    chains = "".join(
        f'chain {hook} {{ type filter hook {hook} device "{node}" priority 0; {verdict}; }}\n' for hook in hooks
    )
    with _table(lab, "netdev", chains):
        yield


@contextlib.contextmanager
def _table(lab: Lab, family: str, chains: str) -> Iterator[None]:
    name = f"fault-{next(_numbers)}"
    _do(lab, "sh", "-c", f"nft -f - <<'EOF'\ntable {family} {name} {{\n{chains}}}\nEOF")
    try:
        yield
    finally:
        _do(lab, "nft", "delete", "table", family, name)


def _do(lab: Lab, *argv: str) -> None:
    result = lab.inside(*argv)
    assert result.returncode == 0, f"{argv}: {result.stderr}"
