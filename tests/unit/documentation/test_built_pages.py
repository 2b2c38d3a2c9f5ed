"""Each check of the built site finds what it is for."""

from __future__ import annotations

from pathlib import Path

import pytest
from documentation.built_pages import problems


def site(directory: Path, **files: str) -> Path:
    """Write files; `a_html` is a.html, and a page unless it begins with `<`."""
    for name, text in files.items():
        (directory / name.replace("_", ".")).write_text(text, "utf-8")
    return directory


def test_a_sound_site_has_no_problems(tmp_path: Path) -> None:
    a = '<h1 id="x">A</h1><a href="b.html#y">b</a><a href="https://example.com">out</a><a href="#x">x</a>'
    b = '<a name="y"></a><a href="a.html">a</a><link rel="canonical" href="https://example.com/b"><img src="b.svg">'
    files = {"a_html": a, "b_html": b, "b_svg": "", "c_css": "p {background: url(b.svg)}", "d_js": 'fetch("/x")'}
    assert problems(site(tmp_path, **files)) == []


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, "has no pages"),
        ({"a_html": '<a href="c.html">c</a>'}, "a.html: no page: c.html"),
        ({"a_html": '<a href="..">c</a>'}, "a.html: no page: .."),
        ({"a_html": '<a href="#c">c</a>'}, "a.html: no anchor: #c"),
        ({"a_html": '<a href="b.html#c">c</a>', "b_html": ""}, "a.html: no anchor: b.html#c"),
        ({"a_html": '<script src="https://cdn.example/x.js">'}, "a.html: loads https://cdn.example/x.js"),
        ({"a_html": '<link rel="stylesheet" href="//fonts.example/x">'}, "a.html: loads //fonts.example/x"),
        ({"a_html": '<link rel="preconnect" href="https://fonts.example">'}, "a.html: loads https://fonts.example"),
        ({"a_html": '<img srcset="a.png, https://i.example/b.png 2x">'}, "a.html: loads https://i.example/b.png"),
        ({"a_html": "<style>@import 'https://c.example/x.css'</style>"}, "a.html: loads https://c.example/x.css"),
        ({"a_html": '<p style="background: url(//c.example/x)">'}, "a.html: loads //c.example/x"),
        ({"a_html": '<pre class="mermaid">'}, "a.html: has a diagram, whose program would be loaded from elsewhere"),
        ({"a_html": "", "a_css": "@import url('https://c.example/x')"}, "a.css: loads https://c.example/x"),
        ({"a_html": "", "a_js": 'load("https://c.example/x")'}, "a.js: names c.example"),
    ],
)
def test_a_problem_is_found(tmp_path: Path, files: dict[str, str], problem: str) -> None:
    [found] = problems(site(tmp_path, **files))
    assert found.endswith(problem)
