"""Services of both IP families: what the API gives them, and that both answer from everywhere, in every mode."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import ip_address, ip_network

import pytest

from bridgehead.lab.addressing import IPV4, IPV6
from bridgehead.lab.plan import LabFiles
from bridgehead.lab.state_directories import read_config

from .conftest import Lab, Namespace, curl, eventually
from .proxy_modes import HIDES_THE_CLIENT, MODES, configure
from .test_every_mode import MANY
from .test_services import ANSWER, POD_TEST, make_myweb, service

pytestmark = pytest.mark.needs("dig", "busybox")

LAB_ADDRESSES = {"IPv4": IPV4.lab, "IPv6": IPV6.lab}
NODES = {"IPv4": [IPV4.node(number) for number in (1, 2, 3)], "IPv6": [IPV6.node(number) for number in (1, 2, 3)]}


def url_of(address: str, port: int = 80) -> str:
    return f"http://[{address}]:{port}/" if ":" in address else f"http://{address}:{port}/"


def family_of(address: str) -> str:
    return f"IPv{ip_address(address).version}"


@pytest.fixture(scope="module", autouse=True)
def has_both_families(lab: Lab) -> None:
    config = read_config(LabFiles(lab.state_dir))
    if config is None or config.ip_family != "dual":
        pytest.skip("the lab has IPv4 only: this kernel has no IPv6")


def cluster_ips(ns: Namespace, name: str) -> list[str]:
    return ns.get("services", name)["spec"]["clusterIPs"]


def slices(ns: Namespace, name: str) -> dict[str, list[str]]:
    """The ready addresses behind a Service, by address type."""
    found: dict[str, list[str]] = {}
    for item in ns.slices(name):
        found.setdefault(item["addressType"], []).extend(
            address
            for endpoint in item["endpoints"] or []
            if endpoint["conditions"]["ready"]
            for address in endpoint["addresses"]
        )
    return {family: sorted(addresses) for family, addresses in found.items()}


def endpoints(ns: Namespace, name: str) -> str:
    """Return the endpoints as kubectl shows them; "" when there are none yet."""
    return ns.try_kubectl("get", "endpoints", name, "--no-headers").stdout[len(name) :].strip().partition(" ")[0]


# --- What there is ---------------------------------------------------------------------------------------


def test_nodes_have_addresses_and_ranges_of_both_families(lab: Lab) -> None:
    nodes = json.loads(lab.kubectl("get", "nodes", "-o", "json").stdout)["items"]
    for number, node in enumerate(nodes, start=1):
        assert node["spec"]["podCIDR"] == IPV4.node_pods(number)
        assert node["spec"]["podCIDRs"] == [IPV4.node_pods(number), IPV6.node_pods(number)]
        internal = [a["address"] for a in node["status"]["addresses"] if a["type"] == "InternalIP"]
        assert internal == [IPV4.node(number), IPV6.node(number)]
    described = lab.kubectl("describe", "node", "node2").stdout
    assert re.search(r"InternalIP: +10\.0\.0\.202\n +InternalIP: +fd00:10::202\n", described)
    assert re.search(r"PodCIDRs: +10\.244\.2\.0/24,fd00:10:244:2::/64\n", described)
    assert re.search(r"^node2 .* 10\.0\.0\.202 +<none> ", lab.kubectl("get", "nodes", "-o", "wide").stdout, re.M)


def test_pods_have_addresses_of_both_families(lab: Lab, ns: Namespace) -> None:
    fields = {"IP": "status.podIP", "IPS": "status.podIPs", "HOST": "status.hostIP", "HOSTS": "status.hostIPs"}
    env = [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]
    for name, host_network in (("own", False), ("of-the-host", True)):
        container = {"name": "c", "image": "busybox", "command": ["sleep", "3600"], "env": env}
        spec = {"hostNetwork": host_network, "containers": [container]}
        ns.apply(json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}))
    for name in ("own", "of-the-host"):
        ns.ready(name)
        pod = ns.get("pods", name)
        ips = [entry["ip"] for entry in pod["status"]["podIPs"]]
        hosts = [entry["ip"] for entry in pod["status"]["hostIPs"]]
        assert [family_of(ip) for ip in ips] == [family_of(ip) for ip in hosts] == ["IPv4", "IPv6"]
        assert (pod["status"]["podIP"], pod["status"]["hostIP"]) == (ips[0], hosts[0])
        refusal = ns.kubectl("exec", name, "--", "sh", "-c", 'echo "$IP $IPS $HOST $HOSTS"').split()
        assert refusal == [ips[0], ",".join(ips), hosts[0], ",".join(hosts)]
        assert re.search(rf"IPs:\n +IP: +{ips[0]}\n +IP: +{ips[1]}\n", ns.kubectl("describe", "pod", name))
        number = int(pod["spec"]["nodeName"].removeprefix("node"))
        ranges = (
            (IPV4.fabric, IPV6.fabric) if name == "of-the-host" else (IPV4.node_pods(number), IPV6.node_pods(number))
        )
        assert all(ip_address(ip) in ip_network(range_) for ip, range_ in zip(ips, ranges, strict=True))
    hosts_file = ns.kubectl("exec", "own", "--", "cat", "/etc/hosts").splitlines()
    own = [entry["ip"] for entry in ns.get("pods", "own")["status"]["podIPs"]]
    assert [f"{ip}\town" for ip in own] == hosts_file[-2:]


def test_the_kubernetes_service_is_single_stack_and_the_dns_answers_over_both_families(lab: Lab, ns: Namespace) -> None:
    spec = json.loads(lab.kubectl("get", "service", "kubernetes", "-o", "json").stdout)["spec"]
    assert (spec["ipFamilies"], spec["ipFamilyPolicy"]) == (["IPv4"], "SingleStack")
    ns.apply(service("pair", ipFamilyPolicy="PreferDualStack"))
    name = f"pair.{ns.name}.svc.cluster.local"
    pods = json.loads(lab.kubectl("-n", "kube-system", "get", "pods", "-l", "k8s-app=kube-dns", "-o", "json").stdout)
    servers = [entry["ip"] for pod in pods["items"] for entry in pod["status"]["podIPs"]]
    assert {family_of(server) for server in servers} == {"IPv4", "IPv6"}
    servers.append(IPV4.cluster_dns)
    script = f"for server; do for kind in A AAAA; do dig +short +timeout=2 @$server {name} $kind; done; done"
    expected = cluster_ips(ns, "pair") * len(servers)
    eventually(lambda: lab.inside("sh", "-c", script, "sh", *servers).stdout.split() == expected)


def test_the_api_server_listens_on_both_families(lab: Lab) -> None:
    for address in LAB_ADDRESSES.values():
        assert (
            curl(lab, f"https://{'[' + address + ']' if ':' in address else address}:6443/readyz", "-k").stdout == "ok"
        )


# --- What the API makes of a Service ---------------------------------------------------------------------


def test_changing_the_ip_family_policy_adds_and_removes_the_second_family(lab: Lab, ns: Namespace) -> None:
    make_myweb(ns, 1)
    ns.apply(service("web"))
    first = cluster_ips(ns, "web")
    assert [family_of(ip) for ip in first] == ["IPv4"]
    eventually(lambda: list(slices(ns, "web")) == ["IPv4"])

    ns.kubectl("patch", "service", "web", "-p", '{"spec":{"ipFamilyPolicy":"PreferDualStack"}}')
    both = cluster_ips(ns, "web")
    assert both[0] == first[0]
    assert ip_address(both[1]) in ip_network(IPV6.services)
    eventually(lambda: {family: len(found) for family, found in slices(ns, "web").items()} == {"IPv4": 1, "IPv6": 1})
    for node in (None, "node1", "node3"):
        eventually(lambda node=node: ANSWER.match(curl(lab, url_of(both[1]), node=node).stdout))
    table = ns.kubectl("get", "endpointslices")
    assert len(re.findall(r"^web-\w+ +IPv4 +80 +10\.244\.\S+ ", table, re.M)) == 1
    assert len(re.findall(r"^web-\w+ +IPv6 +80 +fd00:10:244:\S+ ", table, re.M)) == 1
    described = ns.kubectl("describe", "service", "web")
    for line in (
        r"IP Family Policy: +PreferDualStack",
        r"IP Families: +IPv4,IPv6",
        rf"IP: +{both[0]}",
        rf"IPs: +{both[0]},{both[1]}",
    ):
        assert re.search(line, described), (line, described)
    assert re.search(
        rf"^web +ClusterIP +{both[0]} +<none> +80/TCP +\S+ +app=myweb$", ns.kubectl("get", "svc", "-o", "wide"), re.M
    )
    [pod] = slices(ns, "web")["IPv4"]
    eventually(lambda: endpoints(ns, "web") == f"{pod}:80", message="Endpoints have the first family only")

    ns.kubectl("patch", "service", "web", "-p", '{"spec":{"ipFamilyPolicy":"SingleStack"}}')
    assert cluster_ips(ns, "web") == first
    eventually(lambda: list(slices(ns, "web")) == ["IPv4"])
    # No node has the address any more: packets to it are dropped, not refused.
    eventually(lambda: curl(lab, url_of(both[1]), "--max-time", "1", node="node1").returncode == 28)
    assert ANSWER.match(curl(lab, url_of(first[0])).stdout)


def test_a_service_keeps_the_requested_order_of_families(ns: Namespace) -> None:
    make_myweb(ns, 1)
    ns.apply(service("turned", ipFamilyPolicy="RequireDualStack", ipFamilies=["IPv6", "IPv4"]))
    ns.apply(service("six", ipFamilies=["IPv6"]))
    assert [family_of(ip) for ip in cluster_ips(ns, "turned")] == ["IPv6", "IPv4"]
    assert [family_of(ip) for ip in cluster_ips(ns, "six")] == ["IPv6"]
    for name in ("turned", "six"):
        eventually(lambda name=name: endpoints(ns, name).startswith("[fd00:10:"))
    env = f"SIX_SERVICE_HOST={cluster_ips(ns, 'six')[0]}"
    ns.client_pod()
    assert env in ns.execute("client", "env").stdout.splitlines()


def test_headless_services_resolve_in_both_families(lab: Lab, ns: Namespace) -> None:
    make_myweb(ns, 2)
    ns.apply(service("bare", clusterIP="None", ipFamilyPolicy="RequireDualStack"))
    ns.apply(json.dumps({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "open"},
        "spec": {"clusterIP": "None", "ports": [{"port": 80}]},
    }))  # fmt: skip
    assert ns.get("services", "open")["spec"]["ipFamilies"] == ["IPv4", "IPv6"]
    assert ns.get("services", "open")["spec"]["ipFamilyPolicy"] == "RequireDualStack"
    assert cluster_ips(ns, "bare") == ["None"]
    eventually(lambda: {family: len(found) for family, found in slices(ns, "bare").items()} == {"IPv4": 2, "IPv6": 2})
    expected = slices(ns, "bare")
    name = f"bare.{ns.name}.svc.cluster.local"
    for kind, family in (("A", "IPv4"), ("AAAA", "IPv6")):
        question = ("dig", "+short", "+timeout=2", f"@{IPV4.cluster_dns}", name, kind)
        eventually(
            lambda question=question, family=family: sorted(lab.inside(*question).stdout.split()) == expected[family]
        )


def test_invalid_ip_families_are_refused(ns: Namespace) -> None:
    ns.apply(service("web", ipFamilyPolicy="RequireDualStack"))
    for patch, reason in (
        ({"ipFamilies": ["IPv6", "IPv4"]}, "expected an IPv6 value as indicated by `ipFamilies[0]`"),
        ({"clusterIPs": ["10.96.7.7", "fd00:10:96::7"], "clusterIP": "10.96.7.7"}, "may not change once set"),
        ({"ipFamilies": ["IPv4"]}, "must be 'SingleStack' to release the secondary IP family"),
    ):
        refusal = ns.try_kubectl("patch", "service", "web", "-p", json.dumps({"spec": patch}))
        assert refusal.returncode != 0
        assert reason in refusal.stderr, refusal.stderr
    for spec, reason in (
        (
            {"ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "SingleStack"},
            "must be 'RequireDualStack' or 'PreferDualStack'",
        ),
        ({"clusterIP": "fd00:99::1"}, "the provided network does not match the current range"),
        ({"ipFamilies": ["IPv5"]}, 'Unsupported value: "IPv5": supported values: "IPv4", "IPv6"'),
    ):
        assert reason in ns.refused(service("bad", **spec))


# --- What answers, in every mode -------------------------------------------------------------------------


@dataclass
class Web:
    """A lab in one mode; Services of both families for pods that answer with the client's address."""

    mode: str
    lab: Lab
    ns: Namespace

    def ask(self, where: str, *urls: str) -> list[re.Match[str]]:
        """Return the answer of each URL to the lab, a node or the client pod; waits for an answer."""
        script = (
            "for url; do n=0; until curl -sS -g -m 5 $url; do n=$((n+1)); [ $n = 40 ] && exit 1; sleep 0.1; done; done"
        )
        command = ("sh", "-c", script, "sh", *urls)
        if where == "pod":
            result = self.ns.execute("client", *command)
        else:
            result = self.lab.inside(*command, node=None if where == "lab" else where)
        assert result.returncode == 0, f"{where} never got an answer from {urls}: {result.stderr[-300:]}"
        return [ANSWER.fullmatch(line) for line in result.stdout.splitlines()]

    def node_port(self, name: str) -> int:
        return self.ns.get("services", name)["spec"]["ports"][0]["nodePort"]

    @property
    def hides_the_client(self) -> bool:
        return self.mode in HIDES_THE_CLIENT


