"""The site: mkdocs builds it, its links lead to pages, and a browser loads nothing from elsewhere."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import http.server
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from documentation.built_pages import problems

from tests import tools
from tests.chromium import Page, chromium

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The finished files."""
    if importlib.util.find_spec("mkdocs") is None:
        text = "mkdocs is missing (scripts/prepare-venv --site)"
        pytest.fail(text, pytrace=False) if tools.is_strict() else pytest.skip(text)
    directory = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        (sys.executable, "-m", "mkdocs", "build", "--site-dir", directory),
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    assert "WARNING" not in built.stderr
    return directory


def test_links_lead_to_pages_and_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    assert problems(site) == []


@pytest.mark.parametrize(
    "page",
    [
        "index.html",
        "docs/how-to/index.html",
        "docs/reference/commands.html",
        "docs/compatibility.html",
        "docs/comparison.html",
        "docs/decisions/0001-routed-pods.html",
        "docs/troubleshooting.html",
        "src/bridgehead/proxy/index.html",
    ],
)
def test_a_page_is_in_the_site(site: Path, page: str) -> None:
    assert (site / page).exists()


def test_lists_and_code_within_their_items_are_what_they_are_on_github(site: Path) -> None:
    recipe = (site / "docs" / "recipes" / "add-an-option.html").read_text("utf-8")
    content = recipe.partition("<article")[2]
    assert content.count("<li>") == 5
    assert "highlight" in content.partition("<li>")[2].partition("</li>")[0]


def test_bars_in_code_of_tables_have_no_backslash(site: Path) -> None:
    assert r"\|" not in (site / "docs" / "reference" / "commands.html").read_text("utf-8").partition("<article")[2]


# --- In a browser -------------------------------------------------------------------------------------------------


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site on a port of the loopback."""
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextlib.asynccontextmanager
async def opened(url: str, width: int = 1280) -> AsyncIterator[Page]:
    tools.require("chromium")
    async with chromium() as browser, browser.page() as page:
        await page.show(width, 900, phone=width < 600)
        await page.open(url)
        await page.until("document.readyState === 'complete' && document.querySelector('.md-search__input')")
        yield page


async def search(page: Page, text: str) -> None:
    """Type a text into the search field, as the page's script sees it."""
    await page.evaluate(
        "(() => { const field = document.querySelector('.md-search__input');"
        "document.querySelector('#__search').checked = true; field.focus();"
        f"field.value = {text!r}; field.dispatchEvent(new Event('input', {{bubbles: true}}));"
        "field.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true})); })()"
    )


async def test_a_browser_loads_only_the_site_and_the_search_finds_both_languages(address: str) -> None:
    async with opened(f"{address}/index.html") as page:
        for text, found in (("NothingListens", "troubleshooting"), ("负载均衡", "tutorials/zh")):
            await search(page, text)
            await page.until(f"document.querySelector('.md-search-result__link[href*=\"{found}\"]')")
        assert page.problems == []
        assert [url for url in page.requests if not url.startswith((address, "data:", "blob:"))] == []


@pytest.mark.parametrize("path", ["index.html", "docs/reference/commands.html", "docs/comparison.html"])
async def test_no_page_is_wider_than_a_phone(address: str, path: str) -> None:
    async with opened(f"{address}/{path}", width=390) as page:
        await asyncio.sleep(0)
        assert await page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
