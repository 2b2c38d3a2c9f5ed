import msgspec
import pytest

from bridgehead.insight.dashboard.dns_records import records_of, with_answer
from bridgehead.insight.dashboard.service_paths import MOST_BACKENDS, service_path
from bridgehead.insight.expectations import expect_node
from bridgehead.insight.facts.cluster_state import ClusterState
from bridgehead.insight.rulesets.entries import KernelFrontend, NodeRules, RulesMode
from bridgehead.insight.trace.name_resolution import DnsAnswer
from bridgehead.objects.core import Service
from bridgehead.objects.endpoint_slices import EndpointSlice
from bridgehead.objects.meta import ObjectKey
from bridgehead.proxy.frontends import FrontendKey

KEY = ObjectKey("default", "web")
ADDRESS = FrontendKey("10.96.0.5", "tcp", 80)


def state(backends: int = 2, **spec: object) -> ClusterState:
    fields = {"clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5"], "ipFamilies": ["IPv4"], **spec}
    service = msgspec.convert(
        {
            "metadata": {"name": "web", "namespace": "default"},
            "spec": {"ports": [{"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"}], **fields},
        },
        Service,
    )
    slice_ = msgspec.convert(
        {
            "metadata": {
                "name": "web-1", "namespace": "default", "labels": {"kubernetes.io/service-name": "web"},
            },
            "addressType": "IPv4",
            "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
            "endpoints": [
                {"addresses": [f"10.244.{n // 250}.{n % 250 + 2}"], "conditions": {"ready": True}, "nodeName": "node1"}
                for n in range(backends)
            ],
        },
        EndpointSlice,
    )  # fmt: skip
    return ClusterState(now=0.0, services={KEY: service}, slices=(slice_,), service_cidrs=("10.96.0.0/12",))


def path(cluster: ClusterState, rules: NodeRules | None = None, unseen: str = "", index: int = 0):
    expected = expect_node(cluster, "node1", mode="nftables")
    return service_path(cluster.services[KEY], expected, cluster, rules, unseen, index)


def kernel(*backends: str) -> NodeRules:
    found = KernelFrontend(
        key=ADDRESS, service="default/web:http", backends=tuple((address, 8080) for address in backends)
    )
    return NodeRules(frontends={RulesMode.NFTABLES: {ADDRESS: found}})


def test_a_path_has_the_name_the_address_the_rules_and_the_backends():
    found = path(state(), kernel("10.244.0.2", "10.244.0.3"))
    assert [(step.title, step.state) for step in found.steps] == [
        ("path.client", "ok"),
        ("path.name", "ok"),
        ("path.frontend", "ok"),
        ("path.rules", "ok"),
    ]
    assert found.steps[1].text == "web.default.svc.cluster.local"
    assert [(one.address, one.chance) for one in found.backends] == [("10.244.0.2:8080", 0.5), ("10.244.0.3:8080", 0.5)]
    assert found.ports == ("10.96.0.5:80/tcp",)


def test_rules_that_differ_are_shown_as_broken():
    found = path(state(), kernel("10.244.0.2", "10.244.0.9"))
    assert found.steps[-1].state == "broken"
    assert "10.244.0.9:8080" in found.steps[-1].lines[0]


def test_a_kernel_without_the_address_is_broken():
    assert path(state(), NodeRules()).steps[-1].state == "broken"


def test_a_kernel_that_cannot_be_read_is_unknown():
    step = path(state(), None, "no rights\x1b[0m").steps[-1]
    assert (step.state, step.lines) == ("unknown", ("no rights?[0m",))


def test_without_backends_the_fate_is_named():
    found = path(state(0), kernel())
    assert (found.backends, found.outcome) == ((), "rejected")


def test_a_headless_service_leads_to_its_pods():
    found = path(state(clusterIP="None", clusterIPs=["None"]))
    assert [step.title for step in found.steps] == ["path.client", "path.name"]
    assert len(found.backends) == 2


def test_backends_are_bounded():
    found = path(state(MOST_BACKENDS + 50), NodeRules())
    assert (len(found.backends), found.total) == (MOST_BACKENDS, MOST_BACKENDS + 50)


@pytest.mark.parametrize("index", [-5, 0, 7, 10**9])
def test_any_number_of_a_port_is_taken(index):
    assert path(state(), kernel("10.244.0.2"), index=index).ports


def test_records_of_a_service():
    [own, *_] = records_of(state().services[KEY], state())
    assert own.name == "web.default.svc.cluster.local"
    assert own.records[0] == "A 10.96.0.5"


def test_records_of_a_headless_service_are_bounded():
    cluster = state(400, clusterIP="None", clusterIPs=["None"])
    answers = records_of(cluster.services[KEY], cluster)
    assert len(answers[0].records) == 20
    assert answers[0].note.startswith("+")
    assert len(answers) <= 20


def test_a_name_without_records_has_a_reason():
    cluster = state(0, clusterIP="None", clusterIPs=["None"])
    assert records_of(cluster.services[KEY], cluster)[0].rcode == "NXDOMAIN"


@pytest.mark.parametrize(
    ("addresses", "rcode", "is_different", "answered"),
    [
        (("10.96.0.5",), "NOERROR", False, "10.96.0.5 (1.5 ms)"),
        (("10.96.0.6",), "NOERROR", True, "10.96.0.6 (1.5 ms)"),
        ((), "NXDOMAIN", True, "NXDOMAIN (1.5 ms)"),
    ],
)
def test_records_are_compared_with_the_answer_of_the_dns(addresses, rcode, is_different, answered):
    own = records_of(state().services[KEY], state())[0]
    found = with_answer(own, DnsAnswer(name=own.name, rcode=rcode, addresses=addresses, milliseconds=1.5))
    assert (found.is_different, found.answered) == (is_different, answered)