EVERYWHERE = ("lab", "node1", "node2", "node3", "pod")


@pytest.fixture(scope="module", params=MODES)
def web(changeable_lab: Lab, request: pytest.FixtureRequest) -> Iterator[Web]:
    lab = changeable_lab
    configure(lab, request.param)
    ns = Namespace(lab, f"dual-stack-{request.param}")
    ns.create()
    make_myweb(ns)
    ns.kubectl("create", "deployment", "single", f"--image={POD_TEST}")
    ns.client_pod()
    ns.rolled_out("deployment/single")
    dual = {"type": "NodePort", "ipFamilyPolicy": "RequireDualStack"}
    ns.apply(service("both", externalIPs=["10.0.0.89", "fd00:10::89"], **dual))
    ns.apply(service("single", selector={"app": "single"}, externalTrafficPolicy="Local", **dual))
    for name, pods in (("both", 3), ("single", 1)):
        ns.wait_endpoints(name, 2 * pods)
    yield Web(request.param, lab, ns)
    ns.kubectl("delete", "services", "--all")  # at once: the namespace's own come after its last pod
    ns.delete()


def test_both_cluster_ips_answer_from_pods_nodes_and_the_lab(web: Web) -> None:
    four, six = cluster_ips(web.ns, "both")
    for where in EVERYWHERE:
        answers = web.ask(where, url_of(four), url_of(six))
        assert [family_of(answer[3]) for answer in answers] == ["IPv4", "IPv6"]
    expected = slices(web.ns, "both")
    client = {entry["ip"] for entry in web.ns.get("pods", "client")["status"]["podIPs"]}
    answers = web.ask("pod", *[url_of(four)] * MANY, *[url_of(six)] * MANY)
    assert sorted({answer[3] for answer in answers[:MANY]}) == expected["IPv4"]
    assert sorted({answer[3] for answer in answers[MANY:]}) == expected["IPv6"]
    # Within the cluster a pod is seen as what it is.
    assert web.hides_the_client or {answer[1] for answer in answers} == client
    for address in (four, six):
        assert curl(web.lab, url_of(address, 81), node="node1").returncode == 7, "a port that is not defined"


