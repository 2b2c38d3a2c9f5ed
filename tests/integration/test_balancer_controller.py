"""Walkthroughs of load-balancer addresses with kubectl: MetalLB's and OpenELB's objects, as tutorials apply them."""

from __future__ import annotations

import contextlib
import json
import signal
import ssl
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from bridgehead.balancer.definitions.install import load_definitions

from .balancer_process import EIPS, METALLB, BalancerProcess

pytestmark = [pytest.mark.integration, pytest.mark.needs("kubectl")]

POOL = """
apiVersion: metallb.io/v1beta1
kind: IPAddressPool
metadata:
  name: localip-pool
  namespace: metallb-system
spec:
  addresses:
  - 10.0.0.10-10.0.0.50
  autoAssign: true
  avoidBuggyIPs: true
"""
ADVERTISEMENT = """
apiVersion: metallb.io/v1beta1
kind: L2Advertisement
metadata:
  name: localip-pool-l2a
  namespace: metallb-system
spec:
  ipAddressPools:
  - localip-pool
  interfaces:
  - eth0
"""
EIP = """
apiVersion: network.kubesphere.io/v1alpha2
kind: Eip
metadata:
  name: eip-pool
  annotations:
    eip.openelb.kubesphere.io/is-default-eip: "true"
spec:
  address: 10.0.0.10-10.0.0.50
  protocol: layer2
  interface: eth0
  disable: false
"""


def service(name: str, *, annotations: dict[str, str] | None = None, **spec: Any) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {
            "type": "LoadBalancer",
            "externalTrafficPolicy": "Local",
            "selector": {"app": "myapp"},
            "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 80}],
            **spec,
        },
    }
    text: str = yaml.safe_dump(document)
    return text


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BalancerProcess]:
    with contextlib.closing(BalancerProcess(tmp_path_factory.mktemp("balancer"))) as world:
        world.start()
        yield world


def table(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines]


def test_w17_without_a_pool_the_service_waits_and_shows_the_reason(world: BalancerProcess) -> None:
    manifest = service("web")
    world.apply(manifest)
    (condition,) = world.eventually(lambda: world.service("web")["status"].get("conditions"), "a condition")
    assert (condition["status"], condition["reason"]) == ("False", "NoPool")
    assert condition["message"] == "no available IPs (there is no IPAddressPool and no Eip)"
    failed = ("AllocationFailed", f'Failed to allocate IP for "default/web": {condition["message"]}')
    world.eventually(lambda: failed in world.events("web"), "an Event")
    _, line = table(world.kubectl("get", "service", "web"))
    assert line[3] == "<pending>"
    assert ":" in line[4]  # it works as NodePort meanwhile
    world.apply(POOL)
    world.eventually(lambda: world.addresses("web") == ["10.0.0.10"], "an address")
    conditions = world.service("web")["status"].get("conditions", ())
    assert "NoPool" not in {condition["reason"] for condition in conditions}
    world.delete(manifest, POOL)


def test_w18_metallbs_objects_of_the_tutorial(world: BalancerProcess) -> None:
    manifest = service("lbaas")
    assert world.apply(POOL) == ["ipaddresspool.metallb.io/localip-pool created"]
    assert world.apply(ADVERTISEMENT) == ["l2advertisement.metallb.io/localip-pool-l2a created"]
    assert world.apply(POOL, ADVERTISEMENT)[0].endswith("unchanged")
    world.apply(manifest)
    world.eventually(lambda: world.addresses("lbaas") == ["10.0.0.10"], "an address")
    found = world.service("lbaas")
    assert found["metadata"]["annotations"]["metallb.io/ip-allocated-from-pool"] == "localip-pool"
    assert found["status"]["loadBalancer"]["ingress"] == [{"ip": "10.0.0.10", "ipMode": "VIP"}]
    assigned = ("IPAllocated", 'Assigned IP ["10.0.0.10"]')
    world.eventually(lambda: assigned in world.events("lbaas"), "an Event")
    _, line = table(world.kubectl("get", "service", "lbaas"))
    assert line[3] == "10.0.0.10"
    header, row = table(world.kubectl("-n", "metallb-system", "get", "ipaddresspools"))
    assert " ".join(header) == "NAME AUTO ASSIGN AVOID BUGGY IPS ADDRESSES"
    assert row == ["localip-pool", "true", "true", '["10.0.0.10-10.0.0.50"]']
    header, row = table(world.kubectl("-n", "metallb-system", "get", "l2advertisements"))
    assert " ".join(header) == "NAME IPADDRESSPOOLS IPADDRESSPOOL SELECTORS INTERFACES"
    assert row == ["localip-pool-l2a", '["localip-pool"]', '["eth0"]']
    pool = f"{METALLB}/ipaddresspools/localip-pool"
    wanted = {"assignedIPv4": 1, "availableIPv4": 40, "assignedIPv6": 0, "availableIPv6": 0}
    world.eventually(lambda: world.get(pool).get("status") == wanted, "the pool's status")
    world.delete(manifest, ADVERTISEMENT)
    world.eventually(lambda: world.get(pool)["status"]["assignedIPv4"] == 0, "the address is free")
    world.delete(POOL)


