"""Doctor names the cause that a change made, and finds none in clusters that work."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from functools import cache
from typing import Any

import msgspec
import pytest

from bridgehead.balancer.allocation.pending_reasons import UNANNOUNCED_REASONS, PendingReason
from bridgehead.balancer.controller import service_patches
from bridgehead.insight.doctor.catalogue import CAUSES
from bridgehead.insight.doctor.diagnosis import Diagnosis, confirmed, diagnose, needs_confirmation
from bridgehead.insight.doctor.load_balancers import CAUSES_BY_REASON, CONDITION
from bridgehead.insight.doctor.report import render_json, render_text
from bridgehead.insight.doctor.subjects import Facts, Target
from bridgehead.insight.facts.cluster_state import ClusterState
from bridgehead.insight.findings import Finding, Severity, Unseen
from bridgehead.objects.meta import ObjectKey
from tests.unit.insight import broken_clusters, broken_kernels
from tests.unit.insight.generated_clusters import NOW, World, base, deployment, healthy, node

HEALTHY = 200
CASES = {case.name: case for case in broken_clusters.CASES}
KINDS = (
    "services",
    "endpointslices",
    "endpoints",
    "pods",
    "nodes",
    "namespaces",
    "events",
    "leases",
    "configmaps",
    "servicecidrs",
    "networkpolicies",
    "ingresses",
    "ingressclasses",
    "deployments",
    "statefulsets",
    "daemonsets",
)
# The field of `ClusterState` with the objects of a kind.
FIELDS = {
    "endpointslices": "slices",
    "leases": "progress",
    "configmaps": "config_maps",
    "servicecidrs": "service_cidrs",
    "networkpolicies": "network_policies",
    "ingressclasses": "ingress_classes",
    "deployments": "workloads",
    "statefulsets": "workloads",
    "daemonsets": "workloads",
}


def test_there_are_enough_broken_clusters():
    serious = [case for case in CASES.values() if _diagnose(case).findings[0].severity is not Severity.NOTICE]
    assert len(serious) >= 60
    assert len({case.cause for case in serious}) >= 40
    assert len(CASES) == len(broken_clusters.CASES)


@pytest.mark.parametrize("name", CASES)
def test_the_first_verdict_is_the_cause_that_was_made(name):
    case = CASES[name]
    diagnosis = _diagnose(case)
    first = diagnosis.findings[0]
    assert (first.cause, first.subject) == (case.cause, case.subject), diagnosis.findings
    assert first.text
    assert first.fix
    kind, _, service = case.subject.partition("/")
    if kind == "service" and first.severity is not Severity.NOTICE:
        assert diagnosis.services[service] == case.cause


@pytest.mark.parametrize("name", CASES)
def test_a_change_breaks_nothing_else(name):
    """Other Services have a verdict only where the change is one of two objects."""
    case = CASES[name]
    others = {
        finding.subject
        for finding in _diagnose(case).verdicts
        if finding.cause != case.cause and finding.subject.startswith("service/") and finding.subject != case.subject
    }
    assert not others


def test_clusters_that_work_have_no_verdict():
    for seed in range(HEALTHY):
        _, facts = _healthy(seed)
        assert diagnose(facts).findings == (), seed


def test_the_generated_clusters_differ_in_everything_that_matters():
    found: Counter[object] = Counter()
    for seed in range(HEALTHY):
        world, facts = _healthy(seed)
        for service in world.services.values():
            spec = service.spec
            found[spec.type] += 1
            found["headless", spec.cluster_ip == "None"] += 1
            found["families", len(spec.ip_families)] += 1
            found["affinity", spec.session_affinity] += 1
            found["internal", spec.internal_traffic_policy] += 1
            found["external", spec.external_traffic_policy] += 1
            found["distribution", spec.traffic_distribution] += 1
            found["ranges", bool(spec.load_balancer_source_ranges)] += 1
            found["external IPs", bool(spec.external_ips)] += 1
            found["by hand", not spec.selector] += 1
            found.update(("named", isinstance(port.target_port, str)) for port in spec.ports)
            found.update(("protocol", port.protocol) for port in spec.ports)
        found["terminating"] += any(pod.is_terminating for pod in world.pods.values())
        found["policies"] += bool(world.network_policies)
        found["listeners"] += bool(facts.pod_listeners)
        found["hints"] += any(endpoint.hints for each in facts.cluster.slices for endpoint in each.endpoints)
    for expected in (
        "ClusterIP",
        "NodePort",
        "LoadBalancer",
        "ExternalName",
        ("headless", True),
        ("families", 2),
        ("affinity", "ClientIP"),
        ("internal", "Local"),
        ("external", "Local"),
        ("distribution", "PreferClose"),
        ("distribution", "PreferSameNode"),
        ("ranges", True),
        ("external IPs", True),
        ("by hand", True),
        ("named", True),
        ("protocol", "UDP"),
        ("protocol", "SCTP"),
        "terminating",
        "policies",
        "listeners",
        "hints",
    ):
        assert found[expected] >= 5, expected


def test_nothing_is_concluded_from_kinds_that_were_not_read():
    """Without a kind, a cluster that works has no verdict, though objects seem to be missing."""
    for kind in KINDS:
        world = base()
        facts = world.facts()
        field = FIELDS.get(kind, kind)
        empty = () if isinstance(getattr(facts.cluster, field), list | tuple) else {}
        cluster = _replaced(facts.cluster, **{field: empty, "unseen": (Unseen(kind, "forbidden"),)})
        diagnosis = diagnose(Facts(cluster=cluster))
        assert not diagnosis.verdicts, (kind, diagnosis.verdicts)
        assert Unseen(kind, "forbidden") in diagnosis.unseen
        assert f"Could not look at {kind}: forbidden" in render_text(diagnosis)


def test_a_cluster_of_which_half_was_read():
    """Any combination of kinds may be missing."""
    chance = random.Random(1)
    for seed in range(100):
        cluster = _healthy(seed)[1].cluster
        for kind in chance.sample(KINDS, chance.randint(1, 8)):
            field = FIELDS.get(kind, kind)
            empty = () if isinstance(getattr(cluster, field), list | tuple) else {}
            cluster = _replaced(cluster, **{field: empty, "unseen": (*cluster.unseen, Unseen(kind, "forbidden"))})
        assert not diagnose(Facts(cluster=cluster)).verdicts


@pytest.mark.parametrize("name", CASES)
def test_broken_and_half_read_clusters_are_diagnosed(name):
    """A broken cluster without a kind is diagnosed, too."""
    cluster = _facts(CASES[name]).cluster
    for kind in random.Random(name).sample(KINDS, 4):
        field = FIELDS.get(kind, kind)
        empty = () if isinstance(getattr(cluster, field), list | tuple) else {}
        less = _replaced(cluster, **{field: empty, "unseen": (Unseen(kind, "forbidden"),)})
        render_text(diagnose(Facts(cluster=less)))


def test_reasons_of_the_balancer_have_causes():
    assert CAUSES_BY_REASON.keys() == {reason.value for reason in PendingReason} - UNANNOUNCED_REASONS
    assert CONDITION == service_patches.CONDITION


def test_services_that_were_asked_for_are_examined_alone():
    world = base()
    world.change_service("web", selector={"app": "wbe"})
    world.change_port("api", 0, "shop", target_port="htpp")
    world.targets.append(Target(ObjectKey("shop", "api")))
    diagnosis = diagnose(world.facts())
    assert diagnosis.services == {"shop/api": "TargetPortNameMissing"}
    assert [finding.cause for finding in diagnosis.findings] == ["TargetPortNameMissing"]


def test_an_earlier_cause_comes_first():
    world = base()
    world.change_service("web", selector={"app": "wbe"}, external_ips=("10.0.0.99",))
    causes = [finding.cause for finding in diagnose(world.facts()).findings]
    assert causes == ["SelectorMisspelled", "ExternalIPHeldByNobody"]


def test_the_dns_counts_for_a_service_that_was_asked_for():
    world = base()
    world.targets.append(Target(ObjectKey("default", "web")))
    assert diagnose(world.facts()).services == {"default/web": ""}
    broken_clusters.CASES[[case.name for case in broken_clusters.CASES].index("dns_pods_crash")].change(world)
    diagnosis = diagnose(world.facts())
    assert diagnosis.services["default/web"] == ""
    assert diagnosis.findings[0].cause == "DnsWithoutEndpoints"
    assert diagnosis.is_broken


def test_unusual_clusters_that_work():
    """Each has something that looks like a cause and is none."""
    world = base()
    world.nodes["fargate"] = node(7, "a")
    world.change_metadata(world.nodes, "fargate", name="fargate", labels={"eks.amazonaws.com/compute-type": "fargate"})
    corefile = "kubernetes cluster.local\nforward . 127.0.0.1:5353 [::1]:5353 dns://192.0.2.1:53 /etc/resolv.conf\n"
    key = ObjectKey("kube-system", "coredns")
    world.config_maps[key] = msgspec.structs.replace(world.config_maps[key], data={"Corefile": corefile})
    backend = {"service": {"name": "ssl-redirect", "port": {"name": "use-annotation"}}}
    spec = {"ingressClassName": "nginx", "rules": [{"http": {"paths": [{"backend": backend}]}}]}
    world.ingresses.append({"metadata": {"name": "alb", "namespace": "default"}, "spec": spec})
    broken_clusters.CASES[list(CASES).index("external_ip_of_no_node")].change(world)
    world.workloads.append(deployment("calico-node", {}, 3, "calico-system", "DaemonSet"))
    assert not diagnose(world.facts()).verdicts


def test_several_causes_at_once():
    """Any causes together are found, and the first of them is one that was made, or a consequence of both."""
    chance = random.Random(3)
    for _ in range(60):
        first, second = chance.sample(list(CASES.values()), 2)
        world = base()
        try:
            first.change(world)
            second.change(world)
        except (KeyError, StopIteration, ValueError):
            continue  # the first change removed what the second one needs
        diagnosis = diagnose(world.facts())
        assert diagnosis.findings, (first.name, second.name)
        render_text(diagnosis)


def test_passing_causes_need_two_readings():
    behind = diagnose(CASES["no_slice_was_written"].world().facts())
    well = diagnose(base().facts())
    assert needs_confirmation(behind)
    assert not needs_confirmation(well)
    assert confirmed(behind, behind).findings == behind.findings
    assert confirmed(well, behind).findings == ()
    assert confirmed(well, behind).services == dict.fromkeys(behind.services, "")
    assert confirmed(behind, well) == well


def test_a_report_is_bounded_and_has_no_control_characters():
    world = base()
    evil = "\x1b[31m<script>\u202e" + "x" * 100_000
    world.change_metadata(world.services, ObjectKey("default", "web"), annotations={"metallb.io/address-pool": evil})
    world.change_service("web", selector={evil: evil, "app": "web\n"}, external_name=evil)
    world.change_service("db", external_ips=(evil, "127.0.0.1"), load_balancer_source_ranges=(evil,))
    world.change_port("api", 0, "shop", target_port=evil)
    for key in world.pods_of("api", "shop"):
        world.warn("Pod", key, "Unhealthy", evil)
    world.make_unready("api", "shop")
    world.ingresses += [
        {"metadata": {"name": evil, "namespace": evil}, "spec": {"rules": evil}},
        {"metadata": evil, "spec": {"defaultBackend": {"service": {"name": evil, "port": {"name": evil}}}}},
        {"spec": {"rules": [{"http": {"paths": [{"backend": {"service": {"name": "web", "port": {"number": []}}}}]}}]}},
    ]
    world.network_policies += [{"spec": evil}, {"metadata": {"name": evil}, "spec": {"podSelector": {"a": 1}}}, {}]
    world.network_policies.append(
        {
            "metadata": {"name": "x", "namespace": "default"},
            "spec": {"ingress": [{"from": [{"ipBlock": {"cidr": evil}}]}]},
        }
    )
    world.workloads += [
        {},
        {"metadata": evil},
        {"metadata": {"name": evil}, "spec": {"template": evil, "replicas": evil}},
    ]
    world.address_pools += [{}, {"kind": "IPAddressPool", "spec": {"addresses": [evil, 1, None, "10.0.0.1-x"]}}]
    world.service_cidrs = (evil, "10.96.0.0/12")
    world.unseen.append(Unseen("pods", "no"))
    diagnosis = diagnose(world.facts())
    text = render_text(diagnosis)
    assert len(text) < 50_000
    assert all(character == "\n" or character.isprintable() for character in text)
    assert max(map(len, text.splitlines())) < 1_200
    assert msgspec.json.decode(render_json(diagnosis))["healthy"] == diagnosis.healthy


def test_a_namespace_that_is_read_alone():
    """Pods of other namespaces are unknown then."""
    facts = base().facts()
    pods = {key: pod for key, pod in facts.cluster.pods.items() if key.namespace in ("shop", "kube-system")}
    slices = [each for each in facts.cluster.slices if each.metadata.namespace in ("shop", "kube-system")]
    cluster = _replaced(facts.cluster, namespace="shop", pods=pods, slices=slices, endpoints={})
    diagnosis = diagnose(Facts(cluster=cluster))
    assert diagnosis.services == {"shop/api": "", "kube-system/kube-dns": ""}
    assert not diagnosis.findings


def test_an_empty_cluster_is_healthy():
    diagnosis = diagnose(Facts(cluster=ClusterState(now=NOW)))
    assert diagnosis == Diagnosis(findings=(), services={})
    assert render_text(diagnosis) == "0 Services are healthy.\n"


def test_the_text_has_evidence_fix_and_further_causes():
    findings = (
        Finding(cause="A", subject="service/default/web", text="It fails.", fix="repair it", evidence=("seen",)),
        Finding(cause="B", subject="service/default/web", text="More.", severity=Severity.NOTICE),
    )
    diagnosis = Diagnosis(
        findings=findings, services={"default/web": "A", "default/db": ""}, unseen=(Unseen("leases", "no"),)
    )
    assert render_text(diagnosis) == (
        "service/default/web is broken: A\n  It fails.\n    seen\n  Fix: repair it\n  Then (notice): B: More.\n\n"
        "1 Service is healthy.\nCould not look at leases: no\n"
    )


def test_every_cause_of_the_catalogue_is_made_by_a_test():
    """A cause without a test may have a check that never finds it."""
    made = {case.cause for case in CASES.values()} | {case.cause for case in broken_kernels.CASES}
    assert made == set(CAUSES)


# Several tests look at these, and none changes them: half of the time is the making of clusters.


@cache
def _healthy(seed: int) -> tuple[World, Facts]:
    world = healthy(seed)
    return world, world.facts()


@cache
def _facts(case: broken_clusters.Case) -> Facts:
    return case.world().facts()


@cache
def _diagnose(case: broken_clusters.Case) -> Diagnosis:
    return diagnose(_facts(case))


def _replaced(cluster: ClusterState, **fields: Any) -> ClusterState:
    return dataclasses.replace(cluster, **fields)
