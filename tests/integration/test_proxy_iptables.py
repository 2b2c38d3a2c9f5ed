"""The iptables mode in the kernel, in both variants: what is sent, what is repaired, what is left behind."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator

import pytest

from tests import tools

from .proxy_objects import EXTERNAL, WEB4, WEB6, answered_by, keeps_its_pod, pods_of, service, slice_of, sticky
from .proxy_world import CLIENT4, PODS, World

pytestmark = pytest.mark.integration

VARIANTS = ("nft", "legacy")


@pytest.fixture(scope="module", params=VARIANTS)
def shared_world(request: pytest.FixtureRequest) -> Iterator[World]:
    tools.require(f"iptables-{request.param}-restore")
    with World(f"iptables-{request.param}") as world:
        yield world


@pytest.fixture
def world(shared_world: World) -> World:
    shared_world.reset()
    return shared_world


def command(world: World, family: int = 4, tool: str = "") -> str:
    return f"ip{'6' if family == 6 else ''}tables-{world.mode.removeprefix('iptables-')}{tool}"


def rules(world: World, family: int = 4) -> list[str]:
    """The output of iptables-save, without counters and dates."""
    lines = world.run(command(world, family, "-save")).splitlines()
    return [line.partition(" [")[0] for line in lines if not line.startswith("#")]


def test_the_chains_are_those_of_kube_proxy(world: World) -> None:
    balanced = service("nginx", addresses=("10.98.154.163",), type="LoadBalancer", nodePort=30938)
    balanced["spec"]["ports"][0]["name"] = ""
    balanced["status"] = {"loadBalancer": {"ingress": [{"ip": "12.12.12.12"}]}}
    slices = slice_of()
    slices["ports"] = [{"name": "", "protocol": "TCP", "port": 80}]
    slices["endpoints"] = [{"addresses": [ip]} for ip in ("10.244.1.2", "10.244.2.4", "10.244.3.4")]
    world.put(balanced, slices)

    saved = rules(world)

    about = '-m comment --comment "default/nginx:'
    for rule in (
        f'-A KUBE-SVC-4N57TFCL4MD7ZTDA {about} -> 10.244.1.2:80" -m statistic --mode random '
        "--probability 0.33333333349 -j KUBE-SEP-UXHBWR5XIMVGXW3H",
        f'-A KUBE-SVC-4N57TFCL4MD7ZTDA {about} -> 10.244.2.4:80" -m statistic --mode random '
        "--probability 0.50000000000 -j KUBE-SEP-TOYRWPNILILHH3OR",
        f'-A KUBE-SVC-4N57TFCL4MD7ZTDA {about} -> 10.244.3.4:80" -j KUBE-SEP-6QCC2MHJZP35QQAR',
        f'-A KUBE-SEP-UXHBWR5XIMVGXW3H -p tcp {about}" -m tcp -j DNAT --to-destination 10.244.1.2:80',
        f'-A KUBE-NODEPORTS -p tcp {about}" -m tcp --dport 30938 -j KUBE-EXT-4N57TFCL4MD7ZTDA',
        f'-A KUBE-SERVICES -d 12.12.12.12/32 -p tcp {about} loadbalancer IP" -m tcp --dport 80 '
        "-j KUBE-EXT-4N57TFCL4MD7ZTDA",
    ):
        assert rule in saved


def test_a_change_sends_only_the_chains_that_changed(world: World) -> None:
    world.put(service("other", addresses=("10.96.0.20",)), slice_of("pod1"))
    world.put(service(), slice_of("pod1", "pod2"))

    assert world.put(service(), slice_of("pod1", "pod3")) == 8, (
        "the Service's chain with three rules, the new backend's with two, the old backend's away"
    )
    assert pods_of(world, "client", times=30) == {"pod1", "pod3"}
    assert world.put(service(), slice_of("pod3", "pod1")) == 0, "the same endpoints in another order"
    world.ask("delete", name="web")
    assert world.connect("client", WEB4, 80) == ["timeout"]
    assert world.ask("difference") == []


DAMAGE = (
    "-t nat -F",
    "-t nat -F KUBE-SERVICES",
    "-t nat -D PREROUTING 1",
    "-t nat -I KUBE-SERVICES -j ACCEPT",
    "-t nat -A PREROUTING -m comment --comment x -j KUBE-SERVICES",
    "-t nat -N KUBE-SVC-AAAAAAAAAAAAAAAA",
    "-t filter -F",
    "-t filter -A KUBE-FORWARD -j DROP",
    "-t filter -D KUBE-CLUSTER-IPS 1",
    "-t mangle -X KUBE-PROXY-CANARY",
)


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("family", [4, 6])
def test_foreign_changes_are_repaired(world: World, damage: str, family: int) -> None:
    world.put(service(addresses=(WEB4, WEB6)), slice_of(*PODS), slice_of(*PODS, family=6))
    assert world.ask("verify", thoroughly=True) is None
    before = rules(world, family)

    world.run(command(world, family), *damage.split())

    assert world.ask("verify", thoroughly=False) is not None
    assert world.ask("difference") == []
    assert sorted(rules(world, family)) == sorted(before)
    assert pods_of(world, "client", WEB6 if family == 6 else WEB4, times=60) == set(PODS)
    assert world.ask("verify", thoroughly=True) is None


def test_a_replaced_rule_is_found_though_the_number_of_rules_is_unchanged(world: World) -> None:
    world.put(service(), slice_of(*PODS))
    assert world.ask("verify", thoroughly=True) is None
    world.run(command(world), "-t", "nat", "-R", "KUBE-MARK-MASQ", "1", "-j", "MARK", "--set-xmark", "0x8/0x8")

    assert world.ask("verify", thoroughly=True) is not None
    assert world.ask("difference") == []


def test_a_flush_of_all_tables_is_repaired_at_once(world: World) -> None:
    world.put(service(), slice_of(*PODS))
    for family in (4, 6):
        for table in ("nat", "filter", "mangle"):
            world.run(command(world, family), "-t", table, "-F")
            world.run(command(world, family), "-t", table, "-X")

    assert world.ask("verify", thoroughly=False) is not None
    assert world.ask("difference") == []
    assert pods_of(world, "client", times=60) == set(PODS)


def test_foreign_rules_are_left_alone(world: World) -> None:
    world.put(service(), slice_of(*PODS))
    world.ask("verify", thoroughly=True)
    tool = command(world)
    world.run(tool, "-N", "THEIRS")
    world.run(tool, "-A", "INPUT", "-j", "THEIRS")

    assert world.ask("verify", thoroughly=True) is None
    world.put(service(), slice_of("pod1"))
    world.ask("restart")
    world.ask("sync")
    world.ask("cleanup")

    left = rules(world)
    assert "-A INPUT -j THEIRS" in left
    assert [line for line in left if "KUBE-" in line] == []
    world.run(tool, "-D", "INPUT", "-j", "THEIRS")
    world.run(tool, "-X", "THEIRS")


GUARD = (
    '! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment "block incoming localnet connections" '
    "-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP"
)


def test_the_kubelets_loopback_rules_are_kept(world: World) -> None:
    tool = command(world)
    world.ask("cleanup")
    of_the_kubelet = (  # what it runs as it starts, and never again
        ("-t", "mangle", "-N", "KUBE-KUBELET-CANARY"),
        ("-N", "KUBE-FIREWALL"),
        ("-A", "KUBE-FIREWALL", *shlex.split(GUARD)),
        ("-I", "OUTPUT", "-j", "KUBE-FIREWALL"),
        ("-I", "INPUT", "-j", "KUBE-FIREWALL"),
    )
    for arguments in of_the_kubelet:
        world.run(tool, *arguments)
    before = [line for line in rules(world) if "KUBE-" in line]

    assert world.ask("cleanup") is False, "there was nothing of ours"
    world.ask("restart")
    world.ask("sync")
    world.put(service(), slice_of(*PODS))
    assert world.ask("cleanup") is True

    assert sorted(line for line in rules(world) if "KUBE-" in line) == sorted(before)
    for arguments in reversed(of_the_kubelet):
        undone = {"-N": "-X", "-A": "-D", "-I": "-D"}
        world.run(tool, *(undone.get(word, word) for word in arguments))


def test_a_change_after_a_foreign_flush_restores_all_rules(world: World) -> None:
    world.put(service(), slice_of("pod1"))
    for table in ("nat", "filter"):
        world.run(command(world), "-t", table, "-F")
        world.run(command(world), "-t", table, "-X")

    with pytest.raises(RuntimeError, match=r"NotFound|Disturbed"):
        world.put(service(), slice_of("pod2"))
    world.ask("sync")

    assert pods_of(world, "client") == {"pod2"}
    assert world.ask("difference") == []


def test_a_new_proxy_removes_stale_rules_and_keeps_valid_chains(world: World) -> None:
    world.put(service(), slice_of(*PODS))
    world.put(service("old", addresses=("10.96.0.99",), externalIPs=[EXTERNAL]), slice_of("pod1"))
    world.ask("restart")

    world.ask("load", service=service(), slices=[slice_of(*PODS)])
    assert world.ask("sync") < 16, "shared chains, and the stale ones"

    assert world.ask("difference") == []
    assert world.connect("client", "10.96.0.99", 80) == ["timeout"]
    assert pods_of(world, "client", times=60) == set(PODS)
    world.ask("restart")
    world.ask("load", service=service(), slices=[slice_of(*PODS)])
    assert world.ask("sync") == 0


def test_a_stale_chain_in_use_does_not_prevent_the_removal_of_others(world: World) -> None:
    world.put(service("old", addresses=("10.96.0.99",)), slice_of("pod1"))
    stale = next(line[1:].split()[0] for line in rules(world) if line.startswith(":KUBE-SVC-"))
    world.run(command(world), "-t", "nat", "-A", "PREROUTING", "-d", "192.0.2.77", "-j", stale)
    world.ask("restart")

    world.ask("load", service=service(), slices=[slice_of(*PODS)])
    world.ask("sync")

    assert pods_of(world, "client", times=60) == set(PODS)
    assert not any(line.startswith(f"-A {stale} ") for line in rules(world)), "emptied, though it stays"
    world.run(command(world), "-t", "nat", "-D", "PREROUTING", "-d", "192.0.2.77", "-j", stale)


def test_a_sync_larger_than_the_send_buffer_is_sent_in_parts(world: World) -> None:
    world.ask("load_many", services=300, endpoints=5)
    world.ask("load", service=service(), slices=[slice_of(*PODS)])

    assert world.ask("sync") > 6000
    assert world.ask("difference") == []
    assert world.ask("verify", thoroughly=True) is None
    assert pods_of(world, "client", times=60) == set(PODS)
    assert world.ask("cleanup") is True
    assert not any("KUBE-" in line for line in rules(world))


def test_cleanup_leaves_nothing_in_either_family(world: World) -> None:
    world.put(service(addresses=(WEB4, WEB6), type="NodePort", nodePort=30080), slice_of(*PODS))

    assert world.ask("cleanup") is True
    assert not any("KUBE-" in line for family in (4, 6) for line in rules(world, family))
    assert world.ask("cleanup") is False


def test_affinity_of_a_client_ends_after_its_timeout(world: World) -> None:
    world.put(sticky(1), slice_of(*PODS))
    begun, chosen = keeps_its_pod(world, 1.2)  # longer than the timeout, which each connection renews

    while pods_of(world, "client", times=1) == {chosen}:  # two of three times it is another
        assert time.monotonic() < begun + 60, f"{CLIENT4} is never forgotten"
        time.sleep(1.05)  # only silence ends it


def test_affinity_survives_a_restart_and_ends_when_disabled(world: World) -> None:
    world.put(sticky(), slice_of(*PODS))
    (chosen,) = pods_of(world, "client")
    world.ask("restart")
    world.ask("load", service=sticky(), slices=[slice_of(*PODS)])
    assert world.ask("sync") == 0
    assert pods_of(world, "client") == {chosen}

    world.put(service(), slice_of(*PODS))

    assert set(answered_by(world.connect("client", WEB4, 80, times=60))) == set(PODS)
    assert not any("recent" in line for line in rules(world))
