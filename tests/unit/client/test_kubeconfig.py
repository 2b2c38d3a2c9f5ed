import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridgehead.client import in_cluster_config, load_config, load_kubeconfig
from bridgehead.client.errors import ConfigError


def kubeconfig(tmp_path: Path, cluster: dict[str, Any], user: dict[str, Any], **more: Any) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "blue"}},
            {"name": "plain", "context": {"cluster": "c"}},
            {"name": "broken", "context": {"cluster": "nowhere", "user": "u"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": "https://10.0.0.1:6443/", **cluster}}],
        "users": [{"name": "u", "user": user}],
        **more,
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(document))
    return path


def b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_embedded_certificates_are_read(tmp_path):
    path = kubeconfig(
        tmp_path,
        {"certificate-authority-data": b64("ca"), "tls-server-name": "kubernetes"},
        {"client-certificate-data": b64("cert"), "client-key-data": b64("key")},
    )
    config = load_kubeconfig(path)
    assert config.server == "https://10.0.0.1:6443"
    assert (config.ca, config.client_certificate, config.client_key) == (b"ca", b"cert", b"key")
    assert (config.certificate_files, config.ca_file) == (None, None)
    assert (config.tls_server_name, config.namespace, config.insecure) == ("kubernetes", "blue", False)


def test_json_is_read_without_the_code_for_yaml(tmp_path, monkeypatch):
    path = kubeconfig(tmp_path, {}, {"token": "t"})
    as_yaml = load_kubeconfig(path)
    path.write_text(json.dumps(yaml.safe_load(path.read_text())))
    monkeypatch.setitem(sys.modules, "yaml", None)
    assert load_kubeconfig(path) == as_yaml


def test_certificate_files_are_relative_to_the_kubeconfig(tmp_path):
    for name in ("ca.crt", "me.crt", "me.key"):
        (tmp_path / name).write_text(name)
    path = kubeconfig(
        tmp_path,
        {"certificate-authority": "ca.crt"},
        {"client-certificate": "me.crt", "client-key": str(tmp_path / "me.key")},
    )
    config = load_kubeconfig(path)
    assert (config.ca, config.client_certificate, config.client_key) == (b"ca.crt", b"me.crt", b"me.key")
    assert config.certificate_files == (tmp_path / "me.crt", tmp_path / "me.key")
    assert config.ca_file == tmp_path / "ca.crt"


def test_credentials_are_only_for_https(tmp_path):
    user = {"token": "t", "client-certificate": "missing", "exec": {"command": "login"}, "password": "p", "as": "jane"}
    config = load_kubeconfig(kubeconfig(tmp_path, {"server": "http://127.0.0.1:8001"}, user))
    assert (config.token, config.client_certificate, config.exec_plugin) == (None, None, None)
    assert config.impersonation is not None


def test_another_context_can_be_selected(tmp_path):
    config = load_kubeconfig(kubeconfig(tmp_path, {}, {"token": "t"}), context="plain")
    assert (config.token, config.namespace) == (None, "default")


def test_tokens_are_read_from_text_and_file(tmp_path):
    assert load_kubeconfig(kubeconfig(tmp_path, {}, {"token": "t"})).token == "t"
    config = load_kubeconfig(kubeconfig(tmp_path, {}, {"token": "t", "tokenFile": "tok"}))
    assert (config.token, config.token_file) == (None, tmp_path / "tok"), "the file goes first, as in kubectl"


@pytest.mark.parametrize(
    ("cluster", "user", "more", "text"),
    [
        ({}, {"exec": {"command": "aws"}}, {}, "user 'u': 'exec': apiVersion None is not one of client.auth"),
        ({}, {"exec": "aws"}, {}, "user 'u': 'exec' is not an object"),
        ({}, {"auth-provider": {"name": "gcp"}}, {}, "'auth-provider' is not supported"),
        ({}, {"username": "me", "password": "x"}, {}, "'username' is not supported"),
        ({}, {"as-groups": ["a"]}, {}, "'as-uid', 'as-groups' and 'as-user-extra' need 'as'"),
        ({}, {"as": "a", "as-groups": "b"}, {}, "'as-groups' is not a list"),
        ({}, {"as": "a\nb"}, {}, "characters that no header may have"),
        ({}, {"as": "a", "as-user-extra": {"x": "b"}}, {}, "'as-user-extra' not a map of lists"),
        ({"proxy-url": "http://p:x"}, {}, {}, "cluster 'c': proxy-url is not a URL such as http://HOST:PORT"),
        ({"proxy-url": "socks5://p:1"}, {}, {}, "proxy-url socks5://p is not supported, only http://HOST:PORT"),
        ({"server": "10.0.0.1"}, {}, {}, "server '10.0.0.1' is not an http or https URL"),
        ({"certificate-authority-data": "%%"}, {}, {}, "certificate-authority-data is not base64"),
        ({"certificate-authority": "missing.crt"}, {}, {}, "missing.crt: No such file or directory"),
        ({}, {"client-key-data": b64("k")}, {}, "client-certificate and client-key belong together"),
        ({}, {}, {"current-context": ""}, "no current-context"),
        ({}, {}, {"current-context": "gone"}, "no context named 'gone'"),
        ({}, {}, {"current-context": "broken"}, "no cluster named 'nowhere'"),
        ({}, {}, {"users": None}, "no user named 'u'"),
        ({}, {}, {"kind": "Pod"}, "not a kubeconfig"),
    ],
)
def test_errors_are_one_line(tmp_path, cluster, user, more, text):
    with pytest.raises(ConfigError) as refused:
        load_kubeconfig(kubeconfig(tmp_path, cluster, user, **more))
    assert text in str(refused.value)
    assert "\n" not in str(refused.value)


def test_the_impersonated_user_and_the_proxy_are_read(tmp_path):
    user = {"as": "jane", "as-uid": "7", "as-groups": ["a", "b"], "as-user-extra": {"acme.io/x": ["1", "2"]}}
    config = load_kubeconfig(kubeconfig(tmp_path, {"proxy-url": "http://10.0.0.9:3128"}, user))
    assert config.proxy_url == "http://10.0.0.9:3128"
    assert config.impersonation is not None
    assert list(config.impersonation.headers()) == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-acme.io%2Fx", "1"),
        ("Impersonate-Extra-acme.io%2Fx", "2"),
    ]


