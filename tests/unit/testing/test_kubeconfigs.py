from pathlib import Path

import pytest

from bridgehead.testing.kubeconfigs import UnusableKubeconfig, for_namespace

HERE = Path("/home/user/.kube")


def kubeconfig(**user):
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "one",
        "contexts": [
            {"name": "one", "context": {"cluster": "c", "user": "u", "namespace": "default"}},
            {"name": "two", "context": {"cluster": "c", "user": "u"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1", "certificate-authority": "ca.crt"}}],
        "users": [{"name": "u", "user": user}],
    }


def namespaces(config):
    return {each["name"]: each["context"].get("namespace") for each in config["contexts"]}


def test_the_current_context_gets_the_namespace():
    source = kubeconfig()
    made = for_namespace(source, HERE, None, "mine")
    assert namespaces(made) == {"one": "mine", "two": None}
    assert made["current-context"] == "one"
    assert source == kubeconfig()


def test_a_context_that_is_named_becomes_the_current_one():
    made = for_namespace(kubeconfig(), HERE, "two", "mine")
    assert namespaces(made) == {"one": "default", "two": "mine"}
    assert made["current-context"] == "two"


def test_paths_stay_those_of_the_same_files():
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "./login"}
    user = {"client-certificate": "a.crt", "client-key": "/etc/a.key", "exec": plugin}
    made = for_namespace(kubeconfig(**user), HERE, None, "mine")
    assert made["clusters"][0]["cluster"]["certificate-authority"] == str(HERE / "ca.crt")
    assert made["users"][0]["user"] == {
        "client-certificate": str(HERE / "a.crt"),
        "client-key": "/etc/a.key",
        "exec": plugin | {"command": str(HERE / "login")},
    }


def test_a_plugin_that_is_found_in_path_stays():
    user = {"exec": {"command": "login"}}
    assert for_namespace(kubeconfig(**user), HERE, None, "mine")["users"][0]["user"] == user


@pytest.mark.parametrize(
    ("config", "context", "reason"),
    [
        ("text", None, "not a kubeconfig"),
        (None, None, "not a kubeconfig"),
        ({}, None, "no current context"),
        (kubeconfig(), "three", "no context 'three'"),
    ],
)
def test_what_is_refused(config, context, reason):
    with pytest.raises(UnusableKubeconfig, match=reason):
        for_namespace(config, HERE, context, "mine")
