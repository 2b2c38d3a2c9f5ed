"""The paths and links of proxied requests."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.proxying.urls import Links, join_path, split_path

PROXY = "/api/v1/namespaces/default/pods/web/proxy"


@pytest.mark.parametrize(
    ("path", "rest", "behind", "forwarded"),
    [
        (PROXY, "", "", PROXY),
        (f"{PROXY}/", "", "/", f"{PROXY}/"),
        (f"{PROXY}/a/b", "a/b", "/a/b", f"{PROXY}/a/b"),
        (f"{PROXY}/a/b/", "a/b", "/a/b/", f"{PROXY}/a/b/"),
        (f"{PROXY}/../..", "../..", "/", f"{PROXY}/../../"),
    ],
)
def test_a_path_is_split_at_the_proxy(path, rest, behind, forwarded):
    split = split_path(path, rest)
    assert split.path == behind
    if ".." not in path:
        assert (split.prefix, split.forwarded_uri) == (PROXY, forwarded)


def test_paths_are_cleaned_and_escaped():
    assert join_path("//a", "../b//c/") == "/b/c"
    assert join_path("") == ""
    assert split_path("/x/a b", "a b").escaped(b"q=%20&q") == "/a%20b?q=%20&q"
    assert split_path("/x/(é)", "(é)").escaped("é #".encode()) == "/%28%C3%A9%29?%C3%A9%20#"
    assert split_path("/x", "").escaped(b"") == "/"
    assert split_path("/x", "").with_slash(b"a=1") == "/x/?a=1"
    assert split_path("/x/a\r\nb/", "a\r\nb").forwarded_uri == "/x/a%0D%0Ab/"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("/a", f"{PROXY}/a"),
        ("/a/?b=c#d", f"{PROXY}/a/?b=c#d"),
        ("/", f"{PROXY}/"),
        ("http://10.244.1.5:80/a", f"{PROXY}/a"),
        ("https://localhost:8001/a", f"https://localhost:8001{PROXY}/a"),
        (f"{PROXY}/a", f"{PROXY}/a"),
        (f"http://10.244.1.5:80{PROXY}/a", f"{PROXY}/a"),
        ("a/b", "a/b"),
        ("?x", "?x"),
        ("#top", "#top"),
        ("", ""),
        ("//elsewhere/a", "//elsewhere/a"),
        ("http://elsewhere/a", "http://elsewhere/a"),
        ("http://10.244.1.5:80", "http://10.244.1.5:80"),
        ("mailto:a@b", "mailto:a@b"),
        ("http://[broken/a", "http://[broken/a"),
    ],
)
def test_links_to_the_same_server_get_the_prefix(url, expected):
    assert Links(PROXY, "10.244.1.5:80", "localhost:8001").rewrite(url) == expected
