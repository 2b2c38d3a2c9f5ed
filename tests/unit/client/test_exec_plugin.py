import base64
import json
from typing import Any

import pytest

from bridgehead.client.exec_plugin import ExecPlugin, PluginAnswer, parse_answer, parse_exec_plugin

V1, V1BETA1 = "client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1"
PLUGIN = ExecPlugin(V1, "login")
CLUSTER: dict[str, Any] = {
    "server": "https://10.0.0.1:6443",
    "tls-server-name": "kubernetes",
    "certificate-authority-data": "not this one",
    "extensions": [
        {"name": "minikube", "extension": {"a": 1}},
        {"name": "client.authentication.k8s.io/exec", "extension": {"audience": "x"}},
    ],
}


def test_a_plugin_gets_what_the_kubeconfig_states():
    entry = {
        "apiVersion": V1,
        "command": "aws",
        "args": ["eks", "get-token"],
        "env": [{"name": "AWS_PROFILE", "value": "dev"}, {"name": "EMPTY"}],
        "interactiveMode": "Never",
        "installHint": "Install it.\n",
        "provideClusterInfo": True,
    }
    plugin = parse_exec_plugin(entry, CLUSTER, b"ca", "/home/me")
    assert (plugin.command, plugin.args, plugin.mode, plugin.hint) == (
        "aws",
        ("eks", "get-token"),
        "Never",
        "Install it.",
    )
    variables = plugin.variables(is_interactive=False)
    given = json.loads(variables.pop("KUBERNETES_EXEC_INFO"))
    assert variables == {"AWS_PROFILE": "dev", "EMPTY": ""}
    assert given == {
        "kind": "ExecCredential",
        "apiVersion": V1,
        "spec": {
            "interactive": False,
            "cluster": {
                "server": "https://10.0.0.1:6443",
                "tls-server-name": "kubernetes",
                "certificate-authority-data": base64.b64encode(b"ca").decode(),
                "config": {"audience": "x"},
            },
        },
    }


def test_a_plugin_of_the_older_version_gets_no_cluster_by_default():
    plugin = parse_exec_plugin({"apiVersion": V1BETA1, "command": "/bin/login"}, CLUSTER, b"ca", "/home/me")
    assert (plugin.command, plugin.mode) == ("/bin/login", "IfAvailable")
    given = json.loads(plugin.variables(is_interactive=True)["KUBERNETES_EXEC_INFO"])
    assert given["spec"] == {"interactive": True}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "v1alpha1' is not one of"),
        ({"command": ""}, "no command"),
        ({"interactiveMode": None}, "interactiveMode None is not one of Never, IfAvailable, Always"),
        ({"args": "a b"}, "args is not a list"),
        ({"env": ["a"]}, "env is not a list of names and values"),
        ({"env": [{"value": "a"}]}, "env is not a list of names and values"),
    ],
)
def test_unclear_plugins_are_refused(change, text):
    entry = {"apiVersion": V1, "command": "login", "interactiveMode": "Never", **change}
    with pytest.raises(ValueError, match=text):
        parse_exec_plugin(entry, {}, None, "/")


def test_unclear_extensions_of_a_cluster_are_refused():
    entry = {"apiVersion": V1, "command": "login", "interactiveMode": "Never", "provideClusterInfo": True}
    with pytest.raises(ValueError, match="extensions are not a list"):
        parse_exec_plugin(entry, {"extensions": "a"}, None, "/")
    assert parse_exec_plugin(entry, {"extensions": ["a"]}, None, "/").cluster == {}


def answer(**status: Any) -> bytes:
    return json.dumps({"kind": "ExecCredential", "apiVersion": V1, "status": status}).encode()


def test_an_answer_has_a_token_or_a_certificate():
    assert parse_answer(PLUGIN, answer(token="t")) == PluginAnswer("t")
    assert parse_answer(PLUGIN, answer(clientCertificateData="c", clientKeyData="k")) == PluginAnswer(None, b"c", b"k")
    until = parse_answer(PLUGIN, answer(token="t", expirationTimestamp="2026-11-21T02:35:22Z")).expires
    assert until == 1795228522.0


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (b"", "not an ExecCredential"),
        (b"\xff", "not an ExecCredential"),
        (b"[]", "not an ExecCredential"),
        (b'{"apiVersion": "v2"}', "it is configured to use API version .*/v1, and returned version v2"),
        (json.dumps({"apiVersion": V1}).encode(), "it didn't return a status field"),
        (answer(), "it didn't return a token or cert/key pair"),
        (answer(clientKeyData="k"), "it returned only certificate or key, not both"),
        (answer(token=1), "is not a text"),
        (answer(token="a\nb"), "characters that no header may have"),
        (answer(token="t", expirationTimestamp="soon"), "expirationTimestamp 'soon' is not a time"),
        (answer(token="t", expirationTimestamp=7), "expirationTimestamp 7 is not a time"),
    ],
)
def test_unclear_answers_are_refused(output, text):
    with pytest.raises(ValueError, match=text):
        parse_answer(PLUGIN, output)
