"""W16, W20, W48: addresses that VRRP and BGP announce, and the published manifests of MetalLB and OpenELB.

The objects belong to the whole cluster, whose other tests of them are in another file: one worker runs a file's tests
in turn, and a worker has a lab of its own.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

import bridgehead.balancer.definitions

from . import fabric, router
from .conftest import Lab, Namespace, curl, eventually
from .test_balancer import EIP, METALLB, NODES, address_of, applied, away_from, eips, holder_of, node_is_ready
from .test_services import ANSWER, make_myweb, service

pytestmark = pytest.mark.usefixtures("speakers")

PUBLISHED = Path(__file__).with_name("published")
DEFINITIONS = Path(bridgehead.balancer.definitions.__file__).parent


def answers(lab: Lab, address: str) -> re.Match[str] | None:
    return ANSWER.match(curl(lab, f"http://{address}/", "--max-time", "1").stdout)


# --- W16: VRRP ------------------------------------------------------------------------------------------------------

VIPS = """
apiVersion: network.kubesphere.io/v1alpha2
kind: Eip
metadata: {name: vips}
spec: {address: 10.0.0.88-10.0.0.89, protocol: vip, interface: eth0}
"""


def settled_master(lab: Lab, addresses: set[str]) -> str:
    """Return the node with the highest priority of the addresses' group, once it alone is the master."""
    found = {}
    for node, ip in NODES.items():
        page = json.loads(curl(lab, f"http://{ip}:7472/status").stdout or "{}")
        for group in page.get("sections", {}).get("vrrp", ()):
            if set(group["addresses"]) == addresses:
                found[group["priority"]] = node, group["master"]
    masters = [node for node, is_master in found.values() if is_master]
    return masters[0] if len(found) == len(NODES) and masters == [found[max(found)][0]] else ""


@pytest.mark.needs("keepalived")
def test_w16_a_vrrp_group_holds_an_external_ip_and_its_holder_dies(lab: Lab, ns: Namespace) -> None:
    external, given = "10.0.0.88", "10.0.0.89"
    with applied(lab, VIPS):
        make_myweb(ns, 3)
        ns.apply(service("external", externalIPs=[external]))
        chosen = json.loads(service("given", type="LoadBalancer"))
        chosen["metadata"]["annotations"] = {
            "eip.openelb.kubesphere.io/v1alpha2": "vips",
            "eip.openelb.kubesphere.io/v1alpha1": given,
        }
        ns.apply(json.dumps(chosen))
        assert eventually(lambda: address_of(ns, "given")) == given
        eventually(lambda: answers(lab, external) and answers(lab, given))
        # One group: one node has both addresses, and shows them.
        holder = eventually(lambda: settled_master(lab, {external, given}))
        eventually(lambda: holder_of(lab, external) == holder_of(lab, given) == holder)
        shown = lab.inside("ip", "-brief", "address", "show", "dev", "eth0", node=holder).stdout
        assert f"{external}/32" in shown, shown
        # The pods go to other nodes, so that each connection can be answered while the holder is cut off.
        patch = {"spec": {"template": {"spec": {"affinity": away_from(holder)}}}}
        ns.kubectl("patch", "deployment", "myweb", "-p", json.dumps(patch))
        ns.rolled_out("deployment/myweb")
        ns.wait_endpoints("external", 3)
        with fabric.black_holed(lab, holder):
            eventually(lambda: answers(lab, external) and answers(lab, given))
            assert eventually(lambda: holder_of(lab, external)) in set(NODES) - {holder}
        eventually(lambda: node_is_ready(lab, holder))


# --- W20: BGP -------------------------------------------------------------------------------------------------------

BGP = f"""
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata: {{name: routed, namespace: metallb-system}}
spec: {{addresses: [10.9.0.0/24], avoidBuggyIPs: true}}
---
apiVersion: metallb.io/v1beta1
kind: BFDProfile
metadata: {{name: fast, namespace: metallb-system}}
spec: {{receiveInterval: 100, transmitInterval: 100, detectMultiplier: 3}}
---
apiVersion: metallb.io/v1beta2
kind: BGPPeer
metadata: {{name: router, namespace: metallb-system}}
spec:
  myASN: {router.NODES_ASN}
  peerASN: {router.ROUTER_ASN}
  peerAddress: 10.0.0.1
  bfdProfile: fast
---
apiVersion: metallb.io/v1beta1
kind: BGPAdvertisement
metadata: {{name: routed, namespace: metallb-system}}
spec: {{ipAddressPools: [routed]}}
"""