READY = """
apiVersion: v1
kind: Node
metadata: {name: node1}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: quiet-1, labels: {kubernetes.io/service-name: quiet}}
addressType: IPv4
endpoints: [{addresses: [10.244.0.5], nodeName: node1, conditions: {ready: true}}]
"""


def test_w17_an_address_that_no_node_announces_has_its_reason(world: BalancerProcess) -> None:
    manifest = service("quiet")
    world.apply(POOL, manifest)
    world.eventually(lambda: world.addresses("quiet") == ["10.0.0.10"], "an address")

    def reasons() -> list[str]:
        return [condition["reason"] for condition in world.service("quiet")["status"].get("conditions", ())]

    world.eventually(lambda: reasons() == ["NoAdvertisement"], "no advertisement")
    world.apply(ADVERTISEMENT)
    world.eventually(lambda: reasons() == ["NoEndpoints"], "no endpoints")
    why = "no node announces 10.0.0.10: the Service has no ready endpoint"
    world.eventually(lambda: ("NotAnnounced", why) in world.events("quiet"), "an Event")
    world.apply(READY)
    world.eventually(lambda: reasons() == [], "the reason goes with the first endpoint")
    assert world.addresses("quiet") == ["10.0.0.10"]
    world.kubectl("label", "node", "node1", "node.kubernetes.io/exclude-from-external-load-balancers=")
    world.eventually(lambda: reasons() == ["NoNode"], "no node")
    world.delete(manifest, ADVERTISEMENT, POOL, READY)


def test_w21_an_address_that_the_service_names(world: BalancerProcess) -> None:
    manifests = [service("named", loadBalancerIP="10.0.0.20"), service("other", loadBalancerIP="10.0.0.20")]
    world.apply(POOL, manifests[0])
    world.eventually(lambda: world.addresses("named") == ["10.0.0.20"], "the named address")
    world.apply(manifests[1])
    failed = (
        "AllocationFailed",
        'Failed to allocate IP for "default/other": can\'t change sharing key for "default/other", address also in use'
        " by default/named",
    )
    world.eventually(lambda: failed in world.events("other"), "an Event")
    world.delete(manifests[0])
    world.eventually(lambda: world.addresses("other") == ["10.0.0.20"], "the address that became free")
    world.delete(manifests[1], POOL)


