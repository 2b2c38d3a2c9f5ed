"""Challenges, credentials, hosts.toml and retries: what a registry's answers and the user's files mean."""

from __future__ import annotations

import base64
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.images.errors import PullFailed
from bridgehead.images.references import Reference, parse_reference
from bridgehead.images.registry import hosts_toml, retries
from bridgehead.images.registry.challenges import Challenge, parse_challenges
from bridgehead.images.registry.docker_config import (
    BadCredentials,
    Credential,
    find_credentials,
    parse_docker_config,
    parse_user_config,
)
from bridgehead.images.registry.hosts_toml import BadHosts, Endpoint, default_endpoint, endpoints_for, parse_hosts
from bridgehead.images.registry.transport import origin, shown_url


def reference_of(name: str) -> Reference:
    reference = parse_reference(name)
    assert reference is not None
    return reference


@pytest.mark.parametrize(
    ("headers", "challenges"),
    [
        ([], []),
        (['Basic realm="Registry Realm"'], [Challenge("basic", {"realm": "Registry Realm"})]),
        (
            ['Bearer realm="https://auth.example/token",service="registry",scope="repository:a/b:pull,push"'],
            [
                Challenge(
                    "bearer",
                    {
                        "realm": "https://auth.example/token",
                        "service": "registry",
                        "scope": "repository:a/b:pull,push",
                    },
                )
            ],
        ),
        (
            ['Negotiate, Bearer realm=x, error="in\\"valid"', "BASIC realm=y"],
            [
                Challenge("negotiate"),
                Challenge("bearer", {"realm": "x", "error": 'in"valid'}),
                Challenge("basic", {"realm": "y"}),
            ],
        ),
        (['realm="x"', "Bearer realm=a, realm=b", '"'], [Challenge("bearer", {"realm": "a"})]),
    ],
)
def test_challenges_are_parsed(headers: list[str], challenges: list[Challenge]) -> None:
    assert parse_challenges(headers) == challenges


@given(st.lists(st.text(max_size=40), max_size=3))
def test_any_header_is_parsed(headers: list[str]) -> None:
    for challenge in parse_challenges(headers):
        assert challenge.scheme


def config_of(**auths: object) -> bytes:
    return json.dumps({"auths": auths}).encode()


@pytest.mark.parametrize(
    ("key", "image", "is_found"),
    [
        ("https://index.docker.io/v1/", "nginx", True),
        ("docker.io", "team/app", True),
        ("docker.io/team", "team/app", True),
        ("docker.io/tea", "team/app", False),
        ("registry.example", "registry.example/app", True),
        ("https://registry.example:5000/v2/", "registry.example:5000/app", True),
        ("registry.example", "registry.example:5000/app", False),
        ("*.example", "registry.example/app", True),
        ("*.example", "a.registry.example/app", False),
        ("registry.other", "registry.example/app", False),
        ("https://registry.example/v1/team", "registry.example/team/app", True),
        ("https://registry.example/v2/team/", "registry.example/other/app", False),
    ],
)
def test_keys_of_a_docker_configuration_select_images(key: str, image: str, is_found: bool) -> None:
    keyring = parse_docker_config(config_of(**{key: {"username": "u", "password": "p"}}))
    found = find_credentials([keyring], reference_of(image))
    assert found == ([Credential(username="u", password="p")] if is_found else [])


@pytest.mark.parametrize("auth", [b"user:secret", b"user:secrets", b"user:pw", b"u:"])
def test_the_padding_of_an_auth_field_may_be_missing(auth: bytes) -> None:
    username, _, password = auth.decode().partition(":")
    for text in (base64.b64encode(auth), base64.b64encode(auth).rstrip(b"=")):
        keyring = parse_docker_config(config_of(x={"auth": text.decode()}))
        assert keyring == {"x": Credential(username=username, password=password)}


def test_specific_keys_come_first_and_tokens_are_kept() -> None:
    auth = base64.b64encode(b"user:pass:word").decode()
    keyring = parse_docker_config(config_of(**{
        "registry.example": {"identitytoken": "refresh"}, "registry.example/team": {"auth": auth},
    }))  # fmt: skip
    legacy = parse_docker_config(b'{"registry.example": {"registrytoken": "bearer"}}', is_legacy=True)
    assert find_credentials([keyring, legacy, keyring], reference_of("registry.example/team/app")) == [
        Credential(username="user", password="pass:word"),
        Credential(identity_token="refresh"),
        Credential(registry_token="bearer"),
    ]
    assert parse_docker_config(b'{"credsStore": "desktop"}') == {}
    auths = {"b.example": {}, "c.example": {"username": "u"}}
    config = {"credsStore": "all", "credHelpers": {"a.example": "one"}, "auths": auths}
    credentials, helpers = parse_user_config(json.dumps(config).encode())
    assert credentials == {"c.example": Credential(username="u")}
    assert (helpers.find("a.example"), helpers.find("b.example")) == ("one", "all")


