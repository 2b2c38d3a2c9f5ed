"""`bridgehead top` in a terminal: keys are typed, and the screen is read."""

from __future__ import annotations

import os

from tests.terminal import Terminal

from .conftest import PATIENCE, Lab, Namespace, run


def test_top_in_a_terminal(lab: Lab, ns: Namespace) -> None:
    ns.kubectl("create", "deployment", "web", "--image=nginx")
    ns.kubectl("expose", "deployment", "web", "--port=80")
    env = {key: value for key, value in os.environ.items() if key not in ("KUBECONFIG", "NO_COLOR")}
    with Terminal(lab.argv("top", "-n", ns.name), env, PATIENCE) as terminal:
        terminal.shows("Services", "web", "80/TCP", "1/1", "nodes ready")
        ns.kubectl("create", "service", "clusterip", "lost", "--tcp=80")
        terminal.shows("lost", "NoPods")
        terminal.type("/web\r\r")
        terminal.shows(f"Pods of service {ns.name}/web", "Running")
        terminal.type("\r")
        terminal.shows("log of pod", "container nginx")
        terminal.type("q")
        terminal.shows("Pods of service")
        terminal.type("d")
        terminal.shows("describe pod", "Namespace:    " + ns.name)
        terminal.type("q:no\r")
        terminal.shows("Nodes", "node1", "nftables")
        terminal.type(":syncs\r")
        terminal.shows("SYNCS/S", "node1", hides=["node1  -"])
        terminal.resize(60, 12)
        terminal.type(":svc\r")
        terminal.shows("[2]", "lost")
        ns.kubectl("delete", "service", "lost")
        terminal.shows("[1]", hides=["lost"])
        terminal.type("q")
        assert terminal.end() == 0


def test_top_needs_a_terminal_and_a_table(lab: Lab) -> None:
    result = lab.command("top")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "bridgehead top: needs a terminal; `kubectl get` prints tables for programs\n"
    result = run(*lab.argv("top", "pdos"))
    assert (result.returncode, result.stderr) == (
        2,
        "bridgehead top: no table is named 'pdos'; did you mean \"pods\"?\n",
    )
