"""Links in HTML, rewritten while the page passes through.

Only the values of attributes that hold a URL change; all other bytes stay as they are. Pages are taken as UTF-8.
Pure: no I/O, no clock, no randomness.
Source: Kubernetes apimachinery `pkg/util/proxy/transport.go`; HTML Living Standard, "Tokenization".
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable

# Elements and their attributes that hold a URL.
_URL_ATTRIBUTES: dict[bytes, frozenset[bytes]] = {
    element.encode(): frozenset(attributes.encode().split())
    for element, attributes in {
        "a": "href",
        "applet": "codebase",
        "area": "href",
        "audio": "src",
        "base": "href",
        "blockquote": "cite",
        "body": "background",
        "button": "formaction",
        "command": "icon",
        "del": "cite",
        "embed": "src",
        "form": "action",
        "frame": "longdesc src",
        "head": "profile",
        "html": "manifest",
        "iframe": "longdesc src",
        "img": "longdesc src usemap",
        "input": "src usemap formaction",
        "ins": "cite",
        "link": "href",
        "object": "classid codebase data usemap",
        "q": "cite",
        "script": "src",
        "source": "src",
        "video": "poster src",
    }.items()
}
# The content of these elements is text, in which a "<" begins no tag.
_TEXT_ELEMENTS = frozenset(
    (b"iframe", b"noembed", b"noframes", b"noscript", b"plaintext", b"script", b"style", b"textarea", b"title", b"xmp")
)
# A tag or comment of more bytes passes unchanged, so that a page cannot fill the memory.
MAX_TAG_BYTES = 64 * 1024

_TAG_NAME = re.compile(rb"<([A-Za-z][^\s/>]*)")
_SEPARATORS = re.compile(rb"[\s/]*")
# Group 1 is the name; the value is group 2 ("..."), 3 ('...') or 4 (without quotes).
_ATTRIBUTE = re.compile(rb"([^\s/>=]+)(?:\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s>\"'][^\s>]*)))?")
# A value that is not complete yet.
_OPEN_VALUE = re.compile(rb"\s*=\s*(?:[\"'].*)?\Z", re.DOTALL)


class LinkRewriter:
    """Rewrites the links of one page. `rewrite` returns the new URL of a link."""

    def __init__(self, rewrite: Callable[[str], str]) -> None:
        self._rewrite = rewrite
        self._waiting = b""
        # The waiting bytes are read again when there are twice as many: small pieces cost no more than a whole page.
        self._next_look = 0
        self._text_element = b""  # the element whose text is being read

    def feed(self, data: bytes) -> bytes:
        """Return the next bytes of the page. A tag that is not complete yet waits for the rest."""
        page = self._waiting + data
        if len(page) < self._next_look:
            self._waiting = page
            return b""
        done: list[bytes] = []
        position = 0
        while position < len(page):
            if self._text_element:
                end = self._text_end(page, position)
            elif page[position] == 0x3C:
                end = self._take_markup(page, position, done)
                if end is not None:
                    position = end
                    continue
            else:
                end = page.find(b"<", position)
                end = len(page) if end < 0 else end
            if end is None:
                break
            done.append(page[position:end])
            position = end
        self._waiting = page[position:]
        if len(self._waiting) > MAX_TAG_BYTES:
            done.append(self._waiting)
            self._waiting = b""
        self._next_look = min(2 * len(self._waiting), MAX_TAG_BYTES + 1)
        return b"".join(done)

    def close(self) -> bytes:
        """Return what still waits at the end of the page."""
        self._next_look = 0
        done = self.feed(b"")
        rest, self._waiting = self._waiting, b""
        return done + rest

    def _text_end(self, page: bytes, position: int) -> int | None:
        """Return the end of the text that certainly belongs to the current text element; None if that is nothing."""
        if self._text_element == b"plaintext":
            return len(page)
        found = re.compile(rb"</" + re.escape(self._text_element) + rb"[\s/>]", re.IGNORECASE).search(page, position)
        if found is not None:
            self._text_element = b""
            return found.start() if found.start() > position else found.end()
        # The end tag may begin in these bytes.
        candidate = page.rfind(b"</", position)
        if candidate < 0:
            candidate = len(page) - 1 if page.endswith(b"<") else len(page)
        elif len(page) - candidate > len(self._text_element) + 2:
            candidate = len(page)
        return candidate if candidate > position else None

    def _take_markup(self, page: bytes, position: int, done: list[bytes]) -> int | None:
        """Append the markup that begins with the "<" at `position`; return its end, None if it is not complete."""
        if page.startswith(b"<!--", position):
            end = page.find(b"-->", position + 4)
            return None if end < 0 else _append(done, page[position : end + 3], end + 3)
        following = page[position + 1 : position + 2]
        if not following or (following == b"!" and len(page) - position < 4):
            return None
        named = _TAG_NAME.match(page, position)
        if named is None:
            # An end tag, a declaration, or a "<" in text.
            end = page.find(b">", position) if following in b"/!?" else position
            return None if end < 0 else _append(done, page[position : end + 1], end + 1)
        return self._take_tag(named, done)

    def _take_tag(self, named: re.Match[bytes], done: list[bytes]) -> int | None:
        """Append a start tag with its links rewritten; return its end, None if it is not complete.

        `named` is the match of its name.
        """
        page, start, name = named.string, named.start(), named.group(1).lower()
        links = _URL_ATTRIBUTES.get(name, frozenset())
        pieces: list[bytes] = []
        copied, position = start, named.end()
        while True:
            separators = _SEPARATORS.match(page, position)
            position = position if separators is None else separators.end()
            if position == len(page) or _OPEN_VALUE.match(page, position):
                return None
            if page[position] == 0x3E:
                break
            attribute = _ATTRIBUTE.match(page, position)
            if attribute is None:
                position += 1  # a stray "="
                continue
            position = attribute.end()
            if _OPEN_VALUE.match(page, position):
                return None
            if attribute.group(1).lower() in links and (value := self._new_value(attribute)) is not None:
                first, last = attribute.span(attribute.lastindex or 0)
                pieces += (page[copied:first], value)
                copied = last
        pieces.append(page[copied : position + 1])
        if name in _TEXT_ELEMENTS:
            self._text_element = name
        return _append(done, b"".join(pieces), position + 1)

    def _new_value(self, attribute: re.Match[bytes]) -> bytes | None:
        """Return the new value of an attribute with a link, escaped; None if it stays as it is."""
        group = attribute.lastindex or 0
        if group < 2:
            return None
        old = html.unescape(attribute.group(group).decode("utf-8", "surrogateescape"))
        new = self._rewrite(old)
        if new == old:
            return None
        value = html.escape(new).encode("utf-8", "surrogateescape")
        return b'"%b"' % value if group == 4 else value


def _append(done: list[bytes], markup: bytes, end: int) -> int:
    done.append(markup)
    return end