def test_a_plugin_is_read_unless_there_is_a_token(tmp_path):
    plugin = {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "bin/login"}
    config = load_kubeconfig(kubeconfig(tmp_path, {}, {"exec": plugin}))
    assert config.exec_plugin is not None
    assert config.exec_plugin.command == f"{tmp_path}/bin/login"
    assert load_kubeconfig(kubeconfig(tmp_path, {}, {"exec": plugin, "token": "t"})).exec_plugin is None


@pytest.mark.parametrize("text", ["- just\n- a list", "a: b: c", "\tx", ""])
def test_invalid_files_are_refused(tmp_path, text):
    path = tmp_path / "config"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        load_kubeconfig(path)
    assert str(refused.value).startswith(f"{path}: not ")
    assert "\n" not in str(refused.value)


def pod_directory(tmp_path: Path) -> Path:
    for name, text in (("token", "tok\n"), ("ca.crt", "ca"), ("namespace", "blue\n")):
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("host", "server"), [("10.96.0.1", "https://10.96.0.1:443"), ("fd00::1", "https://[fd00::1]:443")]
)
def test_a_pod_uses_its_service_account(tmp_path, host, server):
    environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    config = in_cluster_config(pod_directory(tmp_path), environment)
    assert (config.server, config.ca, config.namespace) == (server, b"ca", "blue")
    assert config.token_file == tmp_path / "token"


def test_outside_of_a_pod_the_in_cluster_configuration_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ConfigError, match="not in a pod"):
        in_cluster_config(tmp_path, {})
    with pytest.raises(ConfigError, match="token: No such file"):
        in_cluster_config(tmp_path, {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"})
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(ConfigError, match="no kubeconfig given"):
        load_config(None)


def extended(content: object) -> dict[str, Any]:
    return {"extensions": [{"name": "other", "extension": 1}, {"name": "bridgehead.io/servers", "extension": content}]}


def test_an_extension_names_further_servers(tmp_path):
    servers = ["https://10.0.0.1:6443", "https://10.0.0.2:6443/"]
    config = load_kubeconfig(kubeconfig(tmp_path, extended({"servers": servers}), {}))
    assert config.servers == ("https://10.0.0.1:6443", "https://10.0.0.2:6443")
    assert load_kubeconfig(kubeconfig(tmp_path, {"extensions": None}, {})).servers == ("https://10.0.0.1:6443",)


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (["https://10.0.0.2"], 'cluster .c.: the extension bridgehead.io/servers is not {"servers"'),
        ({"servers": ["http://10.0.0.2"]}, "cluster .c.: all servers must be http, or all https"),
        ({"servers": ["10.0.0.2"]}, "cluster .c.: server '10.0.0.2' is not an http or https URL"),
    ],
)
def test_an_extension_that_names_no_servers_is_refused(tmp_path, content, error):
    with pytest.raises(ConfigError, match=error):
        load_kubeconfig(kubeconfig(tmp_path, extended(content), {}))
