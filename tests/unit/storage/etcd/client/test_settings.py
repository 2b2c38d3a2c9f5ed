from pathlib import Path

import pytest

from bridgehead.storage.etcd.client.errors import EtcdError
from bridgehead.storage.etcd.client.settings import Endpoint, EtcdSettings, parse_endpoints


def test_endpoints_are_urls_with_or_without_a_port():
    settings = EtcdSettings(endpoints=("https://a:1", "https://[fd00::1]/", "https://a:1"))
    assert parse_endpoints(settings) == [
        Endpoint("https://a:1", "a:1", True),
        Endpoint("https://[fd00::1]:2379", "[fd00::1]:2379", True),
    ]
    assert not parse_endpoints(EtcdSettings(endpoints=("http://a",)))[0].is_tls


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"endpoints": ()}, "no endpoint"),
        ({"endpoints": ("10.0.0.1:2379",)}, "give a URL"),
        ({"endpoints": ("http://a:99999",)}, "give a URL"),
        ({"endpoints": ("http://a/v3",)}, "give a URL"),
        ({"endpoints": ("http://root:secret@a",)}, "set user and password beside it"),
        ({"endpoints": ("http://a", "https://b")}, "all http:// or all https://"),
        ({"endpoints": ("https://a",), "cert_file": Path("a.crt")}, "both its certificate file and its key file"),
        ({"endpoints": ("http://a",), "ca_file": Path("ca.crt")}, "plain HTTP"),
        ({"endpoints": ("http://a",), "password": "secret"}, "needs a user"),
    ],
)
def test_unusable_settings_are_named(settings, text):
    with pytest.raises(EtcdError) as caught:
        parse_endpoints(EtcdSettings(**settings))
    assert text in str(caught.value)
    assert "secret" not in str(caught.value)
