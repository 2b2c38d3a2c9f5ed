"""Checks of the built site: links inside of it, and what its pages load.

    python -m documentation.built_pages build/site

mkdocs checks links between pages. This module reads the finished files: also links of the theme, anchors of generated
headings, and addresses in stylesheets and scripts. A page may link to other sites; it must not load anything from them.
"""

from __future__ import annotations

import posixpath
import re
import sys
from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Attributes by which a browser loads something, by element. A link loads its address only for some relations.
_LOADS: Mapping[str, tuple[str, ...]] = {
    "audio": ("src",),
    "embed": ("src",),
    "iframe": ("src",),
    "img": ("src", "srcset"),
    "input": ("src",),
    "link": ("href",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "track": ("src",),
    "video": ("src", "poster"),
}
_NOT_LOADED = {"author", "canonical", "license", "next", "prev", "help", "alternate"}
_IN_STYLES = re.compile(r"""(?:@import\s+(?!url)|url\(\s*)["']?([^"')\s]+)""")
# Addresses that the theme's scripts contain, and what keeps them from being loaded.
_SCRIPTS: Mapping[str, str] = {
    "unpkg.com": "diagrams; a page with one is refused below",
    "api.github.com": "numbers of stars, with repo_url only",
    "gitlab.com": "the same",
    "bit.ly": "in the text of a warning",
}
_COMMENTED = "assets/javascripts/lunr"  # languages of the search: their addresses are in comments
_ADDRESS = re.compile(r"https?://([\w.-]+)")
# Addresses in licenses and names of XML, which nothing loads.
_NAMES = re.compile(r"https?://(?:www\.w3\.org/(?:2000/svg|1999/xhtml|1999/xlink|XML|2000/xmlns|1998/Math)[^\"'\s]*)")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


class _Page(HTMLParser):
    """The content of one page: names of anchors, links, addresses that it loads, diagrams."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "__top"}
        self.links: list[str] = []
        self.loads: list[str] = []
        self.has_diagram = False
        self._is_style = False
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attributes}
        self._is_style = tag == "style"
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        self.has_diagram |= "mermaid" in values.get("class", "").split()
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag == "link" and _NOT_LOADED & set(values.get("rel", "").split()):
            return
        for name in _LOADS.get(tag, ()):
            self.loads += [part.split()[0] for part in values.get(name, "").split(",") if part.strip()]
        self.loads += _IN_STYLES.findall(values.get("style", ""))

    def handle_data(self, data: str) -> None:
        if self._is_style:
            self.loads += _IN_STYLES.findall(data)


def problems(site: Path) -> list[str]:
    """Return what is wrong with a built site: broken links, and loads from elsewhere."""
    pages = {path.relative_to(site).as_posix(): _Page(path.read_text("utf-8")) for path in site.rglob("*.html")}
    if not pages:
        return [f"{site} has no pages"]
    found = [
        f"{name}: {problem}" for name, page in sorted(pages.items()) for problem in _of_page(name, page, pages, site)
    ]
    for path in sorted(site.rglob("*.css")):
        urls = filter(_is_elsewhere, _IN_STYLES.findall(path.read_text("utf-8")))
        found += [f"{path.relative_to(site)}: loads {url}" for url in urls]
    for path in sorted(site.rglob("*.js")):
        if not path.is_relative_to(site / _COMMENTED):
            text = _COMMENT.sub("", _NAMES.sub("", path.read_text("utf-8")))
            hosts = set(_ADDRESS.findall(text)) - _SCRIPTS.keys()
            found += [f"{path.relative_to(site)}: names {host}" for host in sorted(hosts)]
    return found


def _of_page(name: str, page: _Page, pages: Mapping[str, _Page], site: Path) -> Iterator[str]:
    yield from (f"loads {url}" for url in page.loads if _is_elsewhere(url))
    if page.has_diagram:
        yield "has a diagram, whose program would be loaded from elsewhere"
    if name == "404.html":  # its links are those of the site's root
        return
    for link in page.links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        target = (
            posixpath.normpath(posixpath.join(posixpath.dirname(name), unquote(parts.path))) if parts.path else name
        )
        if target in pages:
            if unquote(parts.fragment) not in pages[target].anchors:
                yield f"no anchor: {link}"
        elif not (site / target).exists() or (site / target).is_dir():
            yield f"no page: {link}"


def _is_elsewhere(url: str) -> bool:
    return bool(re.match(r"(?:[a-z]+:)?//", url)) or url.startswith(("http:", "https:", "ftp:"))


def main() -> int:
    site = Path(sys.argv[1])
    found = problems(site)
    for problem in found:
        sys.stderr.write(f"{problem}\n")
    if not found:
        pages = len(list(site.rglob("*.html")))
        sys.stdout.write(f"{site}: {pages} pages; their links lead to pages, and nothing is loaded from other hosts\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