@pytest.mark.needs("bird", "birdc")
def test_w20_a_router_has_a_route_with_one_next_hop_for_each_node(lab: Lab, ns: Namespace) -> None:
    with router.bird(lab, len(NODES)), applied(lab, BGP):
        make_myweb(ns, 1)
        ns.apply(service("web", type="LoadBalancer"))
        address = eventually(lambda: address_of(ns, "web"))
        assert address == "10.9.0.1"
        eventually(lambda: router.next_hops(lab, address) == sorted(NODES.values()))
        eventually(lambda: answers(lab, address))
        eventually(lambda: lab.command("balancer", "status").stdout.count(" established ") == len(NODES))
        # Local: only the node with the endpoint; the client's address stays.
        ns.kubectl("patch", "service", "web", "-p", '{"spec": {"externalTrafficPolicy": "Local"}}')
        home = ns.pods("app=myweb")[0]["spec"]["nodeName"]
        eventually(lambda: router.next_hops(lab, address) == [NODES[home]])
        # The node's proxy may program the policy after the speaker has changed the routes.
        eventually(lambda: (answer := answers(lab, address)) is not None and answer[1] == "10.0.0.1")
        ns.kubectl("scale", "deployment/myweb", "--replicas=0")
        eventually(lambda: router.next_hops(lab, address) == [])


# --- W48: the published manifests -----------------------------------------------------------------------------------


def test_w48_the_published_manifests_are_accepted_and_served(lab: Lab, ns: Namespace) -> None:
    metallb, openelb = ((PUBLISHED / name).read_text() for name in ("metallb-native.yaml", "openelb.yaml"))
    try:
        for manifest in (metallb, openelb):
            result = lab.kubectl("apply", "-f", "-", stdin=manifest)
            assert (result.returncode, result.stderr) == (0, "")
            lines = result.stdout.splitlines()
            assert len(lines) == len(list(yaml.safe_load_all(manifest))), result.stdout
            assert all(line.endswith((" created", " configured")) for line in lines), result.stdout
        # The pods of the manifests are stand-ins, which are ready and name who serves the objects.
        for namespace, *workloads in (
            ("metallb-system", "deployment/controller", "daemonset/speaker"),
            ("openelb-system", "deployment/openelb-controller", "daemonset/openelb-speaker"),
        ):
            Namespace(lab, namespace).rolled_out(*workloads)
            for workload in workloads:
                log = Namespace(lab, namespace).kubectl("logs", workload)
                assert "The lab's own balancer (kube-system) serves" in log, log
        for job in ("openelb-admission-create", "openelb-admission-patch"):
            Namespace(lab, "openelb-system").kubectl("wait", "--for=condition=Complete", f"job/{job}", "--timeout=60s")
        # The webhooks of both manifests must answer from now on. The lab's balancer is all that can.
        eventually(lambda: dry_run(lab, METALLB + "---" + EIP).returncode == 0)
        for _ in range(10):  # whichever endpoint is called: the stand-ins pass the calls on
            assert dry_run(lab, METALLB + "---" + EIP).returncode == 0
        assert "denied the request: parsing address pool bad" in dry_run(lab, BAD_POOL).stderr
        with applied(lab, METALLB), applied(lab, EIP):
            make_myweb(ns, 1)
            ns.apply(service("of-metallb", type="LoadBalancer", externalTrafficPolicy="Local"))
            assert eventually(lambda: address_of(ns, "of-metallb")) == "10.0.0.10"
            chosen = json.loads(service("of-openelb", type="LoadBalancer"))
            chosen["metadata"]["annotations"] = {"lb.kubesphere.io/v1alpha1": "openelb"}
            ns.apply(json.dumps(chosen))
            assert eventually(lambda: address_of(ns, "of-openelb")) == "10.0.0.60"
            eventually(lambda: answers(lab, "10.0.0.10") and answers(lab, "10.0.0.60"))
            # BGPPeers of the old version are converted by the webhook of the manifest.
            with applied(lab, OLD_PEER):
                found = lab.kubectl("get", "bgppeers.v1beta2.metallb.io", "-n", "metallb-system", "-o", "name")
                assert found.stdout == "bgppeer.metallb.io/old\n", found.stderr
            eventually(lambda: "eip-pool" in eips(lab))
            ns.kubectl("delete", "service", "of-metallb", "of-openelb")
    finally:
        remove(lab, metallb)
        remove(lab, openelb)


OLD_PEER = """
apiVersion: metallb.io/v1beta1
kind: BGPPeer
metadata: {name: old, namespace: metallb-system}
spec: {myASN: 64512, peerASN: 64513, peerAddress: 10.0.0.1, nodeSelectors: [{matchLabels: {none: such}}]}
"""


BAD_POOL = METALLB.replace("localip-pool", "bad").replace("10.0.0.10-", "10.0.0.60-")


def dry_run(lab: Lab, manifest: str) -> subprocess.CompletedProcess[str]:
    return lab.kubectl("apply", "--dry-run=server", "-f", "-", stdin=manifest)


def remove(lab: Lab, manifest: str) -> None:
    """Delete a manifest's objects, but keep those of the lab: the definitions, as they were, and their namespace."""
    kept = {"CustomResourceDefinition"}
    objects = [
        obj
        for obj in yaml.safe_load_all(manifest)
        if obj["kind"] not in kept and (obj["kind"], obj["metadata"]["name"]) != ("Namespace", "metallb-system")
    ]
    text = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
    lab.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", stdin=text)
    for file in ("metallb.yaml", "openelb.yaml"):
        result = lab.kubectl("apply", "-f", DEFINITIONS / file)
        assert result.returncode == 0, result.stderr