def test_node_ports_answer_in_both_families(web: Web) -> None:
    port = web.node_port("both")
    urls = [url_of(address, port) for family in ("IPv4", "IPv6") for address in NODES[family]]
    for where in ("lab", "node1", "pod"):
        answers = web.ask(where, *urls)
        assert [family_of(answer[3]) for answer in answers] == ["IPv4"] * 3 + ["IPv6"] * 3
        assert where != "lab" or not {answer[1] for answer in answers} & set(LAB_ADDRESSES.values())


def test_node_ports_with_local_policy_keep_the_clients_address(web: Web) -> None:
    port = web.node_port("single")
    home = int(web.ns.pods("app=single")[0]["spec"]["nodeName"].removeprefix("node")) - 1
    for family, addresses in NODES.items():
        clients = {answer[1] for answer in web.ask("lab", *[url_of(addresses[home], port)] * 3)}
        assert web.hides_the_client or clients == {LAB_ADDRESSES[family]}
        elsewhere = url_of(addresses[home - 1], port)
        eventually(
            lambda elsewhere=elsewhere: curl(web.lab, elsewhere, "--max-time", "1").returncode == 28,
            message="a node without a pod answers",
        )


def test_w16_external_ips_of_both_families(web: Web) -> None:
    addresses = {"10.0.0.89": "10.0.0.89/32", "fd00:10::89": "fd00:10::89/128"}
    change = "; ".join(f"ip addr VERB {prefix} dev eth0" for prefix in addresses.values())
    assert web.lab.inside("sh", "-c", change.replace("VERB", "add"), node="node2").returncode == 0
    try:
        for where in ("lab", "node1", "node2", "pod"):
            answers = web.ask(where, *map(url_of, addresses))
            assert [family_of(answer[3]) for answer in answers] == ["IPv4", "IPv6"]
    finally:
        web.lab.inside("sh", "-c", change.replace("VERB", "del"), node="node2")