def test_w19_openelbs_eip_of_the_tutorial(world: BalancerProcess) -> None:
    assert world.apply(EIP) == ["eip.network.kubesphere.io/eip-pool created"]
    world.eventually(lambda: world.get(f"{EIPS}/eip-pool").get("status"), "a status")
    header, row = table(world.kubectl("get", "eip"))
    assert header == ["NAME", "CIDR", "USAGE", "TOTAL"]
    assert row == ["eip-pool", "10.0.0.10-10.0.0.50", "41"]
    plain = service("plain")
    annotated = service("annotated", annotations={"lb.kubesphere.io/v1alpha1": "openelb"})
    world.apply(plain)
    world.eventually(lambda: world.addresses("plain") == ["10.0.0.10"], "an address without the annotation")
    world.apply(annotated)
    world.eventually(lambda: world.addresses("annotated") == ["10.0.0.11"], "an address")
    world.eventually(lambda: "finalizers" in world.service("annotated")["metadata"], "OpenELB's finalizer")
    assert world.service("annotated")["metadata"]["labels"] == {"eip.openelb.kubesphere.io/v1alpha2": "eip-pool"}
    used = {"10.0.0.10": "default/plain", "10.0.0.11": "default/annotated"}
    status = world.eventually(
        lambda: (found := world.get(f"{EIPS}/eip-pool")["status"]).get("used") == used and found, "the Eip's status"
    )
    assert (status["usage"], status["poolSize"], status["v4"]) == (2, 41, True)
    assert (status["firstIP"], status["lastIP"]) == ("10.0.0.10", "10.0.0.50")
    world.kubectl("delete", "service", "annotated")  # waits for the finalizer
    events = world.eventually(lambda: {r for r, _ in world.events("annotated")} >= {"ReleaseIP"}, "an Event")
    assert events
    world.kubectl("delete", "eip", "eip-pool")
    world.eventually(lambda: world.addresses("plain") == [], "the address goes with the Eip")
    world.delete(plain)


def test_an_eip_that_a_pool_overlaps_can_be_deleted(world: BalancerProcess) -> None:
    world.apply(EIP)
    world.eventually(lambda: world.get(f"{EIPS}/eip-pool").get("status"), "a status")
    assert world.apply(POOL)
    world.eventually(lambda: not world.get(f"{EIPS}/eip-pool")["status"].get("ready"), "the pool takes the range over")
    world.kubectl("delete", "eip", "eip-pool", "--timeout=60s")  # waits for the finalizer
    world.delete(POOL)


def test_metrics_are_served_with_tls(world: BalancerProcess) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    url = f"https://127.0.0.1:{world.secure_port}/metrics"
    with urllib.request.urlopen(url, timeout=20, context=context) as answer:
        assert "metallb_k8s_client_config_loaded_bool" in answer.read().decode()


def test_an_invalid_change_leaves_the_last_configuration_in_force(world: BalancerProcess) -> None:
    overlapping = POOL.replace("localip-pool", "second").replace("10.0.0.10-10.0.0.50", "10.0.0.40/29")
    manifest = service("steady")
    world.apply(POOL)
    world.eventually(lambda: "status" in world.get(f"{METALLB}/ipaddresspools/localip-pool"), "the pool is in force")
    world.apply(overlapping)
    state = world.eventually(lambda: (found := world.state())["result"] == "Invalid" and found, "an invalid one")
    text = 'CIDR "10.0.0.40/29" in pool "second" overlaps with already defined CIDR "10.0.0.10-10.0.0.50"'
    assert state["errorSummary"] == f"configuration error: {text}"
    world.eventually(lambda: ("InvalidConfiguration", text) in world.events("second"), "an Event about the pool")
    world.apply(manifest)
    world.eventually(lambda: world.addresses("steady") == ["10.0.0.10"], "an address of the pool in force")
    world.delete(overlapping)
    world.eventually(lambda: world.state()["result"] == "Valid", "the valid configuration again")
    assert world.addresses("steady") == ["10.0.0.10"]
    world.delete(manifest, POOL)


REFUSAL = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: addresses}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [UPDATE], resources: [services/status]}
  validations:
  - expression: object.status.loadBalancer.?ingress.orValue([]).all(i, i.ip != '10.7.0.1')
    message: this address is not for Services
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: addresses}
spec: {policyName: addresses, validationActions: [Deny]}
"""


def test_an_address_that_the_api_server_refuses_has_an_event(world: BalancerProcess) -> None:
    manifest, pool = service("refused"), POOL.replace("10.0.0.10-10.0.0.50", "10.7.0.1/32")
    world.apply(REFUSAL)
    world.apply(pool, manifest)

    def is_refused() -> bool:
        return any(
            reason == "UpdateFailed" and "not for Services" in message for reason, message in world.events("refused")
        )

    world.eventually(is_refused, "an Event")
    assert world.addresses("refused") == []
    world.apply(POOL)
    world.eventually(lambda: world.addresses("refused") == ["10.0.0.10"], "an address of the changed pool")
    world.delete(manifest, POOL, REFUSAL)


def test_a_pool_of_cluster_ips_is_refused(world: BalancerProcess) -> None:
    pool = POOL.replace("10.0.0.10-10.0.0.50", "10.100.0.0/30")
    world.apply(pool)
    text = 'parsing address pool localip-pool: "10.100.0.0/30" contains 10.100.0.0, an address of the Service range '
    world.eventually(lambda: text in world.state().get("errorSummary", ""), "the reason")
    world.delete(pool)
    world.eventually(lambda: world.state()["result"] == "Valid", "the valid configuration again")


def test_a_pool_of_pods_is_refused(world: BalancerProcess) -> None:
    node = """
