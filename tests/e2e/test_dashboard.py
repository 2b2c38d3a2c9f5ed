"""The dashboard of a lab, started by `up --dashboard`, in headless Chromium, and its end with the lab."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chromium import Page, chromium

from .conftest import BRIDGEHEAD, PATIENCE, Lab, Namespace, eventually, run

pytestmark = pytest.mark.needs("chromium")

READY = "document.querySelectorAll('.map-list .row').length > 2"


@pytest.fixture
def own_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab("dashboard", tmp_path_factory.mktemp("dashboard"))
    yield lab
    lab.stop()


async def shows(page: Page, text: str) -> None:
    await page.until(f"document.body.innerText.includes({text!r})", PATIENCE)


async def test_w51_a_lab_in_the_browser(own_lab: Lab, tmp_path: Path) -> None:
    lab = own_lab
    up = run(BRIDGEHEAD, *lab.argv("up", "--detach", "--nodes=1", "--no-balancer", "--dashboard")[1:])
    assert up.returncode == 0, up.stderr
    found = re.search(r"The dashboard is at (http://127\.0\.0\.1:\d+/)#token=[\w-]+", up.stdout)
    assert found, up.stdout
    address, base = found[0].removeprefix("The dashboard is at "), found[1]

    default = Namespace(lab, "default")
    default.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=1")
    default.kubectl("expose", "deployment", "web", "--port=80")
    default.kubectl("create", "service", "clusterip", "lonely", "--tcp=80")
    default.rolled_out("deployment/web")
    async with chromium() as browser, browser.page() as page:
        await page.show(1280, 800)
        await page.open(address)
        await page.until(READY, PATIENCE)
        default.kubectl("scale", "deployment", "web", "--replicas=2")
        await shows(page, "2/2")  # the map moves on scale

        cluster_ip = default.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
        loop = f"for i in $(seq 400); do curl -s -o /dev/null http://{cluster_ip}; sleep 0.05; done"
        lab.inside("sh", "-c", f"({loop}) >/dev/null 2>&1 &")
        await page.until("Number(document.querySelector('.map').dataset.moved) > 0", PATIENCE)

        await page.evaluate("location.hash = '#/services/default/web'")
        await shows(page, "Nothing is wrong with this Service.")
        await shows(page, f"{cluster_ip}:80/tcp")
        await page.until("document.querySelectorAll('.way .fan ul li').length === 2", PATIENCE)
        await shows(page, f"The DNS answers: {cluster_ip}")
        await page.until("document.querySelector('.rule')", PATIENCE)
        await page.until("document.querySelector('.chart')", PATIENCE)
        await page.evaluate("document.querySelector('.trace button').click()")
        await page.until("document.querySelectorAll('.steps li').length > 3", PATIENCE)
        await page.evaluate("[...document.querySelectorAll('button')].find(b => b.textContent === 'Show YAML').click()")
        await shows(page, "kind: Service")

        await page.evaluate("location.hash = '#/services/default/lonely'")
        await page.until("document.querySelector('.finding .verdict')", PATIENCE)
        await page.until("document.querySelector('.bar .state.broken')", PATIENCE)
        assert page.problems == []
        assert all(request.startswith((base, base.replace("http", "ws"))) for request in page.requests)

    lab.stop()
    eventually(lambda: not answers(base), message="the dashboard ends with its lab")


def answers(base: str) -> bool:
    try:
        urllib.request.urlopen(base, timeout=5).close()
    except (urllib.error.URLError, ConnectionError):
        return False
    return True
