from __future__ import annotations

import pytest

from bridgehead.forwarding.published import MOST, Published, parse_all_published, parse_published
from bridgehead.objects.meta import ObjectKey


@pytest.mark.parametrize(
    ("text", "published", "shown"),
    [
        (
            "8080:80/web",
            Published(8080, 80, ObjectKey("default", "web"), "TCP"),
            "tcp 8080 -> service/web of default, port 80",
        ),
        ("30080:30080", Published(30080, 30080, None, "TCP"), "tcp 30080 -> node port 30080"),
        (
            "udp:5353:53/kube-dns.kube-system",
            Published(5353, 53, ObjectKey("kube-system", "kube-dns"), "UDP"),
            "udp 5353 -> service/kube-dns of kube-system, port 53",
        ),
    ],
)
def test_forms(text: str, published: Published, shown: str):
    assert parse_published(text) == published
    assert str(published) == shown


@pytest.mark.parametrize(
    "text",
    [
        *("", "80", "80:", ":80", "0:80", "80:65536", "a:b", "1:2:3", "sctp:1:2", "٣:4"),
        *("80:80/", "80:80/Web", "80:80/web.", "80:80/web.a.b", "80:80/web/udp"),
    ],
)
def test_other_texts_are_refused(text: str):
    with pytest.raises(ValueError, match="is not"):
        parse_published(text)


def test_the_ports_of_a_lab_are_bounded_and_different():
    assert len(parse_all_published(["53:53/a", "udp:53:53/a"])) == 2
    with pytest.raises(ValueError, match="TCP port 80 is published twice"):
        parse_all_published(["80:80/a", "80:81/a"])
    with pytest.raises(ValueError, match=f"a lab publishes {MOST} at most"):
        parse_all_published([f"{number}:80/a" for number in range(1, MOST + 2)])
