"""Addresses of webhooks, and texts of failed calls."""

from __future__ import annotations

import base64

import pytest

from bridgehead.apiserver.webhookclient.errors import NotConfigured, describe_status
from bridgehead.apiserver.webhookclient.webhook_location import ClientConfig, ServiceReference, parse_client_config

SERVICE = {"namespace": "default", "name": "hook"}


@pytest.mark.parametrize(
    ("config", "url"),
    [
        ({"url": "https://a.b:8443/c/d"}, "https://a.b:8443/c/d"),
        ({"url": "https://a.b"}, "https://a.b/"),
        ({"service": SERVICE}, "https://hook.default.svc:443/"),
        ({"service": {**SERVICE, "port": 8443, "path": "/a b/c"}}, "https://hook.default.svc:8443/a%20b/c"),
    ],
)
def test_addresses(config, url):
    parsed = parse_client_config({**config, "caBundle": base64.b64encode(b"PEM").decode()})
    assert (parsed.url, parsed.ca_bundle) == (url, b"PEM")
    assert parsed.url_with_timeout(2.5) == f"{url}?timeout=3s"


def test_a_service_is_parsed_with_its_default_port():
    reference = ServiceReference("default", "hook", 443)
    assert parse_client_config({"service": SERVICE}) == ClientConfig("https://hook.default.svc:443/", reference)


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "must have either service or URL"),
        ({"url": "https://[a"}, "Unparsable URL"),
        ({"caBundle": "?", "url": "https://a"}, "unable to load root"),
    ],
)
def test_unusable_configurations(config, why):
    with pytest.raises(NotConfigured, match=why):
        parse_client_config({**config, **({"caBundle": "abc"} if "caBundle" in config else {})})


@pytest.mark.parametrize(
    ("code", "body", "text"),
    [
        (404, "x", "the server could not find the requested resource"),
        (403, "you may not", "you may not"),
        (403, "", "the server responded with the status code 403 but did not return more information"),
        (302, "", "the server responded with the status code 302 but did not return more information"),
        (500, 'a "b"\n', 'an error on the server ("a \\"b\\"") has prevented the request from succeeding'),
        (502, "", 'an error on the server ("unknown") has prevented the request from succeeding'),
    ],
)
def test_texts_of_refused_calls(code, body, text):
    assert describe_status(code, body) == text