apiVersion: v1
kind: Node
metadata: {name: pods}
spec: {podCIDR: 10.244.9.0/24, podCIDRs: [10.244.9.0/24, "fd00:10:244:9::/64"]}
"""
    world.apply(node)
    for addresses, text in (
        ("10.244.9.0-10.244.9.3", '"10.244.9.0-10.244.9.3" contains 10.244.9.0, an address of the range of pods '),
        ("fd00:10:244::/48", '"fd00:10:244::/48" contains fd00:10:244:9::, an address of the range of pods '),
    ):
        pool = POOL.replace("10.0.0.10-10.0.0.50", addresses)
        world.apply(pool)
        world.eventually(lambda text=text: text in world.state().get("errorSummary", ""), "the reason")
        world.delete(pool)
        world.eventually(lambda: world.state()["result"] == "Valid", "the valid configuration again")
    world.delete(node)


def test_definitions_that_are_deleted_are_installed_again(world: BalancerProcess) -> None:
    names = ["ipaddresspools.metallb.io", "eips.network.kubesphere.io", "configurationstates.metallb.io"]
    before = world.kubectl("get", "crd", *names, "-o", "jsonpath={.items[*].metadata.uid}")
    world.kubectl("delete", "crd", *names)
    world.eventually(
        lambda: (
            world.kubectl(
                "get", "crd", *names, "--ignore-not-found", "-o", "jsonpath={.items[*].status.acceptedNames.kind}"
            )
            == ["IPAddressPool Eip ConfigurationState"]
        ),
        "the definitions",
    )
    assert world.kubectl("get", "crd", *names, "-o", "jsonpath={.items[*].metadata.uid}") != before
    manifest = service("after")
    world.apply(manifest)
    world.eventually(lambda: world.try_apply(POOL), "pools are served")
    world.eventually(lambda: world.state().get("result") == "Valid", "the state of the configuration")
    world.eventually(lambda: world.addresses("after") == ["10.0.0.10"], "an address")
    world.delete(manifest, POOL)


def test_definitions_of_an_earlier_version_can_be_adopted_by_helm(world: BalancerProcess) -> None:
    name = "communities.metallb.io"
    world.kubectl("annotate", "crd", name, "bridgehead.io/installed-by-", "meta.helm.sh/release-name-")
    assert world.stop() == 0
    world.start()

    def owned() -> list[dict[str, Any]]:
        found = world.get(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")["metadata"]
        if found["annotations"].get("meta.helm.sh/release-name") != "metallb":
            return []
        return [entry["fieldsV1"] for entry in found.get("managedFields", ()) if "subresource" not in entry]

    nothing_else = [{"f:metadata": {"f:annotations": {"f:bridgehead.io/installed-by": {}}}}]
    world.eventually(lambda: owned() == nothing_else, "the metadata of this version")


def test_the_speakers_secret_comes_back(world: BalancerProcess) -> None:
    uid = ["-n", "bridgehead-system", "get", "secret", "bridgehead-speakers", "--ignore-not-found", "-o"]
    uid += ["jsonpath={.metadata.uid}"]
    before = world.kubectl(*uid)
    assert before
    world.kubectl("-n", "bridgehead-system", "delete", "secret", "bridgehead-speakers")
    world.eventually(lambda: world.kubectl(*uid) not in ([], before), "another Secret")


def test_the_secret_names_the_kinds_in_use(world: BalancerProcess) -> None:
    def kinds() -> set[str]:
        secret = world.get("/api/v1/namespaces/bridgehead-system/secrets/bridgehead-speakers")
        return set(secret["metadata"].get("annotations", {}).get("bridgehead.io/kinds-in-use", "?").split(","))

    pools, advertisements = "ipaddresspools.metallb.io", "l2advertisements.metallb.io"
    world.apply(POOL, ADVERTISEMENT)
    world.eventually(lambda: {pools, advertisements} <= kinds(), "the kinds of both objects")
    world.delete(ADVERTISEMENT)
    world.eventually(lambda: advertisements not in kinds(), "the kind of the pool alone")
    assert pools in kinds()
    world.delete(POOL)


def test_the_rules_of_the_definitions_refuse_what_cel_can_see(world: BalancerProcess) -> None:
    def refusal(manifest: str) -> str:
        result = world.server.kubectl("apply", "-f", "-", stdin=manifest)
        assert result.returncode == 1
        return result.stderr

    assert "a single address is written with /32 or /128" in refusal(POOL.replace("10.0.0.10-10.0.0.50", "10.0.0.10"))
    assert "interface is required" in refusal(EIP.replace("interface: eth0", "priority: 1"))
    peer = {
        "apiVersion": "metallb.io/v1beta2",
        "kind": "BGPPeer",
        "metadata": {"name": "router", "namespace": "metallb-system"},
        "spec": {"myASN": 64500, "peerASN": 64501, "peerAddress": "10.0.0.2", "connectTime": "100ms"},
    }
    assert "connect time should be between 1 seconds" in refusal(json.dumps(peer))


def test_both_versions_of_peers_and_openelbs_peers_are_stored(world: BalancerProcess) -> None:
    peer = """
