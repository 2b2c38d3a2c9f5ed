"""`bridgehead tunnel`: a SOCKS5 and HTTP proxy of this machine into a lab."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator

import pytest

from tests.chromium import chromium

from .conftest import PATIENCE, Lab, Namespace, run, running
from .test_open import WEB


@pytest.fixture
def web(ns: Namespace) -> Namespace:
    ns.apply(WEB)
    ns.ready("web")
    ns.programmed("web")
    return ns


@contextlib.contextmanager
def tunnel(lab: Lab, *arguments: object) -> Iterator[str]:
    """Run the command during the block; the address that it prints."""
    argv = lab.argv("tunnel", *arguments)
    with running(*argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()


def curl(proxy: str, url: str) -> str:
    done = run("curl", "-sS", "--max-time", 30, "--noproxy", "", "--proxy", proxy, url)
    return done.stdout + done.stderr


def test_names_and_addresses_by_both_protocols(web: Namespace):
    name, address = f"web.{web.name}", web.cluster_ip("web")
    with tunnel(web.lab) as socks:
        http = socks.replace("socks5h", "http")
        for proxy in (socks, http):
            for host in (name, f"{name}.svc.cluster.local", address, f"10.0.0.201:{node_port(web)}"):
                assert "Welcome to nginx" in curl(proxy, f"http://{host}/"), (proxy, host)
        # TLS goes through CONNECT: the API server's certificate is not one that curl knows.
        assert "certificate" in curl(http, "https://kubernetes.default/")
        assert "certificate" in curl(socks, "https://kubernetes.default/")


def node_port(web: Namespace) -> int:
    port: int = web.get("services", "web")["spec"]["ports"][0]["nodePort"]
    return port


def test_nothing_but_the_lab_is_reached(web: Namespace):
    with socket.create_server(("127.0.0.1", 0)) as own, tunnel(web.lab) as socks:
        http = socks.replace("socks5h", "http")
        port = own.getsockname()[1]
        assert "is this machine itself; the tunnel leads to addresses of the lab" in curl(
            http, f"http://127.0.0.1:{port}/"
        )
        assert "is this machine itself; the tunnel leads to names of the lab" in curl(http, f"http://localhost:{port}/")
        assert "this is a proxy" in run("curl", "-sS", "--noproxy", "*", http).stdout
        assert "the lab has no name www.example.org" in curl(http, "http://www.example.org/")
        assert "HTTP/1.1" not in curl(socks, "http://www.example.org/")
        refused = curl(http, f"http://{web.cluster_ip('web')}:81/")
        assert "refused" in refused
        own.settimeout(0)
        with pytest.raises(BlockingIOError):  # nobody has connected
            own.accept()


@pytest.mark.needs("chromium")
async def test_a_browser_shows_a_page_by_the_name_of_its_service(web: Namespace):
    with tunnel(web.lab) as socks:
        async with chromium(proxy=socks.replace("socks5h", "socks5")) as browser, browser.page() as page:
            await page.open(f"http://web.{web.name}.svc.cluster.local/")
            await page.until("document.body.innerText.includes('Welcome to nginx')", PATIENCE)


def test_two_tunnels_and_a_port_that_is_taken(lab: Lab):
    with tunnel(lab) as first, tunnel(lab) as second:
        assert first != second
        port = first.rpartition(":")[2]
        refused = lab.command("tunnel", "--port", port)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert refused.stderr == (
            f"bridgehead tunnel: port {port} of 127.0.0.1 (TCP): it is taken by another program\n"
        )
