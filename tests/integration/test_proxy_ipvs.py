"""The ipvs mode in the kernel: what its users see, what is repaired, what goes gracefully, what is left behind.

All but the first part runs in the guest, whose kernel has IPVS.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from socket import IPPROTO_SCTP
from typing import Any

import pytest

from bridgehead.proxy.conntrack.stale import UNANSWERED_SECONDS
from bridgehead.proxy.ipvs import sets
from tests.kubeconfigs import write_kubeconfig

from .ipvs_world import IpvsWorld
from .proxy_clients import TALK_PORT
from .proxy_objects import (
    EXTERNAL,
    WEB4,
    WEB6,
    answered_by,
    dial_all,
    exchange_all,
    pods_of,
    sctp,
    service,
    slice_of,
    sticky,
    talkers,
)
from .proxy_world import CLIENT4, NODE4, NODE6, PODS, World, pod_ip
from .test_proxy_command import PROXY, run_in_namespace

pytestmark = pytest.mark.integration
guest = pytest.mark.guest


# --- Where there is no IPVS: on this machine's own kernel, whatever that is ---------------------------------


def test_listed_rules_equal_the_rendered_ones() -> None:
    """A difference would cause a repair each second."""
    program = """
import asyncio
from bridgehead.network.ipset import IpSets
from bridgehead.proxy.iptables import Kernel
from bridgehead.proxy.iptables.apply import installed_variants
from bridgehead.proxy.iptables.readback import parse_listing
from bridgehead.proxy.iptables.transaction import Transaction
from bridgehead.proxy.ipvs import chains, sets
from bridgehead.proxy.mode import Settings

CIDRS = (("10.244.0.0/16", "10.245.0.0/16", "fd00:244::/32"), ("10.96.0.0/12", "fd00:96::/112"))

async def main():
    with IpSets() as kernel:
        for family in (4, 6):
            for name, kind in sets.wanted(family).items():
                kernel.create(name, kind)
    others = Settings((4, 6), pod_interface="cni*", masquerade_mark=0x8000)
    for settings in (Settings((4, 6), *CIDRS), Settings((4, 6)), others):
        for variant in installed_variants():
            iptables = Kernel(variant)
            for family in (4, 6):
                for _ in range(2):
                    step = Transaction()
                    listing = parse_listing(await iptables.save(family))
                    chains.compare(family, settings, listing, step, compares_text=True)
                    for text in step.texts().values():
                        await iptables.restore(family, text)
                print(variant, family, step.size())
                step = Transaction()
                chains.remove(family, parse_listing(await iptables.save(family)), step)
                await iptables.restore(family, step.texts()[family])
                print(variant, family, "KUBE" in (await iptables.save(family)).decode())
            iptables.close()

asyncio.run(main())
"""
    script = 'mount -t tmpfs none /run && exec "$@"'
    result = run_in_namespace("unshare", "--mount", "sh", "-c", script, "sh", sys.executable, "-c", program)

    assert result.returncode == 0, result.stderr
    lines = result.stdout.splitlines()
    assert len(lines) in (12, 24), "a variant of iptables is installed"
    assert {line.split(maxsplit=2)[2] for line in lines} == {"0", "False"}


def test_without_ipvs_the_proxy_uses_iptables_mode(tmp_path: Any) -> None:
    """W35. No kernel shows IPVS's settings to the network namespace of an ordinary user; many have no IPVS at all."""
    kubeconfig = write_kubeconfig(tmp_path / "kubeconfig")
    watch = (
        'mount -t tmpfs none /run; ip link set lo up; "$@" >/run/log 2>&1 & until grep -q "proxy of node" /run/log; '
    )
    watch += "do sleep 0.05; done; kill $!; wait $!; cat /run/log"
    arguments = ("--proxy-mode", "ipvs", "--kubeconfig", str(kubeconfig), "--node-name", "node1")

    result = run_in_namespace("unshare", "--mount", "sh", "-c", watch, "sh", *PROXY, *arguments)

    (warning,) = (line for line in result.stdout.splitlines() if "ipvs" in line)
    assert " W " in warning
    assert "mode ipvs cannot be used on this node: this kernel " in warning
    assert warning.endswith("; services are served in mode iptables")


# --- In the guest -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared_world() -> Iterator[World]:
    with IpvsWorld("ipvs") as world:
        yield world


@pytest.fixture
def world(shared_world: World) -> World:
    shared_world.reset()
    return shared_world