apiVersion: metallb.io/v1beta1
kind: BGPPeer
metadata: {name: router, namespace: metallb-system}
spec:
  myASN: 64500
  peerASN: 4200000000
  peerAddress: 10.0.0.2
  nodeSelectors: [{matchExpressions: [{key: rack, operator: In, values: [a]}]}]
"""
    openelb = """
apiVersion: network.kubesphere.io/v1alpha2
kind: BgpConf
metadata: {name: default}
spec: {as: 50000, listenPort: 17900, routerId: 192.168.0.2}
---
apiVersion: network.kubesphere.io/v1alpha2
kind: BgpPeer
metadata: {name: tor}
spec:
  conf: {peerAs: 50001, neighborAddress: 192.168.0.5}
  afiSafis: [{config: {family: {afi: AFI_IP, safi: SAFI_UNICAST}, enabled: true}, addPaths: {config: {sendMax: 10}}}]
  nodeSelector: {matchLabels: {openelb.kubesphere.io/rack: leaf1}}
"""
    result = world.server.kubectl("apply", "-f", "-", stdin=peer)
    assert (result.returncode, result.stdout) == (0, "bgppeer.metallb.io/router created\n")
    assert result.stderr == "Warning: v1beta1 is deprecated, please use v1beta2\n"
    spec = world.get("/apis/metallb.io/v1beta2/namespaces/metallb-system/bgppeers/router")["spec"]
    assert (spec["peerASN"], spec["peerPort"]) == (4200000000, 179)
    header, row = table(world.kubectl("-n", "metallb-system", "get", "bgppeers.metallb.io"))
    assert " ".join(header) == "NAME ADDRESS ASN BFD PROFILE MULTI HOPS"
    assert row == ["router", "10.0.0.2", "4200000000"]
    assert len(world.apply(openelb)) == 2
    (safi,) = world.get("/apis/network.kubesphere.io/v1alpha2/bgppeers/tor")["spec"]["afiSafis"]
    assert safi["addPaths"] == {"config": {"sendMax": 10}}
    world.delete(peer, openelb)


def test_w48_the_definitions_of_a_published_manifest_are_accepted(world: BalancerProcess) -> None:
    """Users who apply MetalLB's manifest later, by both kinds of apply, get no conflict, and objects stay."""
    world.apply(POOL)
    for definition in load_definitions("metallb.yaml")[:2]:
        definition["metadata"]["annotations"] = {"controller-gen.kubebuilder.io/version": "v0.14.0"}
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "published"
        text = json.dumps(definition)
        world.kubectl("apply", "--server-side", "-f", "-", stdin=text)
        assert world.kubectl("apply", "-f", "-", stdin=text)
        name = definition["metadata"]["name"]
        assert world.kubectl("get", "crd", name, "-o", "jsonpath={.metadata.annotations}")
    manifest = service("still")
    world.apply(manifest)
    world.eventually(lambda: world.addresses("still") == ["10.0.0.10"], "an address")
    world.delete(manifest, POOL)


