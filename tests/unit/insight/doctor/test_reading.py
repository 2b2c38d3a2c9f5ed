"""Doctor's readings: rights that are missing, pods that cannot be entered, and passing states."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from bridgehead.client import ClientConfig
from bridgehead.client.errors import Forbidden, Unreachable
from bridgehead.insight.doctor import reading
from bridgehead.insight.doctor.diagnosis import diagnose
from bridgehead.insight.doctor.node_reading import NodesSeen
from bridgehead.insight.doctor.reading import choose_pods, examine, read_certificates
from bridgehead.insight.doctor.report import render_text
from bridgehead.insight.doctor.subjects import Target
from bridgehead.insight.facts.network_state import Listening, NetworkState, Section
from bridgehead.insight.network_namespaces import NotEntered
from bridgehead.objects.core import ContainerPort, Endpoints, EndpointSubset, ServicePort
from bridgehead.objects.meta import ObjectKey
from bridgehead.tls_certificates import issue_certificate
from tests.unit.insight.doctor.test_diagnosis import KINDS
from tests.unit.insight.generated_clusters import World, base, pod, service


@dataclass
class Client:
    """An API client of a world. `forbidden`: plurals. `only_namespace`: of the user's rights, if it is not "".

    `worlds`: the world of each reading; the last one remains."""

    worlds: list[World]
    forbidden: tuple[str, ...] = ()
    only_namespace: str = ""
    is_reachable: bool = True
    readings: int = 0
    config: ClientConfig = field(default_factory=lambda: ClientConfig(server="http://127.0.0.1:1"))

    async def list(self, kind: Any, namespace: str = "", **_: Any) -> Any:
        if not self.is_reachable:
            raise Unreachable("http://127.0.0.1:1: connection refused")
        if kind.plural in self.forbidden or (self.only_namespace and namespace != self.only_namespace):
            raise Forbidden(403, "Forbidden", f"{kind.plural} is forbidden")
        if kind.plural == "services":
            self.readings += 1
        facts = self.worlds[min(self.readings, len(self.worlds)) - 1].facts().cluster
        lists: dict[str, list[Any]] = {
            "services": list(facts.services.values()),
            "endpointslices": list(facts.slices),
            "endpoints": list(facts.endpoints.values()),
            "pods": list(facts.pods.values()),
            "nodes": list(facts.nodes.values()),
            "namespaces": list(facts.namespaces.values()),
            "configmaps": list(facts.config_maps.values()),
        }
        items = [each for each in lists.get(kind.plural, []) if not namespace or each.metadata.namespace == namespace]
        return msgspec.defstruct("Page", ["items", "metadata"])(items, msgspec.defstruct("Meta", ["continue_"])(""))

    async def request(self, method: str, path: str) -> Any:
        if not self.is_reachable:
            raise Unreachable("http://127.0.0.1:1: connection refused")
        plural = path.rpartition("/")[2]
        if plural in self.forbidden or (self.only_namespace and f"/{self.only_namespace}/" not in path):
            raise Forbidden(403, "Forbidden", f"{plural} is forbidden")
        return {"items": []}


@dataclass
class Pods:
    """Namespaces of pods: `listeners` by pod; `refused` with a reason; others do not answer."""

    listeners: dict[ObjectKey, tuple[Listening, ...]] = field(default_factory=dict)
    refused: dict[ObjectKey, str] = field(default_factory=dict)
    asked: list[ObjectKey] = field(default_factory=list)

    async def pod(self, key: ObjectKey) -> Any:
        self.asked.append(key)
        if key in self.refused:
            raise NotEntered(self.refused[key])
        return self, key

    async def node(self, name: str) -> Any:
        raise NotEntered(name)

    async def outside(self) -> Any:
        raise NotEntered("outside")


@pytest.fixture(autouse=True)
def _fast(monkeypatch):
    async def read(namespace: Any, sections: Any, *, seconds: float) -> NetworkState:
        pods, key = namespace
        listeners = pods.listeners.get(key)
        if listeners is None:
            return NetworkState(unseen={Section.LISTENERS: "no program ss"})
        return NetworkState(listeners=listeners)

    async def nothing(*_: Any) -> tuple[()]:
        return ()

    async def no_nodes(*_: Any) -> NodesSeen:
        return NodesSeen({}, (), {}, ())

    monkeypatch.setattr(reading, "read_network", read)
    for name, stand_in in (("read_nodes", no_nodes), ("ask_from_pod", nothing), ("read_resolvers", nothing)):
        monkeypatch.setattr(reading, name, stand_in)  # test_node_reading.py has these
    monkeypatch.setattr(reading, "CONFIRM_SECONDS", 0.0)


def diagnosis_of(client: Client, pods: Pods | None = None, *targets: Target) -> Any:
    return asyncio.run(examine(client, pods, targets))  # type: ignore[arg-type]


def test_a_cluster_that_works():
    diagnosis = diagnosis_of(Client([base()]))
    assert not diagnosis.findings
    assert diagnosis.healthy == 5


@pytest.mark.parametrize(
    "plural",
    ["pods", "endpointslices", "nodes", "services", "events", "leases", "networkpolicies", "ingresses", "deployments"],
)
def test_a_missing_right_is_reported_and_the_rest_works(plural):
    world = base()
    world.change_service("web", selector={"app": "wbe"})
    diagnosis = diagnosis_of(Client([world], (plural,)))
    assert [unseen.what for unseen in diagnosis.unseen] == [plural]
    is_partial = plural in ("pods", "endpointslices", "nodes", "services")
    assert ("not all could be looked at" in render_text(diagnosis)) is is_partial
    expected = [] if plural in ("pods", "services") else ["SelectorMisspelled"]
    assert [finding.cause for finding in diagnosis.verdicts] == expected


def test_without_any_right_nothing_is_concluded():
    kinds = [*KINDS, "ipaddresspools", "eips"]
    diagnosis = diagnosis_of(Client([base()], tuple(kinds)), None, Target(ObjectKey("default", "web")))
    assert not diagnosis.findings
    assert diagnosis.unknown == ("default/web",)
    assert "service/default/web could not be looked at." in render_text(diagnosis)
    whats = {unseen.what.partition(" of ")[0] for unseen in diagnosis.unseen}
    assert whats == set(kinds)


def test_a_user_with_rights_in_one_namespace_gets_a_verdict():
    world = base()
    world.change_service("web", selector={"app": "wbe"})
    client = Client([world], only_namespace="default")
    diagnosis = diagnosis_of(client, None, Target(ObjectKey("default", "web")))
    assert diagnosis.services["default/web"] == "SelectorMisspelled"
    assert [finding.cause for finding in diagnosis.findings] == ["SelectorMisspelled"]
    assert "pods of kube-system" in [unseen.what for unseen in diagnosis.unseen]
    missing = diagnosis_of(client, None, Target(ObjectKey("default", "api")))
    assert [finding.text for finding in missing.findings] == ['There is no Service "api" in namespace "default".']
    well = diagnosis_of(Client([base()], only_namespace="default"), None, Target(ObjectKey("default", "web")))
    assert not well.findings


def test_an_unreachable_api_server_is_an_error():
    with pytest.raises(Unreachable):
        diagnosis_of(Client([base()], is_reachable=False))


def test_listeners_of_pods_are_evidence():
    world = base()
    pods = Pods({key: (Listening(protocol="tcp", address="127.0.0.1", port=80),) for key in world.pods_of("web")})
    diagnosis = diagnosis_of(Client([world]), pods, Target(ObjectKey("default", "web")))
    assert [finding.cause for finding in diagnosis.findings] == ["ListensOnLoopbackOnly"]


def test_pods_that_cannot_be_looked_at_are_listed():
    world = base()
    web = world.pods_of("web")
    pods = Pods(refused={web[0]: "it has \x1bended", web[1]: "it has \x1bended"})
    diagnosis = diagnosis_of(Client([world]), pods, Target(ObjectKey("default", "web")))
    assert not diagnosis.findings
    assert [str(unseen) for unseen in diagnosis.unseen] == [
        "the programs of 2 pods (default/web-1, ...): it has ?ended",
        "the programs of pod default/web-3: no program ss",
    ]


def test_the_number_of_pods_is_bounded():
    world = base()
    for number in range(80):
        name = f"app{number}x"
        world.add(
            pod(name, (f"10.244.1.{100 + number}",), "node1", {"app": name}, ContainerPort(container_port=80)),
            service(name, ServicePort(port=80, target_port=80), ip=f"10.96.3.{number}", selector={"app": name}),
        )
    pods = Pods()
    diagnosis = diagnosis_of(Client([world]), pods)
    assert len(pods.asked) == reading.MOST_PODS
    assert any("only 50 are looked at" in unseen.why for unseen in diagnosis.unseen)
    assert not diagnosis.verdicts


def test_one_pod_of_each_service_comes_before_a_second_one():
    facts = base().facts()
    chosen = [each.metadata.name for each in choose_pods(facts, diagnose(facts))]
    assert set(chosen[:2]) == {"web-1", "api-1"}
    assert set(chosen) >= {"web-1", "web-2", "web-3", "api-1", "api-2"}
    assert chosen[2].startswith("coredns")


def test_a_pod_that_does_not_answer_is_not_waited_for(monkeypatch):
    async def hang(*_: Any, **__: Any) -> NetworkState:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(reading, "read_network", hang)
    monkeypatch.setattr(reading, "_ALL_PODS_SECONDS", 0.01)
    diagnosis = diagnosis_of(Client([base()]), Pods(), Target(ObjectKey("default", "web")))
    assert [unseen.why for unseen in diagnosis.unseen] == ["no answer within 0.01 s"]


def test_slices_that_are_behind_for_a_moment_are_no_cause():
    early = base()
    early.written_slices[ObjectKey("default", "web")] = []
    assert not diagnosis_of(Client([early, base()])).findings
    late = Client([early])
    assert [finding.cause for finding in diagnosis_of(late).findings] == ["EndpointSlicesBehind"]
    assert late.readings == 2


def test_the_end_of_the_kubeconfigs_certificate_is_read():
    _, certificate, _ = issue_certificate(["localhost"], name="user", ca_name="test", days=3)
    for pem, count in ((certificate, 1), (b"damaged", 0)):
        config = ClientConfig(server="http://127.0.0.1:1", client_certificate=pem)
        assert len(asyncio.run(read_certificates(config))) == count
    client = Client([base()], config=ClientConfig(server="https://127.0.0.1:1", client_certificate=certificate))
    with_end = base()
    with_end.certificates = list(asyncio.run(read_certificates(client.config)))
    assert [end.name for end in with_end.certificates] == ["the user in the kubeconfig"]


def test_endpoints_without_subsets_are_read():
    world = base()
    world.endpoints[ObjectKey("default", "db")] = Endpoints(
        metadata=world.endpoints[ObjectKey("default", "db")].metadata, subsets=(EndpointSubset(),)
    )
    assert diagnosis_of(Client([world])).findings[0].cause == "EndpointsNotReady"
