"""Links in pages that pass through the proxy."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.proxying.html import MAX_TAG_BYTES, LinkRewriter


def rewrite(url: str) -> str:
    return f"/p{url}" if url.startswith("/") else url


def rewritten(*pieces: bytes) -> bytes:
    rewriter = LinkRewriter(rewrite)
    return b"".join(rewriter.feed(piece) for piece in pieces) + rewriter.close()


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        (b'<a href="/x">y</a>', b'<a href="/p/x">y</a>'),
        (b"<A HREF='/x' id=b>", b"<A HREF='/p/x' id=b>"),
        (b"<a href=/x>y", b'<a href="/p/x">y'),
        (b'<img src = "/x" longdesc="/y" alt="/z"/>', b'<img src = "/p/x" longdesc="/p/y" alt="/z"/>'),
        (b'<form method=post action="/x">', b'<form method=post action="/p/x">'),
        (b'<a href="/x?a=1&amp;b=%22">', b'<a href="/p/x?a=1&amp;b=%22">'),
        ('<a href="/é">'.encode(), '<a href="/p/é">'.encode()),
        (b'<a href="x">', b'<a href="x">'),
        (b"<a href>", b"<a href>"),
        (b'<a = href="/x">', b'<a = href="/p/x">'),
        (b'<a title="a > b" href="/x">', b'<a title="a > b" href="/p/x">'),
        (b'<p href="/x">', b'<p href="/x">'),
        (b'<!-- <a href="/x"> --><a href="/y">', b'<!-- <a href="/x"> --><a href="/p/y">'),
        (b'<!DOCTYPE html><html><a href="/y">', b'<!DOCTYPE html><html><a href="/p/y">'),
        (b'<script src="/s">a<b; "<a href=\'/x\'>"</script><a href="/y">',
         b'<script src="/p/s">a<b; "<a href=\'/x\'>"</script><a href="/p/y">'),
        (b'<title><a href="/x"></TITLE ><a href="/y">', b'<title><a href="/x"></TITLE ><a href="/p/y">'),
        (b'<style></style><a href="/y">', b'<style></style><a href="/p/y">'),
        (b'<plaintext><a href="/x"></plaintext>', b'<plaintext><a href="/x"></plaintext>'),
        (b'1 < 2 <a href="/x">', b'1 < 2 <a href="/p/x">'),
        (b'<?php ?><a href="/x">', b'<?php ?><a href="/p/x">'),
        (b'<a href="/unfinished', b'<a href="/unfinished'),
        (b"text <", b"text <"),
        (b"<script>text <", b"<script>text <"),
        (b'<script>if (a</b/.test(c)) d', b'<script>if (a</b/.test(c)) d'),
        (b"<!-- open", b"<!-- open"),
        (b"<", b"<"),
        (b"<!", b"<!"),
        (b"<a", b"<a"),
    ],
)  # fmt: skip
def test_links_are_rewritten_wherever_the_page_is_split(page, expected):
    assert rewritten(page) == expected
    assert rewritten(*(page[i : i + 1] for i in range(len(page)))) == expected
    for i in range(len(page)):
        assert rewritten(page[:i], page[i:]) == expected


@given(st.lists(st.text(alphabet="<>/!-='\" abhrefscriptx&;?").map(str.encode), max_size=6))
def test_any_split_of_a_page_gives_the_same_result(pieces):
    assert rewritten(*pieces) == rewritten(b"".join(pieces))


@given(st.binary(max_size=200))
def test_a_page_without_links_stays_as_it_is(page):
    rewriter = LinkRewriter(lambda url: url)
    assert rewriter.feed(page) + rewriter.close() == page


def test_a_page_in_small_pieces_costs_no_more_than_a_whole_one():
    """A page of a hostile pod: a tag with thousands of attributes that comes byte by byte."""
    calls = 0

    def count(url: str) -> str:
        nonlocal calls
        calls += 1
        return url

    page = b"<a " + b"href='>' " * 5_000 + b">"
    rewriter = LinkRewriter(count)
    passed = b"".join(rewriter.feed(page[i : i + 1]) for i in range(len(page)))
    assert passed + rewriter.close() == page
    assert calls < 4 * 5_000


def test_a_tag_without_an_end_does_not_fill_the_memory():
    rewriter = LinkRewriter(rewrite)
    passed = sum(len(rewriter.feed(b"<a " + b"x" * 10_000)) for _ in range(20))
    assert passed > 20 * 10_000 - MAX_TAG_BYTES