def listing(world: World) -> dict[str, list[str]]:
    """Return ipvsadm's list: real servers with forwarding and weight, by virtual server with scheduling."""
    found: dict[str, list[str]] = {}
    server = ""
    for line in world.run("ipvsadm", "-Ln").splitlines()[3:]:
        if line.startswith("  ->"):
            found[server].append(" ".join(line.split()[1:4]))
        else:
            server = " ".join(line.split())
            found[server] = []
    return found


@guest
def test_ipvsadm_and_ip_show_virtual_servers_and_addresses(world: World) -> None:
    """W31."""
    world.put(service(addresses=(WEB4, WEB6)), slice_of("pod1", "pod2"), slice_of("pod1", family=6))
    world.put(sticky(1800, name="sticky", addresses=("10.96.0.11",)), slice_of("pod3"))

    assert listing(world) == {
        f"TCP {WEB4}:80 rr": ["10.244.1.1:8080 Masq 1", "10.244.1.2:8080 Masq 1"],
        f"TCP [{WEB6}]:80 rr": ["[fd00:244:1::1]:8080 Masq 1"],
        "TCP 10.96.0.11:80 rr persistent 1800": ["10.244.1.3:8080 Masq 1"],
    }
    shown = world.run("ip", "address", "show", "kube-ipvs0")
    assert set(re.findall(r"inet6? (\S+) scope global", shown)) == {f"{WEB4}/32", "10.96.0.11/32", f"{WEB6}/128"}
    assert "KUBE-CLUSTER-IP 10.96.0.11,tcp:80\n" in world.run("ipset", "save", "KUBE-CLUSTER-IP")


@guest
def test_every_scheduler_works_and_a_missing_one_is_named(world: World) -> None:
    for scheduler in ("lc", "dh", "sh", "sed", "nq", "wrr", "wlc", "mh", "rr"):
        world.ask("use_ipvs_options", scheduler=scheduler)
        world.put(service(), slice_of(*PODS))

        assert set(listing(world)) == {f"TCP {WEB4}:80 {scheduler}{' (mh-port)' if scheduler == 'mh' else ''}"}
        assert set(answered_by(world.connect("client", WEB4, 80, times=6))) <= set(PODS), scheduler
    with pytest.raises(RuntimeError, match="ModeUnavailable: this kernel's IPVS has no scheduler nonsense"):
        world.ask("use_ipvs_options", scheduler="nonsense")


@guest
def test_a_real_server_is_removed_after_its_last_connection(world: World) -> None:
    for pod in ("pod1", "pod2"):
        world.talk("listen", pod, 4)
    world.put(service(), talkers("pod1"))
    world.talk("dial", "old", "client", WEB4, 80)
    assert world.talk("exchange", "old") == "pod1"

    world.put(service(), talkers("pod2"))

    world.talk("dial", "new", "client", WEB4, 80)
    assert world.talk("exchange", "new") == "pod2"
    assert world.talk("exchange", "old") == "pod1"
    assert listing(world) == {f"TCP {WEB4}:80 rr": [f"10.244.1.1:{TALK_PORT} Masq 0", f"10.244.1.2:{TALK_PORT} Masq 1"]}
    world.put(service())
    assert world.connect("client", WEB4, 80) == ["refused"]
    assert world.talk("exchange", "old") == "pod1", "though there is no backend any more"
    assert world.ask("difference") == []
    world.talk("close")
    world.ask("pass_time", seconds=4000)
    world.ask("verify", thoroughly=False)
    assert listing(world) == {}


@guest
def test_a_backend_that_returns_while_it_drains_is_used_again(world: World) -> None:
    world.put(service(), slice_of(*PODS))
    world.put(service(), slice_of("pod1"))
    world.put(service(), slice_of(*PODS))

    assert pods_of(world, "client", times=12) == set(PODS)
    world.ask("pass_time", seconds=4000)
    assert world.ask("verify", thoroughly=True) is None
    assert pods_of(world, "client", times=12) == set(PODS)


DAMAGE = (
    ("ipvsadm", "-C"),
    ("ipvsadm", "-D", "-t", f"{WEB4}:80"),
    ("ipvsadm", "-E", "-t", f"{WEB4}:80", "-s", "wlc"),
    ("ip", "link", "del", "kube-ipvs0"),
    ("ip", "address", "del", f"{WEB4}/32", "dev", "kube-ipvs0"),
    ("ip", "address", "add", "10.99.99.99/32", "dev", "kube-ipvs0"),
    ("ipset", "flush"),
    ("ipset", "add", "KUBE-CLUSTER-IP", "10.99.99.99,tcp:80"),
    ("iptables-legacy", "-t", "nat", "-F"),
    ("iptables-legacy", "-t", "mangle", "-D", "PREROUTING", "1"),
    ("ip6tables-legacy", "-F", "KUBE-IPVS-FILTER"),
)


