"""`bridgehead open`: from this machine's loopback to a Service, through its rules."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator

import pytest

from tests.chromium import chromium

from .conftest import PATIENCE, Lab, Namespace, eventually, run, running
from .test_services import make_myweb, parts_of

WEB = """
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {containers: [{name: web, image: nginx}]}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, selector: {app: web}, ports: [{port: 80}]}
"""


@pytest.fixture
def web(ns: Namespace) -> Namespace:
    ns.apply(WEB)
    ns.ready("web")
    ns.programmed("web")
    return ns


@contextlib.contextmanager
def opened(ns: Namespace, *arguments: object, addresses: int = 1) -> Iterator[tuple[subprocess.Popen[str], list[str]]]:
    """Run the command during the block; its process, and the addresses that it prints first."""
    argv = ns.lab.argv("open", *arguments, "-n", ns.name, "--no-browser")
    with running(*argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process, [process.stdout.readline().strip() for _ in range(addresses)]


def answer(address: str) -> str:
    return run("curl", "-sS", "--max-time", 5, address).stdout


def test_w55_curl_reaches_a_node_port(web: Namespace):
    port = web.get("services", "web")["spec"]["ports"][0]["nodePort"]
    with opened(web, "service/web") as (process, [address]):
        assert address == f"http://127.0.0.1:{port}"
        assert "Welcome to nginx" in answer(address)
        assert process.stderr is not None
        assert "node-port 10.0.0.201" in process.stderr.readline()


@pytest.mark.needs("chromium")
async def test_w55_a_browser_shows_the_page(web: Namespace):
    with opened(web, "service/web", "--through", "cluster-ip") as (_, [address]):
        async with chromium() as browser, browser.page() as page:
            await page.open(address)
            await page.until("document.body.innerText.includes('Welcome to nginx')", PATIENCE)


def test_w55_all_pods_answer(ns: Namespace):
    make_myweb(ns)
    ns.kubectl("expose", "deployment", "myweb", "--port=80")
    ns.programmed("myweb")
    with opened(ns, "service/myweb") as (_, [address]):
        pods: set[str] = set()

        def is_complete() -> bool:
            pods.add(parts_of(answer(address).strip())[1])
            return len(pods) == 3

        eventually(is_complete)


def test_connections_follow_the_service(web: Namespace):
    with opened(web, "service/web") as (_, [address]):
        web.kubectl("delete", "service", "web")
        eventually(lambda: not answer(address), message="connections are refused while there is no Service")
        web.apply(WEB)  # it has another cluster IP and node port
        eventually(lambda: "Welcome to nginx" in answer(address))


def test_udp_and_tcp_of_one_port(lab: Lab):
    system = Namespace(lab, "kube-system")
    with opened(system, "service/kube-dns:53", addresses=2) as (_, addresses):
        assert sorted(address.split(":")[0] for address in addresses) == ["tcp", "udp"]
        for address in addresses:
            options = ["+tcp"] if address.startswith("tcp") else ["+notcp"]
            query = ("dig", "+short", *options, "@127.0.0.1", "-p", address.rpartition(":")[2])
            assert run(*query, "kubernetes.default.svc.cluster.local").stdout == "10.96.0.1\n"


def test_many_connections_with_much_data_in_both_directions(web: Namespace):
    web.kubectl("run", "echo", "--image=busybox", "--port=7", "--", "nc", "-ll", "-p", "7", "-e", "cat")
    web.ready("echo")
    web.kubectl("expose", "pod", "echo", "--port=7")
    web.programmed("echo")
    sent = bytes(range(256)) * 4096  # 1 MiB
    with opened(web, "service/echo", "--port", free_port()) as (_, [address]):
        ends = [socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), PATIENCE) for _ in range(8)]
        with contextlib.ExitStack() as stack:
            for end in ends:
                stack.enter_context(end)
            for end in ends:
                assert exchange(end, sent) == sent


def exchange(end: socket.socket, sent: bytes) -> bytes:
    def send() -> None:
        end.sendall(sent)
        end.shutdown(socket.SHUT_WR)

    sender = threading.Thread(target=send)
    sender.start()
    received = b"".join(iter(lambda: end.recv(65536), b""))
    sender.join()
    return received


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
        return port


def test_a_signal_ends_it_without_a_trace(web: Namespace):
    for number in (signal.SIGINT, signal.SIGTERM):
        with opened(web, "service/web") as (process, [address]):
            assert "Welcome" in answer(address)
            process.send_signal(number)
            _, errors = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0
            assert "Traceback" not in errors
            assert not answer(address)


def test_bad_input_is_one_line_and_opens_nothing(web: Namespace):
    def refused(*arguments: object, namespace: str = web.name) -> str:
        done = web.lab.command("open", *arguments, "-n", namespace, "--no-browser")
        assert done.returncode in (1, 2)
        assert done.stdout == ""
        [line] = done.stderr.splitlines()
        return line

    assert "not found" in refused("service/none")
    assert "service/web has no port 81; it has 80" in refused("service/web:81")
    assert "service/web has no load-balancer" in refused("service/web", "--through", "load-balancer")
    assert "is not service/NAME" in refused("pod/web")
    assert "--port is for one port" in refused("service/kube-dns", "--port", 8080, namespace="kube-system")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port} of 127.0.0.1 (TCP): it is taken by another program" in refused(
            "service/web", "--port", port
        )