@pytest.mark.parametrize(
    "text",
    [b"", b"[]", b'{"auths": {"x": 1}}', b'{"auths": {"x": {"auth": "a"}}}', b'{"auths": {"x": {"auth": "dXNlcg=="}}}'],
)
def test_other_files_are_no_docker_configuration(text: bytes) -> None:
    with pytest.raises(BadCredentials):
        parse_docker_config(text)
    with pytest.raises(BadCredentials):
        parse_user_config(text)


@pytest.mark.parametrize(
    ("registry", "endpoint"),
    [
        ("docker.io", Endpoint(url="https://registry-1.docker.io/v2")),
        ("registry.example:5000", Endpoint(url="https://registry.example:5000/v2")),
        ("10.0.0.1:5000", Endpoint(url="https://10.0.0.1:5000/v2")),
        ("localhost:5000", Endpoint(url="https://localhost:5000/v2", skip_verify=True, may_be_plain=True)),
        ("[::1]:5000", Endpoint(url="https://[::1]:5000/v2", skip_verify=True, may_be_plain=True)),
        ("127.0.0.1", Endpoint(url="https://127.0.0.1/v2", skip_verify=True)),
        ("localhost:443", Endpoint(url="https://localhost:443/v2", skip_verify=True)),
        ("localhost:80", Endpoint(url="http://localhost:80/v2")),
    ],
)
def test_plain_http_and_unverified_certificates_are_for_loopback_only(registry: str, endpoint: Endpoint) -> None:
    assert default_endpoint(registry) == endpoint
    own_ca = Endpoint(url="", ca="A")
    [completed] = endpoints_for(registry, {registry: [own_ca]})
    assert completed == msgspec.structs.replace(endpoint, ca="A")


def test_a_hosts_file_has_mirrors_and_the_server() -> None:
    text = """
        server = "https://upstream.example"
        ca = "upstream.crt"
        [host."http://mirror.example:5000"]
          capabilities = ["Pull", "push"]
          [host."http://mirror.example:5000".header]
            x-one = "1"
            x-two = ["2", "3"]
            X-TWO = "4"
        [host."https://other.example/api/oci/"]
          override_path = true
          skip_verify = true
          ca = ["a.crt", "missing.crt"]
          client = [["me.crt", "me.key"], ["both.pem", ""]]
    """
    assert hosts_toml.named_files(text) == ["upstream.crt", "a.crt", "missing.crt", "me.crt", "me.key", "both.pem"]
    files = {"a.crt": "A", "upstream.crt": "U", "me.crt": "C", "me.key": "K", "both.pem": "CK"}
    assert parse_hosts(text, files) == (
        Endpoint(
            url="http://mirror.example:5000/v2",
            capabilities=frozenset({"pull"}),
            headers=(("X-One", "1"), ("X-Two", "2"), ("X-Two", "3"), ("X-Two", "4")),
        ),
        Endpoint(url="https://other.example/api/oci", skip_verify=True, ca="A", clients=("C\nK", "CK")),
        Endpoint(url="https://upstream.example/v2", ca="U"),
    )


def test_urls_of_servers_and_in_messages_have_no_password() -> None:
    mirror, _ = parse_hosts('[host."https://me:secret@mirror.example:5000"]', {})
    assert mirror.url == "https://mirror.example:5000/v2"
    assert shown_url("https://me:secret@cdn.example/blob?sign=abc") == "https://cdn.example/blob"


@pytest.mark.parametrize(
    ("registry", "realm", "skip_verify"),
    [
        ("localhost:5000", "https://localhost:5001/token", True),
        ("localhost:5000", "https://auth.example/token", False),
        ("registry.example", "https://auth.example/token", True),
    ],
)
def test_token_servers_elsewhere_are_verified_for_registries_on_loopback(
    registry: str, realm: str, skip_verify: bool
) -> None:
    endpoint = Endpoint(
        url=f"https://{registry}/v2", skip_verify=True, ca="A", clients=("CK",), headers=(("X-One", "1"),)
    )
    expected = Endpoint(url=realm, skip_verify=skip_verify, ca="A", clients=("CK",))
    assert hosts_toml.token_server(realm, endpoint) == expected
    verified = msgspec.structs.replace(endpoint, skip_verify=False)
    assert not hosts_toml.token_server(realm, verified).skip_verify


def test_certificates_alone_are_for_the_registry_itself() -> None:
    files = {"b.crt": "B", "a.crt": "A", "me.cert": "C", "me.key": "K", "other.cert": "X", "README.md": "text"}
    assert hosts_toml.hosts_of_certificates(files) == (Endpoint(url="", ca="A\nB", clients=("C\nK",)),)
    assert hosts_toml.hosts_of_certificates({"me.cert": "C", "me.key": "K"}) == (Endpoint(url="", clients=("C\nK",)),)
    assert hosts_toml.hosts_of_certificates({"me.key": "K"}) == ()


