import pytest

from bridgehead.testing.targets import Url, parse_address, parse_url


@pytest.mark.parametrize(
    ("target", "address"),
    [("web:80", ("web", 80)), ("web.shop:8080", ("web.shop", 8080)), ("[fd00::1]:80", ("fd00::1", 80))],
)
def test_addresses(target, address):
    assert parse_address(target) == address


@pytest.mark.parametrize("target", ["web", "web:", "web:http", "web:80/path", ":80", "web:99999", ""])
def test_what_is_no_address(target):
    with pytest.raises(ValueError, match=r"not HOST:PORT|[Pp]ort"):
        parse_address(target)


def test_a_url_is_for_requests():
    with pytest.raises(ValueError, match=r"connect\.http"):
        parse_address("http://web:80")


@pytest.mark.parametrize(
    ("url", "parsed"),
    [
        ("http://web", Url(False, "web", 80, "web", "/")),
        ("http://web:8080/a?b=c#d", Url(False, "web", 8080, "web:8080", "/a?b=c")),
        ("https://user@web.shop/x", Url(True, "web.shop", 443, "web.shop", "/x")),
        ("http://[fd00::1]:81/", Url(False, "fd00::1", 81, "[fd00::1]:81", "/")),
    ],
)
def test_urls(url, parsed):
    assert parse_url(url) == parsed


@pytest.mark.parametrize("url", ["web:80", "ftp://web/", "http:///path"])
def test_what_is_no_url(url):
    with pytest.raises(ValueError, match="not a URL"):
        parse_url(url)
