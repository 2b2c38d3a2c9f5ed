"""The dashboard's page in headless Chromium: keys, languages, colours, a phone, hostile texts, axe-core's findings."""

import asyncio
import contextlib
from importlib.resources import files

import pytest

from bridgehead.insight.live.rows import EventRow
from bridgehead.insight.live.updates import Table
from tests.chromium import chromium

from .dashboard_world import HOSTILE, TOKEN, dashboard, small_cluster, with_ready

pytestmark = [pytest.mark.integration, pytest.mark.needs("chromium"), pytest.mark.slow]

VIEWS = {
    "": ".map-list .row",
    "services": ".services-list .row",
    "services/default/broken": ".finding",
    "services/default/web": ".way li",
    "nodes": ".row",
    "nodes/node1": ".rule",
    "pods/default/web-0": ".panels",
    "events": ".timeline li",
}
# The rules that a page breaks, each with the elements.
AXE = (
    "axe.run(document, {resultTypes: ['violations']})"
    ".then(r => r.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).join(' | ')))"
)


@contextlib.asynccontextmanager
async def opened(live, *, language="", token=TOKEN, scripts=()):
    """Yield a page of the dashboard of these rows, and the dashboard's address. The page must have no problem."""
    async with dashboard(live, language=language) as (_, port), chromium() as browser, browser.page(scripts) as page:
        await page.show(1280, 800)
        base = f"http://127.0.0.1:{port}/"
        await page.open(f"{base}#token={token}")
        yield page, base
        assert page.problems == []
        assert all(request.startswith((base, base.replace("http", "ws"))) for request in page.requests)


async def focus(page):
    return await page.evaluate(
        "document.activeElement.getAttribute('aria-label') || document.activeElement.textContent"
    )


async def test_everything_is_reached_by_the_keyboard_alone():
    async with opened(small_cluster()) as (page, _):
        await page.until("document.querySelectorAll('.map-list .row').length === 4")
        await page.press("Tab")
        assert await focus(page) == "Skip to content"
        await page.press("Enter")
        assert await page.evaluate("document.activeElement.id") == "main"
        await page.type("/")
        await page.until("document.activeElement.type === 'search'")
        await page.type("web")
        await page.until("document.querySelectorAll('.map-list .row').length === 1")
        await page.press("ArrowDown")
        await page.press("ArrowDown")
        await page.until("document.querySelector('.row.active')")
        await page.press("Enter")
        await page.until("location.hash === '#/services/default/web' && document.querySelector('.way li')")
        assert await page.evaluate("document.activeElement.id") == "main"
        await page.press("Escape")
        await page.until("location.hash === '#/services'")
        await page.type("gn")
        await page.until("location.hash === '#/nodes' && document.querySelectorAll('.row').length === 3")
        for _ in range(40):
            await page.press("Tab")
            if await page.evaluate("document.activeElement.getAttribute('role')") == "listbox":
                break
        await page.press("End")
        await page.press("Enter")
        await page.until("location.hash === '#/nodes/node3' && document.querySelector('.rule')")
        await page.type("/10.96.0.299")
        await page.until("document.querySelectorAll('.rule').length === 1")
        await page.press("Escape")
        await page.type("ge")
        await page.until("document.querySelector('.timeline li')")
        await page.type("?")
        await page.until("document.querySelector('dialog[open]')")
        await page.press("Escape")
        await page.until("!document.querySelector('dialog[open]')")


async def test_axe_finds_nothing_in_any_view_language_or_colours():
    axe = files("axe_core_python").joinpath("axe.min.js").read_text()
    async with opened(small_cluster()) as (page, _):
        await page.until("document.querySelectorAll('.map-list .row').length === 4")
        for language, dark, width in (("en", False, 1280), ("zh", True, 1280), ("en", True, 390)):
            await page.show(width, 800, dark=dark, phone=width < 500)
            await page.evaluate(f"localStorage.setItem('bridgehead-language', '{language}')")
            await page.evaluate("location.reload()")
            await page.until("typeof axe === 'undefined' && document.querySelector('main')")
            await page.evaluate(f"{axe}; 1")
            for view in VIEWS if language == "en" else ("", "services/default/broken"):
                ready = VIEWS[view]
                await page.evaluate(f"location.hash = '#/{view}'")
                await page.until(f"document.querySelector('{ready}')")
                assert await page.evaluate(AXE) == [], (view, language, dark, width)
                assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (view, width)


