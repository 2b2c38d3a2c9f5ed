"""The parts of mode ipvs that are removed beside a kube-proxy in the same mode."""

from __future__ import annotations

from bridgehead.network.ipset import SetType
from bridgehead.network.ipvs import Scheduling, Server
from bridgehead.proxy.iptables.readback import Table
from bridgehead.proxy.ipvs import sets
from bridgehead.proxy.ipvs.kube_proxy_takeover import own_sets, removal, written
from bridgehead.proxy.ipvs.readback import KernelState

WEB, MARKED, FOREIGN = Server(4, "10.96.0.10", "tcp", 80), Server(4, "", "", 0, 7), Server(4, "", "", 0, 8)


def test_virtual_servers_of_marks_and_chains_in_mangle_are_removed() -> None:
    clients = {"10.96.0.10,tcp:80 skbmark 0x7/0x3fff"}
    kernel = KernelState(
        servers={server: (Scheduling("rr"), {}) for server in (WEB, MARKED, FOREIGN)},
        sets={sets.CLUSTER_CLIENTS: (SetType("hash:ip,port", 4, True), clients)},
        bound={"10.96.0.10"},
        tables={
            4: {
                "mangle": Table({"PREROUTING": ["-j KUBE-IPVS"], "KUBE-IPVS": [], "KUBE-KUBELET-CANARY": []}),
                "nat": Table({"KUBE-SERVICES": [], "KUBE-NODE-PORT": []}),
            }
        },
    )

    transaction = removal(kernel)

    assert transaction.gone == [MARKED]
    assert transaction.rules.part(4, "mangle").lines == ["-D PREROUTING -j KUBE-IPVS"]
    assert transaction.rules.part(4, "mangle").removed == ["KUBE-IPVS"]
    assert not transaction.rules.part(4, "nat")


def test_sets_of_kube_proxy_stay() -> None:
    assert "KUBE-IPVS-MASQUERADE" in own_sets()
    assert "KUBE-6-IPVS-INSIDE" in own_sets()
    assert not {sets.BOUND, sets.CLUSTER_IP, sets.LOOP_BACK} & set(own_sets())


def test_a_family_whose_rules_are_still_ours_stays_or_goes_as_a_whole() -> None:
    web6 = Server(6, "fd00:96::10", "tcp", 80)
    kernel = KernelState(
        servers={server: (Scheduling("rr"), {}) for server in (WEB, web6)},
        bound={"10.96.0.10", "fd00:96::10"},
        tables={
            4: {"nat": Table({"KUBE-SERVICES": ["-m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT"]})},
            6: {
                "nat": Table({"KUBE-SERVICES": ["-m set --match-set KUBE-6-IPVS-MASQUERADE dst,dst -j KUBE-MARK-MASQ"]})
            },
        },
    )

    assert written(kernel) == {4: True, 6: False}
    assert not removal(kernel, [6])
    assert not [name for name in own_sets([6]) if name.startswith("KUBE-6-")]
    transaction = removal(kernel, [6], are_abandoned=True)
    assert transaction.gone == [web6]
    assert transaction.unbound == ["fd00:96::10"]
    assert transaction.rules.part(6, "nat").removed == ["KUBE-SERVICES"]
    assert {family for family, _ in transaction.rules.parts} == {6}
    assert {"KUBE-6-CLUSTER-IP", "KUBE-6-IPVS-DROP"} <= set(own_sets([6], are_abandoned=True))
    assert "KUBE-CLUSTER-IP" not in own_sets([6], are_abandoned=True)