@guest
@pytest.mark.parametrize("damage", DAMAGE, ids=" ".join)
def test_foreign_changes_are_repaired(world: World, damage: tuple[str, ...]) -> None:
    world.put(sticky(addresses=(WEB4, WEB6), externalIPs=[EXTERNAL]), slice_of("pod1"), slice_of("pod1", family=6))
    assert world.ask("verify", thoroughly=False) is None

    world.run(*damage)

    assert world.ask("verify", thoroughly=False) is not None
    assert world.ask("difference") == []
    assert world.connect("client", WEB4, 80) == [f"pod1 from {NODE4}"]
    assert world.ask("verify", thoroughly=True) is None


def kube_proxy_creates_its_sets(world: World) -> None:
    """Run the commands with which kube-proxy begins each sync; if one fails, it gives up until its next sync."""
    lines = []
    for family, name in ((4, "inet"), (6, "inet6")):
        for set_, kind in sets.wanted(family).items():
            if not kind.has_marks and not set_.endswith(("-IPVS-MASQUERADE", "-IPVS-DROP")):
                is_hash = kind.kind.startswith("hash:")
                options = f"family {name} hashsize 1024 maxelem 65536" if is_hash else "range 0-65535"
                lines.append(f"ipset create {set_} {kind.kind} {options} -exist")
    world.run("sh", "-ec", "\n".join(lines))


@guest
def test_a_later_kube_proxy_can_use_the_sets(world: World) -> None:
    web = service(addresses=(WEB4, WEB6)), slice_of("pod1"), slice_of("pod1", family=6)
    world.put(*web)

    kube_proxy_creates_its_sets(world)

    for limit in (4194304, 1):  # sets of an earlier version of this proxy, and one that is soon full
        large = f"ipset create large hash:ip,port maxelem {limit}; ipset add large {WEB4},tcp:80"
        world.run("sh", "-ec", f"{large}; ipset swap large KUBE-CLUSTER-IP; ipset destroy large")
        world.put(service("other", addresses=("10.96.0.11",)), slice_of("pod2"))
        assert answered_by(world.connect("client", "10.96.0.11", 80)) == {"pod2": 1}
        world.ask("begin_asking", where="client", address=WEB4, port=80)

        assert world.ask("verify", thoroughly=True) is not None

        kube_proxy_creates_its_sets(world)
        assert set(world.ask("end_asking")) == {"pod1"}
        assert world.ask("difference") == []
        assert "10.96.0.11,tcp:80" in world.run("ipset", "save", "KUBE-CLUSTER-IP")
        world.delete("other")


@guest
def test_what_a_kube_proxy_of_one_ip_family_does_not_serve_is_removed_at_last(world: World) -> None:
    world.put(service(addresses=(WEB4, WEB6)), slice_of("pod1"), slice_of("pod1", family=6))
    with pytest.raises(RuntimeError, match="kube-proxy has not written rules for IPv4"):
        world.ask("remove_leftovers", mode="ipvs", is_last=True)  # it has written nothing in these tables
    accept = "-A KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT"
    world.run("sh", "-ec", f"iptables-legacy -t nat -F KUBE-SERVICES; iptables-legacy -t nat {accept}")

    with pytest.raises(RuntimeError, match="kube-proxy has not written rules for IPv6"):
        world.ask("remove_leftovers", mode="ipvs")
    assert world.connect("client", WEB6, 80) == [f"pod1 from {NODE6}"], "it may follow"
    assert world.ask("remove_leftovers", mode="ipvs", is_last=True)

    assert answered_by(world.connect("client", WEB4, 80)) == {"pod1": 1}
    assert list(listing(world)) == [f"TCP {WEB4}:80 rr"]
    assert "inet6 fd00" not in world.run("ip", "address", "show", "kube-ipvs0")
    assert "KUBE-6-" not in world.run("ipset", "list", "-n")
    assert "KUBE-" not in world.run("ip6tables-legacy-save")
    world.ask("restart")
    world.ask("reset")


