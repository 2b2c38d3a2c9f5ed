"""`bridgehead up --publish`: ports of this machine that lead to Services, as a part of the lab."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Iterator

import pytest

from tests.chromium import chromium

from .conftest import BRIDGEHEAD, PATIENCE, Lab, Namespace, eventually, run
from .test_open import WEB, free_port


@pytest.fixture
def own_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab("publish", tmp_path_factory.mktemp("publish"))
    yield lab
    lab.stop()


def answer(port: int) -> str:
    return run("curl", "-sS", "--max-time", 5, f"http://127.0.0.1:{port}/").stdout


def is_closed(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except ConnectionRefusedError:
        return True
    return False


def forwarder(lab: Lab) -> int:
    """The PID of the part, as the lab's processes see it; 0: it does not run."""
    lines = lab.command("status").stdout.splitlines()
    (line,) = (line.split() for line in lines if line.startswith("forwarder"))
    return int(line[1]) if line[1].isdigit() else 0


@pytest.mark.needs("chromium")
async def test_w55_published_ports_lead_to_services_while_the_lab_runs(own_lab: Lab):
    lab = own_lab
    web, node_port, dns = free_port(), free_port(), free_port()
    published = (
        f"--publish={web}:80/web",
        f"--publish={node_port}:31080",
        f"--publish=udp:{dns}:53/kube-dns.kube-system",
    )
    lab.start("--nodes=1", "--no-balancer", *published)
    default = Namespace(lab, "default")
    default.apply(WEB.replace("ports: [{port: 80}]", "ports: [{port: 80, nodePort: 31080}]"))
    default.ready("web")
    await asyncio.to_thread(default.programmed, "web")
    for port in (web, node_port):
        eventually(lambda port=port: "Welcome to nginx" in answer(port))
    async with chromium() as browser, browser.page() as page:
        await page.open(f"http://127.0.0.1:{web}/")
        await page.until("document.body.innerText.includes('Welcome to nginx')", PATIENCE)
    query = ("dig", "+short", "@127.0.0.1", "-p", dns, "web.default.svc.cluster.local")
    eventually(lambda: run(*query).stdout.strip() == default.cluster_ip("web"))

    before = forwarder(lab)
    assert lab.inside("kill", "-9", before).returncode == 0
    assert "Welcome to nginx" in answer(web)  # the connection waits for the part's restart
    eventually(lambda: forwarder(lab) not in (0, before))

    lab.stop()
    assert is_closed(web)
    lab.start()  # as in the previous run
    eventually(lambda: "Welcome to nginx" in answer(web))
    os.kill(first_process(lab), signal.SIGKILL)
    eventually(lambda: is_closed(web), message="nothing is left after a kill")


def first_process(lab: Lab) -> int:
    from bridgehead.lab import state_directories
    from bridgehead.lab.plan import LabFiles

    return state_directories.read_running(LabFiles(lab.state_dir)).init_pid


def test_bad_input_is_one_line_and_starts_no_lab(own_lab: Lab):
    def refused(*texts: str) -> str:
        up = run(BRIDGEHEAD, *own_lab.argv("up", "--detach", *(f"--publish={text}" for text in texts))[1:])
        assert up.returncode == 1
        assert up.stdout == ""
        [line] = up.stderr.splitlines()
        assert "not running" in run(BRIDGEHEAD, *own_lab.argv("status")[1:]).stderr or not own_lab.state_dir.exists()
        return line

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} of 127.0.0.1 (TCP): it is taken by another program" in refused(f"{port}:80/web")
    assert "is not [udp:]LOCAL:PORT[/SERVICE[.NAMESPACE]]" in refused("80/web")
    assert "is published twice" in refused("8080:80/web", "8080:81/web")