async def test_a_page_without_its_token_asks_for_it():
    async with opened(small_cluster(), token="x") as (page, _):
        await page.until("document.querySelector('.refused input')")
        page.problems.clear()  # the console names the refused request
        await page.evaluate(f"{(files('axe_core_python') / 'axe.min.js').read_text()}; 1")
        assert await page.evaluate(AXE) == []
        await page.evaluate("document.querySelector('.refused input').focus()")
        await page.type(TOKEN)
        await page.press("Enter")
        await page.until("document.querySelectorAll('.map-list .row').length === 4")
        assert TOKEN not in await page.evaluate("location.href")
        page.problems.clear()


async def test_changes_move_the_map_and_connections_move_on_it():
    live = small_cluster()
    async with opened(live) as (page, _):
        await page.until("document.querySelectorAll('.map-list .row').length === 4")
        assert "token" not in await page.evaluate("location.href")
        live.put(Table.SERVICES, with_ready(live.rows[Table.SERVICES]["default/web"], 1))
        await page.until("document.querySelector('.map-list').textContent.includes('1/3')")
        live.add_service("new")
        await page.until("document.querySelectorAll('.map-list .row').length === 5")
        live.remove(Table.SERVICES, "default/new")
        await page.until("document.querySelectorAll('.map-list .row').length === 4")
        await page.until("Number(document.querySelector('.map').dataset.moved) > 0")


async def test_languages_and_colours():
    async with opened(small_cluster(), language="zh") as (page, _):
        await page.until("document.querySelector('.map-list .row')")
        assert await page.evaluate("document.documentElement.lang") == "zh-CN"
        assert "节点" in await page.evaluate("document.querySelector('nav').textContent")
        await page.evaluate(
            "(() => { const s = document.querySelector('select'); s.value = 'en';"
            " s.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )
        await page.until("document.querySelector('nav').textContent.includes('Nodes')")
        light = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        await page.show(1280, 800, dark=True)
        dark = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert light != dark
        await page.evaluate(
            "(() => { const s = document.querySelectorAll('select')[1]; s.value = 'light';"
            " s.dispatchEvent(new Event('change', {bubbles: true})); })()"
        )
        await page.until(f"getComputedStyle(document.body).backgroundColor === '{light}'")


async def test_hostile_texts_are_shown_as_text():
    live = small_cluster()
    live.add_service(HOSTILE)
    live.add_service("x" * 253, "y" * 63)
    live.put(
        Table.EVENTS,
        EventRow(
            key="default/e2", namespace="default", type="Warning", reason=HOSTILE, object=f"Service/{HOSTILE}",
            message=HOSTILE * 10, count=1, source=HOSTILE, last=1.0,
        ),
    )  # fmt: skip
    watch = "window.alerts = []; window.alert = text => window.alerts.push(text)"
    async with opened(live, scripts=(watch,)) as (page, _):
        await page.until("document.querySelector('.map-list').textContent.includes('onerror=alert(1)')")
        for view in ("services", "events", "services/default/web", f"services/default/{'%3Cimg%20src=x%3E'}"):
            await page.evaluate(f"location.hash = '#/{view}'")
            await page.until("document.querySelector('.page')")
            await asyncio.sleep(0)
        await page.evaluate("location.hash = '#/services/default/web'")
        await page.until("[...document.querySelectorAll('button')].some(b => b.textContent === 'Show YAML')")
        await page.evaluate("[...document.querySelectorAll('button')].find(b => b.textContent === 'Show YAML').click()")
        await page.until("document.querySelector('pre').textContent.includes('<script>')")
        assert await page.evaluate("window.alerts") == []
        assert await page.evaluate("document.querySelectorAll('script, img').length") == 2  # the page's own
        await page.show(390, 800, phone=True)
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