def test_a_restart_changes_no_address(world: BalancerProcess) -> None:
    manifests = [service(f"r{number}") for number in range(4)]
    world.apply(POOL, *manifests)
    names = [f"r{number}" for number in range(4)]
    before = world.eventually(
        lambda: all(map(world.addresses, names)) and list(map(world.addresses, names)), "addresses"
    )
    world.delete(manifests[0])
    assert world.stop(signal.SIGTERM) == 0
    new = service("new")
    world.apply(new)
    world.start()
    (address,) = world.eventually(lambda: world.addresses("new"), "an address of a Service that came meanwhile")
    assert [address] not in before[1:]
    assert [world.addresses(name) for name in names[1:]] == before[1:]
    world.delete(*manifests[1:], new, POOL)


def test_a_start_with_an_invalid_configuration_keeps_addresses(world: BalancerProcess) -> None:
    overlapping = POOL.replace("localip-pool", "overlapping")
    held, waiting = service("held"), service("waiting")
    world.apply(POOL, held)
    world.eventually(lambda: world.addresses("held") == ["10.0.0.10"], "an address")
    assert world.stop(signal.SIGKILL) == -signal.SIGKILL
    world.apply(overlapping, waiting)
    world.start()
    world.eventually(lambda: world.state()["result"] == "Invalid", "an invalid configuration")
    (condition,) = world.eventually(lambda: world.service("waiting")["status"].get("conditions"), "a condition")
    assert condition["reason"] == "InvalidConfiguration"
    assert 'in pool "overlapping" overlaps with already defined CIDR' in condition["message"]
    assert world.addresses("held") == ["10.0.0.10"]
    world.delete(overlapping)
    world.eventually(lambda: world.addresses("waiting") == ["10.0.0.11"], "an address")
    world.delete(held, waiting, POOL)