def test_a_pod_reaches_itself_through_its_own_service(web: Web) -> None:
    for address in cluster_ips(web.ns, "single"):
        command = ("exec", "deployment/single", "--", "curl", "-sS", "-g", "-m", "20", url_of(address))
        answer = eventually(lambda command=command: ANSWER.match(web.ns.try_kubectl(*command).stdout))
        assert answer[3] in slices(web.ns, "single")[family_of(address)]


# --- Labs of another family ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def six(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    lab = Lab("six", tmp_path_factory.mktemp("six") / "state")
    try:
        lab.start("--nodes", "2", "--ip-family", "ipv6")
        yield lab
    finally:
        lab.stop()


def test_a_lab_can_be_ipv6_only(six: Lab) -> None:
    ns = Namespace(six, "default")
    ns.wait_account()
    make_myweb(ns, 2)
    ns.kubectl("expose", "deployment", "myweb", "--port=80", "--type=NodePort")
    ns.client_pod()
    assert ns.get("services", "myweb")["spec"]["ipFamilies"] == ["IPv6"]
    assert list(slices(ns, "kubernetes")) == ["IPv6"]
    command = ("exec", "client", "--", "curl", "-sS", "-m", "20", f"http://myweb.{ns.name}.svc.cluster.local/")
    answer = eventually(lambda: ANSWER.match(ns.try_kubectl(*command).stdout))
    assert {family_of(answer[1]), family_of(answer[3])} == {"IPv6"}
    port = ns.get("services", "myweb")["spec"]["ports"][0]["nodePort"]
    for address in (cluster_ips(ns, "myweb")[0], f"{IPV6.node(2)}"):
        url = url_of(address, 80 if address != IPV6.node(2) else port)
        assert eventually(lambda url=url: ANSWER.match(curl(six, url).stdout))
    eventually(lambda: "GET / HTTP/1.1" in ns.kubectl("logs", "-l", "app=myweb"))
    refusal = ns.refused(service("four", ipFamilies=["IPv4"]))
    assert 'spec.ipFamilies[0]: Invalid value: "IPv4": not configured on this cluster' in refusal
    refusal = ns.refused(service("dual", ipFamilyPolicy="RequireDualStack"))
    assert 'Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services' in refusal
    ns.apply(service("prefers", ipFamilyPolicy="PreferDualStack"))
    assert [family_of(ip) for ip in cluster_ips(ns, "prefers")] == ["IPv6"]


def test_a_lab_keeps_its_families_after_a_restart(six: Lab) -> None:
    six.stop()
    refusal = six.command("up", "--detach", "--ip-family", "dual")
    assert refusal.returncode == 1
    assert "the lab was made with --ip-family ipv6" in refusal.stderr
    assert len(refusal.stderr.strip().splitlines()) == 1
