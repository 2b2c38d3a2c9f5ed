"""`up --host-routes` and `up --outside`: what they open, what stays closed, and that nothing of them is left."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from .conftest import BRIDGEHEAD, PATIENCE, eventually
from .gateway_world import LISTENER, MACHINE, MACHINE6, RESOLVER, ROUTER, WEB, WEB6, WEB_NAME, World, gateway_world

pytestmark = pytest.mark.needs("slirp4netns", "nsenter", "setpriv", "dig")

UNUSED_ID = 1_999_999_998  # a user whom no machine has
PODS = """
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, ipFamilyPolicy: PreferDualStack, selector: {app: web}, ports: [{port: 80}]}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec: {terminationGracePeriodSeconds: 0, containers: [{name: web, image: nginx}]}
---
apiVersion: v1
kind: Pod
metadata: {name: client}
spec: {terminationGracePeriodSeconds: 0, containers: [{name: c, image: busybox, command: [sleep, infinity]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec:
  dnsPolicy: Default
  hostNetwork: true
  terminationGracePeriodSeconds: 0
  containers: [{name: c, image: busybox, command: [sleep, infinity], securityContext: {privileged: true}}]
"""
# Destinations that could be the machine: its addresses, its loopback and "this host", its name server's address in the
# lab (any other port), the gateway's addresses, and IPv4 addresses in IPv6 ones.
THE_MACHINE = (
    MACHINE,
    f"[{MACHINE6}]",
    RESOLVER,
    "0.0.0.0",
    "169.254.253.2",
    "169.254.253.3",
    "169.254.253.100",
    "169.254.254.1",
    "[fd00::2]",
    "[fd00::3]",
    f"[::ffff:{MACHINE}]",
    "[fe80::2]",
)


def up(world: World, lab: str, *options: str) -> str:
    done = world.bridgehead("up", "--detach", "--nodes=1", "--no-balancer", "--offline", f"--name={lab}", *options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def refused(world: World, lab: str, *options: str) -> str:
    done = world.bridgehead("up", "--detach", "--nodes=1", "--no-balancer", "--offline", f"--name={lab}", *options)
    assert done.returncode in (1, 3), done.stdout  # 3: the machine lacks something
    assert not (world.state / lab).exists()
    return done.stderr


@contextlib.contextmanager
def lab_of(world: World, lab: str, *options: str) -> Iterator[str]:
    """A running lab with pods; what `up` prints."""
    try:
        text = up(world, lab, *options)
        world.kubectl(lab, "apply", "-f", "-", stdin=PODS)
        world.kubectl(lab, "wait", "--for=condition=Ready", "pod", "--all", f"--timeout={PATIENCE}s")
        yield text
    finally:
        world.bridgehead("down", "--delete", f"--name={lab}")


@pytest.fixture(scope="module")
def machine() -> Iterator[World]:
    """Root's machine, with a lab that has both."""
    with gateway_world() as world, lab_of(world, "gw", "--host-routes", "--outside"):
        yield world


def links(world: World) -> list[str]:
    return [link["ifname"] for link in json.loads(world.must("ip", "-json", "link"))]


def routes(world: World) -> set[str]:
    found = (*world.must("ip", "route").splitlines(), *world.must("ip", "-6", "route").splitlines())
    return {re.sub(r" (metric|pref|proto|mtu).*", "", line) for line in found if "fe80::" not in line}


def fetch(world: World, lab: str, pod: str, url: str) -> str:
    return world.in_pod(lab, pod, "wget", "-T", 5, "-q", "-O", "-", url)


def fetch_all(world: World, lab: str, pod: str, urls: Iterable[str]) -> str:
    """Fetch all at once; the bodies of those that answer."""
    script = "".join(f"wget -T 5 -q -O - '{url}' 2>&1 & " for url in urls)
    return world.in_pod(lab, pod, "sh", "-c", f"{script} wait")


def cluster_ips(world: World, lab: str) -> list[str]:
    return json.loads(world.kubectl(lab, "get", "service", "web", "-o", "json"))["spec"]["clusterIPs"]


def gateway_processes(world: World) -> list[int]:
    """The gateway and slirp4netns of this world: those in the network namespace of the machine."""
    ours = os.stat(f"/proc/{world.machine}/ns/net").st_ino
    found = []
    for process in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            is_part = Path(f"/proc/{process}/comm").read_text().strip() in ("bridgehead-gate", "slirp4netns")
            if is_part and os.stat(f"/proc/{process}/ns/net").st_ino == ours:
                found.append(int(process))
    return found


def program(world: World, name: str) -> int:
    (process,) = (one for one in gateway_processes(world) if Path(f"/proc/{one}/comm").read_text().strip() == name)
    return process


def own_url(host: str) -> str:
    """The URL of the machine's listener."""
    return f"http://{host}:{LISTENER}/"


def url_of(address: str) -> str:
    return f"[{address}]" if ":" in address else address


def test_the_machine_reaches_services_pods_and_nodes(machine: World):
    pod = json.loads(machine.kubectl("gw", "get", "pod", "web", "-o", "json"))
    port = json.loads(machine.kubectl("gw", "get", "service", "web", "-o", "json"))["spec"]["ports"][0]["nodePort"]
    node = json.loads(machine.kubectl("gw", "get", "node", "node1", "-o", "json"))
    pods = [each["ip"] for each in pod["status"]["podIPs"]]
    nodes = [
        f"{url_of(each['address'])}:{port}" for each in node["status"]["addresses"] if each["type"] == "InternalIP"
    ]
    for host in [*map(url_of, (*cluster_ips(machine, "gw"), *pods)), *nodes]:
        eventually(lambda host=host: "Welcome to nginx" in machine.run("curl", "-gs", "-m5", f"http://{host}/").stdout)


def test_the_machine_asks_the_dns_of_the_lab(machine: World):
    address = cluster_ips(machine, "gw")[0]
    assert machine.must("dig", "+short", "@10.96.0.10", "web.default.svc.cluster.local").strip() == address


@pytest.mark.needs("chromium")
def test_a_browser_of_the_machine_shows_a_page_of_the_lab(machine: World):
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking")
    profile = f"--user-data-dir={machine.directory / 'chromium'}"
    page = machine.run("chromium", *options, profile, "--dump-dom", f"http://{cluster_ips(machine, 'gw')[0]}/")
    assert "Welcome to nginx" in page.stdout, page.stderr


@pytest.mark.parametrize("pod", ["client", "plain"])
def test_pods_reach_the_outside_by_name_and_address(machine: World, pod: str):
    for host in (WEB_NAME, WEB, f"[{WEB6}]"):
        assert fetch(machine, "gw", pod, f"http://{host}/").startswith("the internet, "), host
    assert "Welcome to nginx" in fetch(machine, "gw", "client", "http://web.default/")


@pytest.mark.parametrize("pod", ["client", "plain"])
def test_no_pod_reaches_the_machine(machine: World, pod: str):
    assert "the machine" in machine.must("curl", "-s", f"http://{MACHINE}:{LISTENER}")
    link = next(each for each in json.loads(machine.must("ip", "-json", "address")) if each["ifname"] == "bh-gw")
    own = [url_of(each["local"]) for each in link["addr_info"] if each["scope"] == "global"]
    answers = fetch_all(machine, "gw", pod, [*map(own_url, (*THE_MACHINE, *own)), f"http://{WEB}/"])
    assert "the internet" in answers
    assert "the machine" not in answers


def test_no_pod_reaches_an_address_that_the_machine_gets_later(machine: World):
    late = "192.0.2.77"
    machine.must("ip", "address", "add", f"{late}/32", "dev", "wan")
    assert "the machine" in machine.must("curl", "-s", f"http://{late}:{LISTENER}")
    eventually(lambda: "unreachable" in fetch(machine, "gw", "client", f"http://{late}:{LISTENER}/"))
    machine.must("ip", "address", "del", f"{late}/32", "dev", "wan")


def test_another_host_does_not_get_into_the_lab_through_the_machine(machine: World):
    """Datagrams, because answers would be lost anyway: the lab has no route back."""
    address = cluster_ips(machine, "gw")[0]
    inside = (BRIDGEHEAD, "exec", "--name=gw", "--")
    count = (
        "add table inet probe; add counter inet probe seen;"
        " add chain inet probe c { type filter hook prerouting priority 0; };"
        " add rule inet probe c udp dport 9 counter name seen"
    )
    machine.must(*inside, "nft", count)
    machine.must("sysctl", "-q", "net.ipv4.ip_forward=1")
    enter = ("nsenter", f"--target={machine.internet}", "--net", "--")
    machine.must(*enter, "ip", "route", "replace", "10.96.0.0/12", "via", MACHINE)

    def seen() -> int:
        listing = json.loads(machine.must(*inside, "nft", "-j", "list", "counters"))["nftables"]
        return next(each["counter"]["packets"] for each in listing if "counter" in each)

    send = ("bash", "-c", f"echo > /dev/udp/{address}/9")
    machine.must(*send)
    eventually(lambda: seen() == 1)
    machine.must(*enter, *send)
    machine.must(*send)
    eventually(lambda: seen() == 2)
    machine.must("sysctl", "-q", "net.ipv4.ip_forward=0")


def test_status_names_both(machine: World):
    status = machine.must(BRIDGEHEAD, "status", "--name=gw")
    assert "This machine has routes to the lab through bh-gw.\n" in status
    assert "Pods reach what this machine reaches, but not the machine itself.\n" in status


def test_host_routes_are_refused_before_anything_changes(machine: World):
    before = routes(machine)
    clash = refused(machine, "two", "--host-routes", "--fabric-cidr=10.0.0.0/24")
    assert "a route to 10.0.0.0/24 through bh-gw, the link of another lab" in clash
    assert "--fabric-cidr chooses another" in clash
    machine.must("ip", "link", "add", "bh-two", "type", "veth", "peer", "name", "other")
    assert "one of that name" in refused(machine, "two", "--host-routes")
    machine.must("ip", "link", "del", "bh-two")
    assert routes(machine) == before


def test_user_mode_networking_that_dies_is_started_again(machine: World):
    first = program(machine, "slirp4netns")
    os.kill(first, signal.SIGKILL)
    eventually(lambda: fetch(machine, "gw", "client", f"http://{WEB}/").startswith("the internet"))
    assert program(machine, "slirp4netns") != first


def test_nothing_is_left_after_a_kill_and_after_down():
    with gateway_world() as world:
        before = (links(world), routes(world))
        with lab_of(world, "gone", "--host-routes", "--outside"):
            assert "bh-gone" in links(world)
            init = json.loads((world.state / "gone" / "running.json").read_text())["init_pid"]
            os.kill(init, signal.SIGKILL)
            eventually(lambda: (links(world), routes(world), gateway_processes(world)) == (*before, []))

            # The options are remembered, and the gateway is there again.
            assert "routes to 10.0.0.0/24" in up(world, "gone")
            eventually(lambda: fetch(world, "gone", "client", f"http://{WEB_NAME}/").startswith("the internet"))
            # When the gateway is killed, nothing is left on the machine, and the lab runs on.
            os.kill(program(world, "bridgehead-gate"), signal.SIGKILL)
            eventually(lambda: (links(world), routes(world), gateway_processes(world)) == (*before, []))
            assert "but the lab's gateway has ended" in world.must(BRIDGEHEAD, "status", "--name=gone")
            world.must(BRIDGEHEAD, "down", "--name=gone")

            up(world, "gone")
            world.must(BRIDGEHEAD, "down", "--name=gone")
            assert (links(world), routes(world), gateway_processes(world)) == (*before, [])

            # Without the option the names are unknown again, at once.
            up(world, "gone", "--no-outside", "--no-host-routes")
            eventually(lambda: "NXDOMAIN" in world.in_pod("gone", "client", "nslookup", WEB_NAME))
            assert "the internet" not in fetch(world, "gone", "client", f"http://{WEB}/")
            assert (links(world), routes(world)) == before


def test_an_ordinary_users_pods_reach_the_outside_and_not_the_machine():
    with gateway_world(UNUSED_ID) as world:
        assert "only root may do that" in refused(world, "mine", "--host-routes")
        world.must("chmod", "600", "/dev/net/tun", user=0)
        assert "/dev/net/tun, which is closed to ordinary users here (mode 600)" in refused(world, "mine", "--outside")
        world.must("chmod", "666", "/dev/net/tun", user=0)
        slirp = world.must("which", "slirp4netns").strip()
        world.must("mount", "--bind", "/dev/null", slirp, user=0)
        assert "install it (Debian: apt-get install slirp4netns)" in refused(world, "mine", "--outside")
        world.must("umount", slirp, user=0)
        # A program that cannot start stops the lab again.
        world.must("mount", "--bind", "/dev/null", "/dev/net/tun", user=0)
        failed = world.bridgehead("up", "--detach", "--nodes=1", "--offline", "--name=mine", "--outside")
        assert "the gateway of the lab does not start: slirp4netns ended with code" in failed.stderr
        assert "is stopped" in world.bridgehead("status", "--name=mine").stderr
        assert gateway_processes(world) == []
        world.must("umount", "/dev/net/tun", user=0)
        with lab_of(world, "mine", "--outside") as text:
            assert "Pods reach what this machine reaches, but not the machine itself." in text
            for host in (WEB_NAME, WEB, f"[{WEB6}]"):
                assert fetch(world, "mine", "client", f"http://{host}/").startswith("the internet, "), host
            for pod in ("client", "plain"):
                answers = fetch_all(world, "mine", pod, [*map(own_url, THE_MACHINE), f"http://{WEB}/"])
                assert "the internet" in answers
                assert "the machine" not in answers
            assert fetch(world, "mine", "client", f"http://{ROUTER}/").startswith("the internet")
        eventually(lambda: gateway_processes(world) == [])
