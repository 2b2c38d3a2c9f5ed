"""The insight commands against a cluster that is not this project's, with few rights, and an API that half works."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridgehead.insight.expectations import expect_node
from bridgehead.insight.facts.cluster_reading import read_cluster
from bridgehead.insight.recording.files import read_recording
from bridgehead.insight.recording.format import NetworkEntry
from tests.unit.insight.rulesets import kube_proxy

from .foreign_cluster import NAMESPACE, ForeignCluster, Result, foreign_cluster, half_api, pod, run, service, slice_
from .namespaced import in_namespace, sh
from .test_insight_rulesets import feed, load

pytestmark = pytest.mark.integration

PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
SERVICES = f"/api/v1/namespaces/{NAMESPACE}/services"
SLICES = f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices"
ESSENTIAL = {"services", "pods", "endpointslices", "endpoints", "nodes"}

# Causes that doctor names for the Services of `create_services`; the other ones are healthy.
BROKEN = {
    "typo": "SelectorMisspelled",
    "image": "ImagePullFailing",
    "unready": "PodsNotReady",
    "portless": "TargetPortNameMissing",
    "moved": "EndpointsNotReady",
}


async def create_services(cluster: ForeignCluster) -> None:
    web = {"app": "web"}
    await cluster.apply(
        PODS,
        pod("web-1", web, "10.244.2.2"),
        pod("api-1", {"app": "api"}, "10.244.2.3", is_ready=False),
        pod("db-1", {"app": "database"}, "10.244.2.4", ports=[{"name": "sql", "containerPort": 5432}]),
        pod("img-1", {"app": "img"}, waits="ImagePullBackOff"),
    )
    await cluster.apply(
        SERVICES,
        service("web", web, clusterIP="10.96.0.80"),
        service("typo", {"app": "wbe"}),
        service("unready", {"app": "api"}),
        service("portless", {"app": "database"}, ports=[{"port": 5432, "targetPort": "postgres"}]),
        service("image", {"app": "img"}),
        service("moved", None, ports=[{"port": 80}]),
    )
    uids = await cluster.uids(NAMESPACE)
    moved = slice_("moved", {"": "192.0.2.9"}, {}, is_ready=False)
    moved["metadata"]["labels"]["endpointslice.kubernetes.io/managed-by"] = "a-controller-of-theirs"
    for document in (
        slice_("web", {"web-1": "10.244.2.2"}, uids),
        slice_("unready", {"api-1": "10.244.2.3"}, uids, is_ready=False),
        moved,
    ):
        await cluster.admin.request("POST", SLICES, json=document)


@contextlib.asynccontextmanager
async def connection() -> AsyncIterator[None]:
    """A connection to the cluster IP of `web`, from node1, whose namespace also has the address of web-1."""
    with socket.create_server(("10.244.2.2", 8080)) as listener:
        client = await asyncio.to_thread(socket.create_connection, ("10.96.0.80", 80), 30)
        with client, listener.accept()[0]:
            yield


def verdicts(result: Result) -> dict[str, str]:
    services: dict[str, str] = result.json["services"]
    return {key.rpartition("/")[2]: cause for key, cause in services.items() if cause}


def unseen(result: Result) -> str:
    parts = result.json["unseen"]
    return "\n".join(part if isinstance(part, str) else f"{part['what']}: {part['why']}" for part in parts)


def unseen_kinds(result: Result) -> set[str]:
    return {part["what"].partition(" of ")[0] for part in result.json["unseen"]}


# --- All rights -----------------------------------------------------------------------------------------------


@in_namespace
async def test_a_foreign_cluster_is_read_through_its_api() -> None:
    async with foreign_cluster() as cluster:
        await create_services(cluster)
        load(expect_node(await read_cluster(cluster.admin), "node1"))
        sh("ip address add 10.244.2.2/32 dev lo; ip route add 10.96.0.0/12 dev lo; ip route add 10.244.0.0/16 dev lo")
        await check_doctor(cluster)
        await check_rules(cluster)
        async with connection():
            await check_flows(cluster)
            await check_trace(cluster)
        different = await cluster.run("diff-modes", "iptables", "nftables", "-o", "json")
        assert different.code == 0
        assert "addresses of node ports" not in {one["name"] for one in different.json["differences"]}
        assert different.json["unseen"] == []
        await check_record(cluster)
        sh("nft flush ruleset")
        await check_kube_proxys_own_table(cluster)


async def check_doctor(cluster: ForeignCluster) -> None:
    found = await cluster.run("doctor", "-o", "json")
    assert found.code == 1
    assert verdicts(found) == BROKEN
    nodes = {each["subject"]: each["cause"] for each in found.json["findings"] if each["subject"].startswith("node/")}
    # The kernel of node1 is looked at by exec: it is that of the test's namespace, which forwards nothing.
    proxies = {f"node/node{number}": "ProxyNotRunning" for number in (3, 4)}
    assert nodes == {"node/node1": "ForwardingOff", **proxies}
    parts = {part["what"].partition(" (")[0]: part["why"] for part in found.json["unseen"]}
    assert parts.keys() == {"the programs of 3 pods", *(f"the kernel of node{number}" for number in (2, 3, 4))}
    assert "10.0.0.202:10250" in parts["the programs of 3 pods"]  # node2's kubelet cannot be reached
    assert parts["the kernel of node2"] == parts["the programs of 3 pods"]
    one = await cluster.run("doctor", "-n", NAMESPACE, "service/web", "-o", "json")
    assert one.json["services"] == {"shop/web": ""}
    text = await cluster.run("doctor", "-n", NAMESPACE, "service/typo")
    assert text.code == 1
    assert text.stdout.startswith("service/shop/typo is broken: SelectorMisspelled\n")


async def check_rules(cluster: ForeignCluster) -> None:
    found = await cluster.run("rules", "--node", "node1", "-o", "json")
    assert (found.code, found.json["mode"], found.json["rulesOf"]) == (0, "iptables", ["iptables"])
    assert (found.json["problems"], found.json["unexplained"]) == ([], [])
    own = await cluster.run("rules", "-n", NAMESPACE, "service/web", "--node", "node1")
    assert "-d 10.96.0.80/32 -p tcp" in own.stdout
    assert "Translates the destination to 10.244.2.2:8080 (pod shop/web-1 on node2)." in own.stdout
    for node, why in (
        ("node2", 'of node2: Get "http://10.0.0.202:10250": '),
        ("node3", "no container of its pod kube-system/kube-proxy-3 runs (ErrImagePull)"),
        ("node4", "no pod of a service proxy or network plug-in is on it"),
        ("node9", "the cluster has no node 'node9'"),
    ):
        failed = await cluster.run("rules", "--node", node)
        assert (failed.code, "rules of:" in failed.stdout) == (1, False)
        assert (why if node != "node9" else "node 'node9' not found") in failed.stdout + failed.stderr


async def check_flows(cluster: ForeignCluster) -> None:
    found = await cluster.run("flows", "-o", "json")
    assert found.code == 0
    assert [each["service"] for each in found.json["services"]] == ["shop/web:"]
    assert found.json["services"][0]["connections"][0]["backend"] == "10.244.2.2:8080"
    reasons = unseen(found)
    assert all(f"connections of {node}: " in reasons for node in ("node2", "node3", "node4"))
    failed = await cluster.run("flows", "--node", "node2")
    assert failed.code == 1
    assert "the connections of no node could be looked at" in failed.stdout


async def check_trace(cluster: ForeignCluster) -> None:
    found = await cluster.run("trace", "-n", NAMESPACE, "--from", "node/node1", "service/web")
    assert "10.244.2.2:8080, pod shop/web-1 on node2" in found.stdout
    assert "KUBE-SVC-" in found.stdout
    assert "a connection was connected" in found.stdout  # by a program in the pod of node1's kube-proxy
    assert "Could not look at pod shop/web-1: " in found.stdout  # whose node cannot be entered


async def check_record(cluster: ForeignCluster) -> None:
    file = cluster.directory / "file"
    found = await cluster.run("record", str(file), "--seconds", "0.1")
    assert found.code == 0
    assert "(8 services, 5 endpointslices, 8 pods, 4 nodes)" in found.stdout
    assert "States of nodes' kernels: 2." in found.stdout
    assert all(f"Could not look at node {node}: " in found.stdout for node in ("node2", "node3", "node4"))
    states = [entry.state for entry in read_recording(file).entries if isinstance(entry, NetworkEntry)]
    assert [b"KUBE-SVC-" in state.iptables[4] for state in states] == [True, True]


async def check_kube_proxys_own_table(cluster: ForeignCluster) -> None:
    feed("nft -f -", kube_proxy.nftables())
    found = await cluster.run("rules", "--node", "node1", "-o", "json")
    assert (found.code, found.json["rulesOf"], found.json["problems"]) == (0, ["kube-proxy's nftables"], [])
    services = {each.get("service") for each in found.json["entries"]}
    assert {"default/web:http", "default/lb:"} <= services, services


# --- Missing rights -------------------------------------------------------------------------------------------


@in_namespace
async def test_missing_rights_are_listed_and_the_rest_works() -> None:
    async with foreign_cluster(mode="iptables") as cluster:
        await create_services(cluster)
        load(expect_node(await read_cluster(cluster.admin), "node1"))
        await check_rights(cluster, "no-nodes", {"nodes"}, BROKEN)
        await check_rights(cluster, "no-pods", {"pods"}, {"moved": BROKEN["moved"]})
        await check_rights(cluster, "no-exec", set(), BROKEN)
        without_slices = {name: cause for name, cause in BROKEN.items() if name != "moved"}
        await check_rights(cluster, "no-slices", {"endpointslices"}, without_slices)
        await check_one_namespace(cluster)
        await check_nothing(cluster)


async def check_rights(cluster: ForeignCluster, user: str, missing: set[str], expected: dict[str, str]) -> None:
    found = await cluster.run("doctor", "-o", "json", user=user)
    assert (found.code, verdicts(found)) == (1, expected)
    assert {kind for kind in unseen_kinds(found) if not kind.startswith("the ")} == missing
    rules = await cluster.run("rules", "--node", "node1", user=user)
    assert (rules.code, "rules of:" in rules.stdout) == (1, False)
    assert f'User "{user}" ' in rules.stdout
    flows = await cluster.run("flows", "-o", "json", user=user)
    assert (flows.code, flows.json["services"]) == (1, [])
    assert "connections of node1: " in unseen(flows)
    trace = await cluster.run("trace", "-n", NAMESPACE, "--from", "node/node1", "service/web", user=user)
    assert trace.code == 1
    assert "no connection was made" in trace.stdout or "nodes could not be read" in trace.stderr
    different = await cluster.run("diff-modes", "iptables", "nftables", "-o", "json", user=user)
    assert different.code == 0
    assert different.json["differences"]
    recorded = await cluster.run("record", str(cluster.directory / user), "--seconds", "0.1", user=user)
    assert recorded.code == 0
    lines = [line for line in recorded.stdout.splitlines() if line.startswith("Could not look at ")]
    assert all(any(kind in line for line in lines) for kind in missing)


async def check_one_namespace(cluster: ForeignCluster) -> None:
    own = await cluster.run("doctor", "-n", NAMESPACE, "-o", "json", user="one-namespace")
    assert (own.code, verdicts(own)) == (1, BROKEN)
    everywhere = await cluster.run("doctor", user="one-namespace")
    assert everywhere.code == 1  # nothing was examined
    assert "-n NAMESPACE" in everywhere.stderr
    assert len(everywhere.stdout.splitlines()) == 3, everywhere.stdout  # what has one reason is one line
    recorded = await cluster.run(
        "record", str(cluster.directory / "own"), "--seconds", "0.1", "-n", NAMESPACE, user="one-namespace"
    )
    assert recorded.code == 0
    assert "(6 services, 3 endpointslices, 4 pods, 0 nodes)" in recorded.stdout


async def check_nothing(cluster: ForeignCluster) -> None:
    for command in (
        ("doctor", "-n", NAMESPACE, "service/web"),
        ("rules",),
        ("rules", "--node", "node1"),
        ("flows",),
        ("diff-modes", "iptables", "nftables"),
    ):
        found = await cluster.run(*command, user="nothing")
        assert found.code == 1
        assert "node" in found.stderr + found.stdout


# --- An API that answers half ---------------------------------------------------------------------------------

FAILURES: dict[str, str] = {
    "500": "etcdserver: ?[31mno leader",
    "reset": "",
    "html": "not a JSON object",
    "cut": "not a JSON object",
    "shapes": "",
}


@in_namespace
async def test_kinds_that_the_api_does_not_list_are_left_out() -> None:
    async with foreign_cluster() as cluster:
        await create_services(cluster)
        load(expect_node(await read_cluster(cluster.admin), "node1"))
        for answer, why in FAILURES.items():
            await check_half(cluster, {"pods": answer, "events": answer, "networkpolicies": answer}, why)
        async with half_api(cluster, dict.fromkeys((*ESSENTIAL, "events", "configmaps", "leases"), "500")) as file:
            found = await run("doctor", "-o", "json", kubeconfig=file)
            assert (found.code, found.json["services"]) == (1, {})
        async with half_api(cluster, {"nodes": "hang", "ingresses": "hang"}) as file:
            found = await run("doctor", "-o", "json", kubeconfig=file)
            assert (found.code, verdicts(found)) == (1, BROKEN)
            assert {"nodes", "ingresses"} <= unseen_kinds(found)
            assert "no answer within" in unseen(found)


async def check_half(cluster: ForeignCluster, answers: dict[str, str], why: str) -> None:
    without_pods = {"moved": BROKEN["moved"]}
    async with half_api(cluster, answers) as file:
        found = await run("doctor", "-o", "json", kubeconfig=file)
        assert found.code == 1
        if "shapes" not in answers.values():  # a list without a readable object
            assert verdicts(found) == without_pods
            assert answers.keys() <= unseen_kinds(found)
        assert why in unseen(found)
        flows: Any = await run("flows", "-o", "json", kubeconfig=file)
        assert flows.code in (0, 1)
        assert flows.json["services"] == []
        recorded = await run("record", str(cluster.directory / "half"), "--seconds", "0.1", "--force", kubeconfig=file)
        assert recorded.code == 0, recorded.stderr