@guest
def test_a_removed_real_server_is_found_by_a_full_comparison(world: World) -> None:
    world.put(service(), slice_of(*PODS))
    world.run("ipvsadm", "-d", "-t", f"{WEB4}:80", "-r", "10.244.1.1:8080")

    assert world.ask("verify", thoroughly=True) is not None
    assert pods_of(world, "client", times=12) == set(PODS)


@guest
def test_foreign_virtual_servers_are_left_alone(world: World) -> None:
    world.run("ipvsadm", "-A", "-t", "198.51.100.1:80", "-s", "wrr")
    world.put(service(), slice_of(*PODS))
    assert world.ask("verify", thoroughly=True) is None
    world.ask("restart")
    world.ask("sync")
    world.ask("cleanup")

    assert listing(world) == {"TCP 198.51.100.1:80 wrr": []}
    world.run("ipvsadm", "-D", "-t", "198.51.100.1:80")


@guest
def test_node_ports_follow_the_addresses_of_the_node(world: World) -> None:
    world.put(service(type="NodePort", nodePort=30080), slice_of("pod2"))
    world.run("ip", "address", "add", "192.0.2.1/32", "dev", "lo")

    assert world.ask("verify", thoroughly=False) is None, "nothing was wrong"
    assert pods_of(world, "client", "192.0.2.1", 30080) == {"pod2"}
    world.run("ip", "address", "del", "192.0.2.1/32", "dev", "lo")
    world.ask("verify", thoroughly=False)
    assert set(listing(world)) == {f"TCP {WEB4}:80 rr", f"TCP {NODE4}:30080 rr"}


@guest
def test_a_new_proxy_removes_stale_objects_and_keeps_affinity(world: World) -> None:
    """W36. A killed proxy leaves the same objects."""
    external, node_port = "203.0.113.78", 30078  # where no client is remembered
    kept = sticky(type="NodePort", nodePort=node_port, externalIPs=[external])
    world.put(service("first", addresses=("10.96.0.98",), externalTrafficPolicy="Local", externalIPs=["203.0.113.9"]),
              slice_of("pod1"), {**slice_of("pod2", node="node2"), "metadata": {"name": "b"}})  # fmt: skip
    world.put(service("old", addresses=("10.96.0.99",), type="NodePort", nodePort=30099), slice_of("pod1"))
    world.put(kept, slice_of(*PODS))
    (chosen,) = pods_of(world, "client", external)
    world.ask("restart")

    world.ask("load", service=kept, slices=[slice_of(*PODS)])
    world.ask("sync")

    assert world.ask("difference") == []
    assert pods_of(world, "client", NODE4, node_port) == {chosen}
    assert world.connect("client", "10.96.0.99", 80) == ["timeout"], "nobody's any more"
    assert world.connect("client", NODE4, 30099) == ["refused"]
    assert not [line for line in listing(world) if "10.96.0.9" in line or "30099" in line]
    world.ask("restart")
    world.ask("load", service=kept, slices=[slice_of(*PODS)])
    assert world.ask("sync") == 0


@guest
def test_cleanup_leaves_nothing(world: World) -> None:
    world.put(
        sticky(addresses=(WEB4, WEB6), type="NodePort", nodePort=30080), slice_of(*PODS), slice_of(*PODS, family=6)
    )

    assert world.ask("cleanup") is True

    assert listing(world) == {}
    assert "kube-ipvs0" not in world.run("ip", "link")
    assert world.run("ipset", "list", "-name") == ""
    assert "KUBE" not in world.run("iptables-legacy-save") + world.run("ip6tables-legacy-save")
    assert world.ask("cleanup") is False
    world.ask("restart")
    world.ask("sync")


@guest
def test_beside_a_kube_proxy_only_its_own_objects_stay(world: World) -> None:
    elsewhere = {**slice_of("pod2", node="node2"), "metadata": {"name": "elsewhere"}}
    kept = service(type="NodePort", nodePort=30080, externalTrafficPolicy="Local", externalIPs=[EXTERNAL])
    world.put(kept, slice_of("pod1"), elsewhere)
    before = set(listing(world))
    assert any(server.startswith("FWM") for server in before), before
    for command in ("iptables-legacy", "ip6tables-legacy"):
        world.run(command, "-t", "nat", "-F", "KUBE-SERVICES")  # as the first sync of kube-proxy does

    assert world.ask("remove_leftovers", mode="ipvs") is True

    assert set(listing(world)) == {server for server in before if not server.startswith("FWM")}
    names = world.run("ipset", "list", "-name").split()
    assert [name for name in names if "-IPVS-" in name] == ["KUBE-IPVS-IPS", "KUBE-6-IPVS-IPS"]
    rules = world.run("iptables-legacy-save", "-t", "mangle")
    assert "KUBE-IPVS" not in rules
    assert world.ask("remove_leftovers", mode="ipvs") is False
    world.ask("restart")
    world.ask("sync")