def test_a_registrys_own_directory_precedes_the_default() -> None:
    text = 'skip_verify = true\ncapabilities = ["pull"]\n[host."https://mirror.example"]'
    mirror, of_server = Endpoint(url="https://mirror.example/v2"), Endpoint(url="https://s.example/v2")
    configured = {
        "a.example_5000_": parse_hosts("", {}),
        "a.example:5000": (mirror,),
        "b.example": parse_hosts('server = "https://s.example"', {}),
        "_default": parse_hosts(text, {}),
    }
    assert hosts_toml.endpoints_for("a.example:5000", configured) == (default_endpoint("a.example:5000"),)
    assert hosts_toml.endpoints_for("b.example", configured) == (of_server,)
    # The file's own settings are those of the registry, which has all capabilities.
    registry = Endpoint(url="https://registry-1.docker.io/v2", skip_verify=True)
    assert hosts_toml.endpoints_for("docker.io", configured) == (mirror, registry)
    assert hosts_toml.endpoints_for("docker.io", {}) == (default_endpoint("docker.io"),)


@pytest.mark.parametrize(
    ("url", "registry", "expected"),
    [
        ("https://registry-1.docker.io/v2", "docker.io", False),
        ("http://localhost:5000/v2", "localhost:5000", False),
        ("http://localhost:5000/v2", "docker.io", True),
        ("https://docker.io.example/v2", "docker.io", True),
    ],
)
def test_a_mirror_is_another_server_than_the_registry(url: str, registry: str, expected: bool) -> None:
    assert hosts_toml.is_mirror(Endpoint(url=url), registry) == expected


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("https://a.example:443/x?y", "https://A.example/z", True),
        ("http://u:p@a.example/", "http://a.example:80", True),
        ("http://a.example", "https://a.example", False),
        ("http://a.example:443", "http://a.example", False),
        ("http://[::1]:5000/", "http://[::1]:5001/", False),
    ],
)
def test_a_server_has_one_origin(one: str, other: str, expected: bool) -> None:
    assert (origin(one) == origin(other)) == expected


@pytest.mark.parametrize(
    ("client", "clients"),
    [('"both.pem"', ("CK",)), ('["both.pem", "me.crt"]', ("CK", "C")), ("[]", ()), ('""', ())],
)
def test_client_certificates_are_one_file_or_more(client: str, clients: tuple[str, ...]) -> None:
    server, *_ = parse_hosts(f'[host."https://x"]\nclient = {client}', {"both.pem": "CK", "me.crt": "C"})
    assert server.clients == clients


@pytest.mark.parametrize(
    "text",
    [
        "server = ",
        'host = "x"',
        'server = "ftp://x"',
        '[host."https://"]',
        '[host."http://["]',
        '[host."https://x"]\nskip_verify = "false"',  # a text would be true
        '[host."https://x"]\ncapabilities = "pull"',
        'capabilities = ["fetch"]',
        'server = "https://x"\nheader = 1',
        "client = 1",
    ],
)
def test_other_files_are_no_hosts_file(text: str) -> None:
    with pytest.raises(BadHosts):
        parse_hosts(text, {})


@pytest.mark.parametrize("text", ["server = ", 'host = "x"'])
def test_certificates_of_other_files_are_not_read(text: str) -> None:
    with pytest.raises(BadHosts):
        hosts_toml.named_files(text)


@pytest.mark.parametrize(
    ("host", "expected"),
    [("localhost", True), ("a.localhost", False), ("127.9.9.9", True), ("[::1]", True), ("::1", True),
     ("10.0.0.1", False), ("localhost.example", False)],
)  # fmt: skip
def test_loopback_is_this_machine(host: str, expected: bool) -> None:
    assert hosts_toml.is_loopback(host) == expected


@pytest.mark.parametrize(
    ("failures", "retry_after", "delay"),
    [
        (1, "", 0.2),
        (2, "", 0.4),
        (5, "", 3.2),
        (6, "", None),
        (1, "7", 7.0),
        (1, "0", 0.2),
        (1, "61", None),
        (1, "Sun, 09 Sep 2001 01:46:45 GMT", 5.0),
        (1, "Sun, 09 Sep 2001 01:46:35 GMT", 0.2),
        (1, "soon", 0.2),
    ],
)
def test_a_registry_may_ask_for_a_short_delay(failures: int, retry_after: str, delay: float | None) -> None:
    found = retries.delay_seconds(failures, retry_after, now=1e9)
    assert found == (pytest.approx(delay) if delay is not None else None)


def test_refusals_for_load_are_retried() -> None:
    assert [status for status in range(200, 600) if retries.is_retried(status)] == [408, 425, 429, 500, 502, 503, 504]


def test_a_download_has_to_keep_a_pace() -> None:
    pace = retries.Pace(100.0)
    pace.count(10, 101.0)
    pace.count(retries.PACE_BYTES, 160.0)  # a new minute begins
    pace.count(1, 219.0)
    with pytest.raises(PullFailed, match=r"the download is too slow: 2 bytes in 61 s"):
        pace.count(1, 221.0)


def test_a_server_that_does_not_answer_is_asked_twice() -> None:
    assert retries.delay_seconds(1, "", 0.0, is_silent=True) is not None
    assert retries.delay_seconds(2, "", 0.0, is_silent=True) is None
