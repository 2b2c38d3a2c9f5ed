"""Hooks of mkdocs: the pages of the site are the documentation's files where they are.

A page keeps its path in the repository, so that links between pages are what they are on GitHub. A link may lead to a
file that is no Markdown, or to a directory: such a file becomes a page with its text, and a directory one with its
files, unless it has a README.md. What is linked from a page is in the site, and what is linked from there.
"""

from __future__ import annotations

import logging
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from documentation.markdown import for_python_markdown

log = logging.getLogger("mkdocs.hooks.site")

ROOT = Path(__file__).resolve().parent.parent
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^()\s#]+)")
_IMAGES = {".png", ".svg", ".gif", ".jpg", ".webp"}
_LANGUAGES = {".py": "python", ".yaml": "yaml", ".yml": "yaml", ".sh": "sh", ".json": "json", ".toml": "toml"}
_CODE = re.compile(r"(?P<fence>^ *```.*?^ *```)|(?P<code>`[^`\n]*`)", re.DOTALL | re.MULTILINE)
_NOT_SEARCHED = "---\nsearch:\n  exclude: true\n---\n\n"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Replace patterns of the navigation by the files that they match."""
    config.nav = list(_expanded(config.nav or []))
    return config


def _expanded(entries: list[Any]) -> Iterator[Any]:
    for entry in entries:
        if isinstance(entry, str):
            yield from _matching(entry)
            continue
        [(title, content)] = entry.items()
        if isinstance(content, list):
            if inner := list(_expanded(content)):
                yield {title: inner}
        elif "*" not in content:
            yield {title: content}
        elif pages := _matching(content):
            yield {title: pages}


def _matching(path: str) -> list[str]:
    if "*" not in path:
        return [path]
    return sorted(found.relative_to(ROOT).as_posix() for found in ROOT.glob(path))


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Return the theme's files and those of the documentation."""
    found: dict[str, File] = {
        file.src_uri: file for file in files if file.src_dir != config.docs_dir and file.src_uri != "README.md"
    }
    waiting = [*_starts(config), "documentation/site.css"]
    while waiting:
        path = waiting.pop()
        uri = _page_uri(path)
        if uri in found or not (ROOT / path).exists():
            continue
        found[uri] = _file(path, uri, config)
        if (ROOT / path).is_dir():
            waiting += (each.relative_to(ROOT).as_posix() for each in (ROOT / path).glob("*.md"))
        elif uri == path and path.endswith(".md"):
            waiting += _links(path)
    return Files([found[uri] for uri in sorted(found)])


def _starts(config: MkDocsConfig) -> Iterator[str]:
    """Yield the pages of docs/ and those of the navigation."""
    yield from (path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md"))
    stack: list[Any] = [config.nav]
    while stack:
        entry = stack.pop()
        if isinstance(entry, str):
            yield entry
        else:
            stack += entry if isinstance(entry, list) else entry.values()


def _links(page: str) -> Iterator[str]:
    """Yield the files of the repository to which a page links."""
    text = _CODE.sub("", (ROOT / page).read_text("utf-8"))
    for link in _LINK.findall(text):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(page), link))
        if path.startswith(".."):
            log.warning("%s links to %s, which is not in the repository", page, link)
        else:
            yield _target(path)


def _target(path: str) -> str:
    """Return the file that shows a path: a directory's README.md, if it has one."""
    readme = posixpath.join(path, "README.md")
    return readme if (ROOT / readme).exists() else path


def _page_uri(path: str) -> str:
    """Return the name of a file in the site."""
    if (ROOT / path).is_dir():
        return f"{path}/files-of-this-directory.md"
    is_itself = path.endswith((".md", ".css")) or Path(path).suffix in _IMAGES
    return path if is_itself else f"{path}.source.md"


def _file(path: str, uri: str, config: MkDocsConfig) -> File:
    if uri == path:
        return File(path, str(ROOT), config.site_dir, config.use_directory_urls)
    if (ROOT / path).is_dir():
        # Hidden files are tools' caches.
        names = sorted(each.name for each in (ROOT / path).iterdir() if not each.name.startswith((".", "__")))
        listed = [f"- [{name}]({name})" if name.endswith(".md") else f"- `{name}`" for name in names]
        text = f"# {path}\n\n" + "\n".join(listed) + "\n"
    else:
        source = (ROOT / path).read_text("utf-8")
        language = _LANGUAGES.get(Path(path).suffix, "text")
        text = f"{_NOT_SEARCHED}# {path}\n\n``````{language}\n{source}\n``````\n"
    return File.generated(config, uri, content=text)


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links to what shows their files here, and write lists as Python's Markdown reads them."""
    directory = posixpath.dirname(page.file.src_uri)

    def in_site(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(directory, match[1]))
        uri = _page_uri(_target(path))
        return posixpath.relpath(uri, directory or ".") if uri in files.src_uris else match[1]

    if page.file.src_uri.endswith((".source.md", "/files-of-this-directory.md")):
        return markdown
    position, parts = 0, []
    for code in _CODE.finditer(markdown):
        parts += [_LINK.sub(in_site, markdown[position : code.start()]), code[0]]
        position = code.end()
    parts.append(_LINK.sub(in_site, markdown[position:]))
    return for_python_markdown("".join(parts))


def on_page_content(html: str, **_: Any) -> str:
    """Show `|` in code of tables without the backslash that GitHub needs before it."""
    return re.sub(
        r"<td.*?</td>", lambda cell: re.sub(r"<code>.*?</code>", _without_escapes, cell[0]), html, flags=re.DOTALL
    )


def _without_escapes(code: re.Match[str]) -> str:
    return code[0].replace("\\|", "|")