@guest
def test_a_dry_run_prints_equivalent_commands(world: World) -> None:
    both = slice_of("pod1"), {**slice_of("pod2", node="node2"), "metadata": {"name": "elsewhere"}}
    world.put(service(type="NodePort", nodePort=30080, externalTrafficPolicy="Local"), *both)
    world.put(sticky(name="sticky", addresses=("10.96.0.11", WEB6)), slice_of(*PODS), slice_of(*PODS, family=6))

    world.ask("do_by_hand")

    assert world.ask("difference") == []
    assert world.connect("client", NODE4, 30080) == [f"pod1 from {CLIENT4}"]


TALK4, TALK6 = "10.96.0.30", "fd00:96::30"


@guest
def test_switching_to_iptables_and_back_leaves_nothing_of_the_other_mode(world: World) -> None:
    """W34. New clients are always served; open connections survive, except those that only IPVS translates."""
    for family in (4, 6):
        world.talk("listen", "pod1", family)
    talking = [talkers("pod1", family=family) for family in (4, 6)]
    world.put(service("talk", addresses=(TALK4, TALK6), type="NodePort", nodePort=30080), *talking)
    world.put(service(), slice_of(*PODS))
    old = dial_all(world, TALK4, TALK6, "ipvs")
    world.ask("begin_asking", where="client", address=WEB4, port=80)

    assert world.ask("change_mode", name="iptables") == ["ipvs"]
    # A connection that began before and was still open when IPVS went is reset.
    assert set(world.ask("end_asking")) - {"ConnectionResetError"} <= set(PODS)
    assert pods_of(world, "client", WEB4, times=60) == set(PODS)
    assert listing(world) == {}
    assert "kube-ipvs0" not in world.run("ip", "link")
    assert world.run("ipset", "list", "-name") == ""
    saved = world.run("iptables-legacy-save")
    assert "match-set" not in saved
    assert "KUBE-NODE-PORT " not in saved
    # The node's own came from the address that went with kube-ipvs0, so no reset can reach them.
    assert set(exchange_all(world, [name for name in old if " node " not in name])) <= {"reset", "pod1"}, "none hangs"
    assert world.ask("verify", thoroughly=True) is None

    open_ones = dial_all(world, TALK4, TALK6, "iptables")
    world.ask("begin_asking", where="client", address=WEB4, port=80)
    assert world.ask("change_mode", name="ipvs") == ["iptables"]
    assert set(world.ask("end_asking")) <= set(PODS)
    assert pods_of(world, "client", WEB4, times=12) == set(PODS)
    saved = world.run("iptables-legacy-save") + world.run("ip6tables-legacy-save")
    assert not re.findall("KUBE-(?:SVC-|SEP-|EXT-|NODEPORTS|EXTERNAL-SERVICES|CLUSTER-IPS|REFUSE|FIREWALL) ", saved)
    assert [line.split()[0] for line in saved.splitlines() if "-CANARY" in line] == [":KUBE-PROXY-CANARY"] * 4
    assert sum(line.startswith(":KUBE-SERVICES ") for line in saved.splitlines()) == 2, "in nat alone"
    assert exchange_all(world, open_ones) == ["pod1"] * len(open_ones)
    assert exchange_all(world, dial_all(world, TALK4, TALK6, "ipvs again")) == ["pod1"] * len(open_ones)
    assert world.ask("verify", thoroughly=True) is None


@guest
@pytest.mark.parametrize("other", ["nftables", "userspace"])
def test_switching_to_an_nftables_mode_leaves_nothing_of_ipvs(world: World, other: str) -> None:
    """W34. The guest's kernel lacks nf_tables features, so the new mode is not tested further."""
    world.put(service(type="NodePort", nodePort=30080, addresses=(WEB4, WEB6)), slice_of(*PODS))

    assert world.ask("remove_others", name=other) == ["ipvs"]

    assert listing(world) == {}
    assert "kube-ipvs0" not in world.run("ip", "link")
    assert world.run("ipset", "list", "-name") == ""
    assert "KUBE" not in world.run("iptables-legacy-save") + world.run("ip6tables-legacy-save")
    assert world.ask("remove_others", name=other) == []
    world.ask("restart")
    world.ask("sync")