def test_cleanup_leaves_nothing_of_a_killed_balancer(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Finalizers of a balancer that is gone kept Services and Eips for ever."""
    with contextlib.closing(BalancerProcess(tmp_path_factory.mktemp("cleanup"))) as world:
        world.start()
        world.apply(POOL, ADVERTISEMENT, EIP.replace("10.0.0.10-10.0.0.50", "10.0.0.60-10.0.0.70"))
        world.apply(
            service("web"),
            service("elb", annotations={"lb.kubesphere.io/v1alpha1": "openelb"}),
            service("other", externalTrafficPolicy="Cluster"),
        )
        world.eventually(lambda: world.addresses("web") and world.addresses("elb"), "addresses")
        world.eventually(lambda: world.service("elb")["metadata"].get("finalizers"), "OpenELB's finalizer")
        world.eventually(lambda: world.get(f"{EIPS}/eip-pool")["metadata"].get("finalizers"), "the Eip's finalizer")
        world.eventually(
            lambda: world.get(f"{METALLB}/ipaddresspools/localip-pool").get("status"), "the status of the pool"
        )
        assert world.stop(signal.SIGKILL) == -signal.SIGKILL
        # An address that another controller gave is not ours.
        given = '{"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}}'
        world.kubectl("patch", "service", "other", "--subresource=status", "--type=merge", "-p", given)

        lines = world.run("--cleanup")
        assert "status of service default/web" in lines
        assert "left: customresourcedefinition ipaddresspools.metallb.io, which has objects" in lines

        def traces(obj: dict[str, Any]) -> list[Any]:
            meta, status = obj["metadata"], obj.get("status") or {}
            pools = [name for name in meta.get("annotations", {}) if "ip-allocated-from-pool" in name]
            addresses = status.get("loadBalancer", {}).get("ingress", ())
            fields = (meta.get("finalizers", ()), meta.get("labels", ()), status.get("conditions", ()), addresses)
            return [*pools, *(entry for field in fields for entry in field)]

        assert traces(world.service("web")) == traces(world.service("elb")) == []
        assert world.addresses("other") == ["192.0.2.7"]
        assert "finalizers" not in world.get(f"{EIPS}/eip-pool")["metadata"]
        for path in (f"{METALLB}/ipaddresspools/localip-pool", f"{EIPS}/eip-pool"):
            assert not world.get(path).get("status"), path
        assert world.state() == {}
        assert world.get("/api/v1/namespaces/bridgehead-system/secrets/bridgehead-speakers") == {}
        # Definitions without objects are gone, too; a second run finds nothing but those that have some.
        assert world.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/bfdprofiles.metallb.io") == {}
        assert all(line.startswith("left: ") for line in world.run("--cleanup"))


REAL = """
apiVersion: v1
kind: Pod
metadata: {name: controller-x, namespace: metallb-system, labels: {app: metallb, component: controller}}
spec: {containers: [{name: controller, image: "quay.io/metallb/controller:v0.15.2"}]}
"""


def set_status(world: BalancerProcess, image_id: str) -> None:
    """Let the pod of `REAL` run this image, and be ready."""
    state = {"name": "controller", "image": "c", "imageID": image_id, "ready": True, "restartCount": 0}
    state["state"] = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}], "containerStatuses": [state]}
    where = ("controller-x", "-n", "metallb-system", "--subresource=status")
    world.kubectl("patch", "pod", *where, "-p", json.dumps({"status": status}))


def test_the_balancer_steps_back_for_metallb_itself(world: BalancerProcess) -> None:
    """Two balancers would give one address to two Services."""
    world.apply(POOL, ADVERTISEMENT, service("before"))
    world.eventually(lambda: world.addresses("before") == ["10.0.0.10"], "an address")
    world.apply(service("elb", annotations={"lb.kubesphere.io/v1alpha1": "openelb"}))  # waits: there is no Eip
    world.eventually(lambda: conditions(world, "elb"), "the reason why it waits")
    world.kubectl("create", "serviceaccount", "default", "-n", "metallb-system")
    world.apply(REAL)

    # A stand-in is no reason.
    set_status(world, "bridgehead-stand-in://metallb-controller:v0.15.2")
    world.apply(service("beside"))
    world.eventually(lambda: world.addresses("beside") == ["10.0.0.11"], "an address")
    assert stepped_back_for(world) is None

    set_status(world, "quay.io/metallb/controller@sha256:" + "0" * 64)
    world.eventually(lambda: stepped_back_for(world) == "metallb-system/controller-x", "the speakers are told")
    world.eventually(
        lambda: [reason for reason, _ in world.events("controller-x") if reason == "BalancerSteppedBack"], "an Event"
    )
    world.eventually(lambda: not conditions(world, "elb"), "no condition of a balancer that does not serve it")
    world.apply(service("after"))
    assert world.addresses("before") == ["10.0.0.10"], "MetalLB takes it over"

    world.kubectl("delete", "pod", "controller-x", "-n", "metallb-system", "--grace-period=0", "--force")
    world.eventually(lambda: world.addresses("after") == ["10.0.0.12"], "an address again")
    world.eventually(lambda: stepped_back_for(world) is None, "the speakers are told")
    expected = {"BalancerSteppedBack", "BalancerResumed"}
    world.eventually(lambda: expected <= {reason for reason, _ in world.events("controller-x")}, "an Event")
    world.delete(POOL, ADVERTISEMENT, *map(service, ("before", "beside", "elb", "after")))


def conditions(world: BalancerProcess, name: str) -> list[Any]:
    found: list[Any] = world.service(name).get("status", {}).get("conditions", [])
    return found


def stepped_back_for(world: BalancerProcess) -> str | None:
    secret = world.get("/api/v1/namespaces/bridgehead-system/secrets/bridgehead-speakers")
    found: str | None = secret["metadata"].get("annotations", {}).get("bridgehead.io/stepped-back-for")
    return found
