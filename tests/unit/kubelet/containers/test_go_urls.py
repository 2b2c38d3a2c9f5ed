"""Request targets of `httpGet`: as the pod's author wrote them. The expected texts are those of Go's net/url."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.kubelet.containers.go_urls import Url, parse_url, resolve, to_bytes_text, to_text, url_of_action

HOST = "10.244.1.2:80"


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("/healthz", "/healthz"),
        ("healthz", "/healthz"),
        ("", "/"),
        ("/", "/"),
        ("/a/../b", "/a/../b"),
        ("/a/./b//c/", "/a/./b//c/"),
        ("/%41%2f", "/%41%2f"),
        ("/a b", "/a%20b"),
        ("/é", "/%C3%A9"),
        ("/%C3%A9", "/%C3%A9"),
        ("/%ff", "/%ff"),
        ("/a!b*(c)'", "/a!b*(c)'"),
        ("/[x]", "/[x]"),
        ("/x?a=1&b=%41", "/x?a=1&b=%41"),
        ("/x?a b é", "/x?a b é"),
        ("/x?", "/x?"),
        ("/x??", "/x??"),
        ("?q=1", "/?q=1"),
        ("/x#fragment", "/x"),
        ("/x?q#fragment?", "/x?q"),
        ("#f", "/"),
        ("*", "/*"),
        ("/*", "/*"),
        ("//elsewhere/x", "/x"),
        ("//elsewhere:1/x", "/x"),
        ("//user@elsewhere", "/"),
        ("///x", "///x"),
        ("/a:b", "/a:b"),
        # Text that cannot be parsed is a path as a whole.
        ("/%zz", "/%25zz"),
        ("/%zz?q", "/%25zz%3Fq"),
        ("/%", "/%25"),
        ("/x#%zz", "/x%23%25zz"),
        ("1a:b", "/1a:b"),
        (":b?c", "/:b%3Fc"),
        ("/a\nb", "/a%0Ab"),
        ("/a?b\x7f", "/a%3Fb%7F"),
        ("//a b/c", "//a%20b/c"),
        ("//a:b/c", "//a:b/c"),
    ],
)
def test_the_request_target_is_as_it_was_written(path: str, target: str) -> None:
    url = url_of_action("http", HOST, to_bytes_text(path))

    assert to_text(url.request_target) == target
    assert (url.host, url.host_name, url.port) == (HOST, "10.244.1.2", 80)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/a/../b", "https://[fd00::1]:8443/a/../b"),
        ("x?", "https://[fd00::1]:8443/x?"),
        ("/x#a b", "https://[fd00::1]:8443/x#a%20b"),
        ("foo:bar", "https:bar"),
        ("http://elsewhere/x", "https://[fd00::1]:8443/x"),
    ],
)
def test_the_text_of_a_url(path: str, text: str) -> None:
    assert str(url_of_action("https", "[fd00::1]:8443", path)) == text


def test_hosts_ports_and_schemes() -> None:
    assert (parse_url("http://[fd00::1]/").host_name, parse_url("http://[fd00::1]/").port) == ("fd00::1", 80)
    assert parse_url("https://web/").port == 443
    assert parse_url("HTTP://web:8080").scheme == "http"
    with pytest.raises(ValueError, match="invalid port number: 70000"):
        _ = parse_url("http://web:70000").port


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("/b", "http://web:80/b"),
        ("b", "http://web:80/x/b"),
        ("../b/./c?q", "http://web:80/b/c?q"),
        ("../../..", "http://web:80/"),
        ("./", "http://web:80/x/"),
        ("", "http://web:80/x/y?old"),
        ("?new", "http://web:80/x/y?new"),
        ("#f", "http://web:80/x/y?old#f"),
        ("//other/z", "http://other/z"),
        ("https://web:443/a/../%62", "https://web:443/%62"),
        ("mailto:x", "mailto:x"),
        ("/a//b", "http://web:80/a//b"),
        ("//web", "http://web"),
    ],
)
def test_a_redirect_is_resolved(reference: str, found: str) -> None:
    assert str(resolve(parse_url("http://web:80/x/y?old"), parse_url(reference))) == found


@given(st.text())
def test_any_path_has_a_request_target_on_one_line(path: str) -> None:
    target = url_of_action("http", HOST, to_bytes_text(path)).request_target

    assert target.startswith("/") or to_bytes_text(path).lower() == path  # a URL without a host, such as mailto:x
    assert not any(character < " " or character == "\x7f" for character in target)


@given(st.text(alphabet="/abc.%-_~!$&'()*+,;=@0123456789ABCDEF:[]"))
def test_a_path_that_a_url_can_have_is_not_changed(path: str) -> None:
    try:
        parsed = parse_url(f"/x{path}")
    except ValueError:
        return
    assert parsed == Url(path=parsed.path, raw_path=parsed.raw_path)
    assert parsed.request_target == f"/x{path}"