@guest
def test_a_process_listening_on_all_addresses_is_not_reached_through_a_cluster_ip(world: World) -> None:
    """kubernetes #72236."""
    world.put(service(), slice_of("pod1"))
    world.ask("listen_on_node", port=8888)

    assert world.connect("client", NODE4, 8888) == [f"node from {CLIENT4}"]
    assert world.connect("client", WEB4, 8888) == ["refused"]
    assert world.connect("pod1", WEB4, 8888) == ["refused"]


@pytest.fixture(params=["ipvs", "iptables"])
def world_in_either_mode(request: pytest.FixtureRequest, world: World) -> Iterator[World]:
    if request.param == "ipvs":
        yield world
        return
    world.ask("change_mode", name=request.param)
    yield world
    world.ask("change_mode", name="ipvs")


@guest
def test_sctp_associations_reach_every_pod(world_in_either_mode: World) -> None:
    world = world_in_either_mode
    world.ask("serve_sctp")
    spec: dict[str, Any] = {"type": "NodePort", "nodePort": 30080, "addresses": (WEB4, WEB6)}
    world.put(sctp(service(**spec)), sctp(slice_of(*PODS)), sctp(slice_of(*PODS, family=6)))

    def ask(where: str, address: str, port: int, times: int, source_port: int = 0) -> list[str]:
        target = {"where": where, "address": address, "port": port}
        found: list[str] = world.ask("connect_sctp", **target, times=times, source_port=source_port)
        return found

    times = 60  # by chance, in mode iptables: one of ten thousand million times a pod is missing
    for where in ("client", "pod1"):
        for address in (WEB4, WEB6):
            assert set(answered_by(ask(where, address, 80, times))) == set(PODS), (where, address)
    assert ask("client", NODE4, 30080, 1)[0].endswith(f" from {NODE4}")
    assert {answer.partition(" from ")[2] for answer in ask("pod2", WEB4, 80, times)} == {pod_ip("pod2"), NODE4}

    world.put(sctp(service(**spec)), sctp(slice_of("pod2")))
    # These clients use ports that the kernel never chooses: flows of ended associations to pod1 are still there.
    assert set(answered_by(ask("client", WEB4, 80, 6, source_port=20000))) == {"pod2"}
    assert world.ask("verify", thoroughly=True) is None


@guest
@pytest.mark.parametrize("world_in_either_mode", ["iptables"], indirect=True)
def test_an_sctp_client_with_a_fixed_port_gets_a_new_backend_when_its_association_has_ended(
    world_in_either_mode: World,
) -> None:
    """The kernel keeps the flow of an ended association for ten seconds, and takes a new one with the same ports to it.

    It makes a new flow for TCP in this case. Clients with a fixed port are usual: Diameter, S1AP.
    """
    world, port = world_in_either_mode, 3868
    for pod in ("pod1", "pod2"):
        world.talk("listen", pod, 4, IPPROTO_SCTP)
    world.put(sctp(service()), sctp(talkers("pod1")))
    world.talk("dial", "alive", "client", WEB4, 80, IPPROTO_SCTP)
    world.talk("dial", "ended", "client", WEB4, 80, IPPROTO_SCTP, port)
    assert exchange_all(world, ["alive", "ended"]) == ["pod1", "pod1"]
    world.talk("hang_up", "ended")
    while "CLOSED" not in world.run("conntrack", "-L", "-p", "sctp", "--sport", str(port)):  # the test has a deadline
        time.sleep(0.05)

    world.put(sctp(service()), sctp(talkers("pod2")))
    world.later(UNANSWERED_SECONDS)

    world.talk("dial", "new", "client", WEB4, 80, IPPROTO_SCTP, port)
    assert exchange_all(world, ["alive", "new"]) == ["pod1", "pod2"]


@guest
def test_sysctls_of_ipvs_are_set(world: World) -> None:
    world.ask("use_ipvs_options", strict_arp=True, tcp_timeout=1200, udp_timeout=60)

    for name, value in (
        ("ipv4.vs.conntrack", 1), ("ipv4.vs.expire_nodest_conn", 1), ("ipv4.vs.expire_quiescent_template", 1),
        ("ipv4.conf.all.arp_ignore", 1), ("ipv4.conf.all.arp_announce", 2),
    ):  # fmt: skip
        assert world.run("cat", f"/proc/sys/net/{name.replace('.', '/')}") == f"{value}\n", name
    assert world.run("ipvsadm", "-l", "--timeout").split()[-3:] == ["1200", "120", "60"]
