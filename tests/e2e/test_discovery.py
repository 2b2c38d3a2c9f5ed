"""W23 to W29: Services are found by name and by environment variable, from pods, from nodes and from the lab.

The pod `tools` has the host's dig, host, nslookup and getent, which resolve by glibc and by BIND's library; `box` has
BusyBox's nslookup, and `unlinked` that of BusyBox 1.28, which tutorials use.
"""

from __future__ import annotations

import contextlib
import ipaddress
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from .conftest import BRIDGEHEAD, Lab, Namespace, curl, eventually, run, running

pytestmark = pytest.mark.needs("dig", "host", "busybox")

CLUSTER_DNS = "10.96.0.10"
TOOLS = "wangxiaochun/admin-box:v0.1"
UPSTREAM = "10.0.0.1", "5353"  # the lab itself, outside the cluster
OUTSIDE = "www.mysticalrecluse.com"
# Prefix of a command that asks by glibc: it fails if an answer does not come, for which glibc waits 30 s instead of 5.
AT_ONCE = "RES_OPTIONS=timeout:30 timeout 25"

SERVICES = f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web}}
spec:
  replicas: 3
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: 3
      containers: [{{name: web, image: nginx, readinessProbe: {{httpGet: {{port: 80}}, periodSeconds: 1}}}}]
---
apiVersion: v1
kind: Service
metadata: {{name: web}}
spec: {{selector: {{app: web}}, ports: [{{name: http, port: 8000, targetPort: 80}}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: httpd-svc}}
spec: {{clusterIP: None, selector: {{app: web}}, ports: [{{name: http, port: 80}}]}}
---
apiVersion: v1
kind: Service
metadata: {{name: outside}}
spec: {{clusterIP: None, ports: [{{port: 3306}}]}}
---
apiVersion: v1
kind: Endpoints
metadata: {{name: outside}}
subsets: [{{addresses: [{{ip: 10.0.0.88}}], ports: [{{port: 3306}}]}}]
---
apiVersion: v1
kind: Service
metadata: {{name: svc-externalname-web}}
spec: {{type: ExternalName, externalName: {OUTSIDE}}}
---
apiVersion: v1
kind: Service
metadata: {{name: redis-master}}
spec: {{ports: [{{port: 6379}}]}}
"""


def pod(name: str, image: str = "busybox", **spec: Any) -> str:
    container = {"name": name, "image": image, "command": ["sleep", "3600"]}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec})


def sh(where: Namespace, pod: str, script: str) -> str:
    """Return the output of the script in the pod; its exit code is ignored."""
    return where.execute(pod, "sh", "-c", f"({script}) 2>&1").stdout


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line]


def dns_pods(lab: Lab) -> list[str]:
    return [pod["status"]["podIP"] for pod in Namespace(lab, "kube-system").pods("k8s-app=kube-dns")]


def everywhere(ns: Namespace, script: str, expected: list[str]) -> None:
    """Wait until `script`, which asks $server, prints these lines in any order for each pod of the DNS.

    Each receives a change at a time of its own.
    """
    for server in dns_pods(ns.lab):
        eventually(
            lambda server=server: sorted(lines(sh(ns, "tools", f"server={server}; {script}"))) == expected,
            message=f"server={server}; {script}: never {expected}",
        )


@pytest.fixture(scope="module")
def shop(lab: Lab) -> Iterator[Namespace]:
    """A pod, then Services, then more pods; and a pod in the namespace `elsewhere`."""
    shop, elsewhere = Namespace(lab, "shop"), Namespace(lab, "elsewhere")
    for ns in (shop, elsewhere):
        ns.create()
    shop.apply(pod("earlier"))
    shop.ready("earlier")
    shop.apply(SERVICES)
    shop.rolled_out("deployment/web")
    shop.wait_endpoints("web", 3)
    for name, image, spec in (
        ("tools", TOOLS, {}),
        ("box", "busybox", {}),
        ("unlinked", "busybox:1.28", {"enableServiceLinks": False}),
    ):
        shop.apply(pod(name, image, **spec))
    elsewhere.apply(pod("tools", TOOLS))
    for ns in (shop, elsewhere):
        ns.ready()
    answers = {
        "web A": [shop.cluster_ip("web")],
        "httpd-svc A": sorted(pod["status"]["podIP"] for pod in shop.pods("app=web")),
        "outside A": ["10.0.0.88"],
        "svc-externalname-web CNAME": [f"{OUTSIDE}."],
    }
    for question, expected in answers.items():
        everywhere(shop, f"dig @$server +short +search {question}", expected)
    yield shop
    lab.kubectl("delete", "namespace", "shop", "elsewhere", "--wait=false")


def test_the_dns_has_two_pods_on_two_nodes_behind_kube_dns(lab: Lab) -> None:
    system = Namespace(lab, "kube-system")
    service = system.get("services", "kube-dns")
    assert service["spec"]["clusterIP"] == CLUSTER_DNS
    ports = [(port["name"], port["protocol"], port["port"]) for port in service["spec"]["ports"]]
    assert ports == [("dns", "UDP", 53), ("dns-tcp", "TCP", 53), ("metrics", "TCP", 9153)]
    pods = system.pods("k8s-app=kube-dns")
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
    assert all(pod["status"]["containerStatuses"][0]["ready"] for pod in pods)
    [ip, _] = [pod["status"]["podIP"] for pod in pods]
    pages = ((f"{ip}:8080/health", "OK"), (f"{ip}:8181/ready", "OK"), (f"{CLUSTER_DNS}:9153/metrics", "coredns_dns_"))
    for page, text in pages:
        assert text in curl(lab, f"http://{page}").stdout


def test_w23_environment_variables(shop: Namespace) -> None:
    def variables(pod: str) -> dict[str, str]:
        return dict(line.split("=", 1) for line in lines(sh(shop, pod, "env")) if "=" in line)

    redis, web = shop.cluster_ip("redis-master"), shop.cluster_ip("web")
    kubernetes = {
        "KUBERNETES_SERVICE_HOST": "10.96.0.1",
        "KUBERNETES_SERVICE_PORT": "443",
        "KUBERNETES_SERVICE_PORT_HTTPS": "443",
        "KUBERNETES_PORT": "tcp://10.96.0.1:443",
        "KUBERNETES_PORT_443_TCP": "tcp://10.96.0.1:443",
        "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
        "KUBERNETES_PORT_443_TCP_PORT": "443",
        "KUBERNETES_PORT_443_TCP_ADDR": "10.96.0.1",
    }
    services = {
        "REDIS_MASTER_SERVICE_HOST": redis,
        "REDIS_MASTER_SERVICE_PORT": "6379",
        "REDIS_MASTER_PORT": f"tcp://{redis}:6379",
        "REDIS_MASTER_PORT_6379_TCP": f"tcp://{redis}:6379",
        "REDIS_MASTER_PORT_6379_TCP_PROTO": "tcp",
        "REDIS_MASTER_PORT_6379_TCP_PORT": "6379",
        "REDIS_MASTER_PORT_6379_TCP_ADDR": redis,
        "WEB_SERVICE_HOST": web,
        "WEB_SERVICE_PORT": "8000",
        "WEB_SERVICE_PORT_HTTP": "8000",
        "WEB_PORT": f"tcp://{web}:8000",
        "WEB_PORT_8000_TCP": f"tcp://{web}:8000",
        "WEB_PORT_8000_TCP_PROTO": "tcp",
        "WEB_PORT_8000_TCP_PORT": "8000",
        "WEB_PORT_8000_TCP_ADDR": web,
    }
    for pod, expected in (("tools", kubernetes | services), ("unlinked", kubernetes), ("earlier", kubernetes)):
        found = {name: value for name, value in variables(pod).items() if re.search("_SERVICE_|_PORT", name)}
        assert found == expected, pod


@pytest.mark.parametrize("name", ["web", "web.shop", "web.shop.svc", "web.shop.svc.cluster.local"])
def test_w24_a_service_is_resolved_by_its_names(shop: Namespace, name: str) -> None:
    ip, full = shop.cluster_ip("web"), "web.shop.svc.cluster.local"
    output = sh(shop, "tools", f"nslookup {name}; getent hosts {name}; dig +short +search {name}; host -t A {name}")
    server, found, *rest = output.split("\n\n")
    assert lines(server) == [f"Server:\t\t{CLUSTER_DNS}", f"Address:\t{CLUSTER_DNS}#53"]
    assert lines(found) == [f"Name:\t{full}", f"Address: {ip}"]
    assert [line.split() for line in lines("".join(rest))] == [[ip, full], [ip], [full, "has", "address", ip]]
    # nslookup takes a name with a dot for a whole one since BusyBox 1.29.
    if name in ("web", full):
        assert f"Name:\t{full}\nAddress: {ip}\n" in sh(shop, "box", f"nslookup {name}")
    expected = [
        f"Server:    {CLUSTER_DNS}",
        f"Address 1: {CLUSTER_DNS} kube-dns.kube-system.svc.cluster.local",
        f"Name:      {name}",
        f"Address 1: {ip} {full}",
    ]
    for server in ("", CLUSTER_DNS):
        assert lines(sh(shop, "unlinked", f"nslookup {name} {server}")) == expected


def test_w24_the_dns_answers_at_its_cluster_ip_and_on_each_node(shop: Namespace) -> None:
    """The lab and every node query over UDP and TCP."""
    ip = shop.cluster_ip("web")
    digs = "; ".join(f"dig +short {option} @{CLUSTER_DNS} web.shop.svc.cluster.local" for option in ("+notcp", "+tcp"))
    for node in (None, "node1", "node3"):
        assert shop.lab.inside("sh", "-c", digs, node=node).stdout.split() == [ip, ip]


def test_w24_the_short_name_does_not_resolve_in_another_namespace(shop: Namespace) -> None:
    elsewhere = Namespace(shop.lab, "elsewhere")
    output = sh(elsewhere, "tools", "nslookup web; getent hosts web; echo $?; getent hosts web.shop")
    assert "** server can't find web: NXDOMAIN" in output
    assert lines(output)[-2] == "2"
    assert lines(output)[-1].split() == [shop.cluster_ip("web"), "web.shop.svc.cluster.local"]


def test_w25_w28_a_service_has_ptr_and_srv_records(shop: Namespace) -> None:
    ip, full = shop.cluster_ip("web"), "web.shop.svc.cluster.local"
    assert lines(sh(shop, "tools", f"dig +short SRV _http._tcp.{full}")) == [f"0 100 8000 {full}."]
    assert lines(sh(shop, "tools", f"dig +short A {full}; dig +short -x {ip}")) == [ip, f"{full}."]
    assert f"{ip.split('.')[3]}." in sh(shop, "tools", f"host {ip}")
    assert f"service = 0 100 8000 {full}" in sh(shop, "box", f"nslookup -type=srv _http._tcp.{full}")
    assert f"name = {full}" in sh(shop, "box", f"nslookup {ip}")
    assert lines(sh(shop, "tools", f"dig +short AAAA {full}; dig {full} AAAA | grep -o 'status: [A-Z]*'")) == [
        "status: NOERROR"
    ]


def test_w26_a_headless_service_resolves_to_its_pods(shop: Namespace) -> None:
    pods = {pod["status"]["podIP"] for pod in shop.pods("app=web")}
    full = "httpd-svc.shop.svc.cluster.local"
    assert set(lines(sh(shop, "tools", f"dig +short {full}"))) == pods
    assert {line.split()[0] for line in lines(sh(shop, "tools", "getent ahosts httpd-svc"))} == pods
    assert set(re.findall(r"^Address: (\S+)$", sh(shop, "box", f"nslookup {full}"), re.MULTILINE)) == pods

    firsts = lines(sh(shop, "tools", f"for i in $(seq 30); do dig +short {full} | head -n 1; done"))
    assert set(firsts) == pods  # no pod is always behind the others

    names = {ip: f"{ip.replace('.', '-')}.{full}." for ip in pods}
    targets = [line.split() for line in lines(sh(shop, "tools", f"dig +short SRV _http._tcp.{full}"))]
    assert {(target[2], target[3]) for target in targets} == {("80", name) for name in names.values()}
    for ip, name in names.items():
        both = [name, name.replace("httpd-svc", "web")]  # the pods are behind a cluster IP, too
        assert lines(sh(shop, "tools", f"dig +short {name}; dig +short -x {ip}")) == [ip, *both]


def test_w29_a_headless_service_without_selector_resolves_to_its_endpoints(shop: Namespace) -> None:
    output = sh(shop, "tools", "host -t A outside; getent hosts outside")
    assert [line.split()[-1] for line in lines(output)] == ["10.0.0.88", "outside.shop.svc.cluster.local"]


def test_external_names_do_not_exist_in_a_lab(shop: Namespace) -> None:
    """External names are answered with NXDOMAIN immediately."""
    for name in ("example.com", "nosuch", "nosuch.shop", "a..b"):
        assert sh(shop, "tools", f"{AT_ONCE} getent hosts {name}; echo $?") == "2\n", name
    assert "status: NXDOMAIN" in sh(shop, "tools", "dig example.com")
    assert "NXDOMAIN" in sh(shop, "box", "nslookup example.com")


def test_simultaneous_a_and_aaaa_queries_are_both_answered(shop: Namespace) -> None:
    """glibc sends A and AAAA from one socket, and waits for a timeout if one answer is lost."""
    script = f"seq 200 | xargs -P 4 -I N sh -c '{AT_ONCE} getent ahosts web >/dev/null || echo lost'"
    assert sh(shop, "tools", script) == ""


# --- resolv.conf, hosts -----------------------------------------------------------------------------------------

PRINT_RESOLVER_FILES = (
    "cat /etc/resolv.conf; echo; cat /etc/hosts; echo; hostname; hostname -f; cat /etc/hostname; true"
)
POLICIES: dict[str, dict[str, Any]] = {
    "first": {},
    "default": {"dnsPolicy": "Default"},
    "host-default": {"hostNetwork": True},
    "host-first": {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"},
    "none": {
        "dnsPolicy": "None",
        "dnsConfig": {
            "nameservers": ["10.0.0.1", "10.0.0.2"],
            "searches": ["a.example", "b.example"],
            "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
        },
    },
    "more": {
        "dnsConfig": {
            "nameservers": ["10.0.0.1"],
            "searches": ["shop.svc.cluster.local", "a.example"],
            "options": [{"name": "ndots", "value": "1"}],
        },
        "hostAliases": [{"ip": "1.2.3.4", "hostnames": ["foo.example", "foo"]}],
    },
    "named": {"hostname": "db-0", "subdomain": "httpd-svc"},
    "fqdn": {"hostname": "db-1", "subdomain": "httpd-svc", "setHostnameAsFQDN": True},
    "other": {"hostname": "db-2", "subdomain": "httpd-svc", "hostnameOverride": "db.corp.example"},
}
CLUSTER = "search {ns}.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.96.0.10\noptions ndots:5\n"
NOBODY = "search .\nnameserver 127.0.0.1\n"


def test_resolv_conf_follows_the_dns_policy_of_a_pod(ns: Namespace) -> None:
    command = ["sh", "-c", PRINT_RESOLVER_FILES]
    containers = {name: [{"name": name, "image": "busybox", "command": command}] for name in POLICIES}
    pods = [
        json.loads(pod(name, restartPolicy="Never", containers=containers[name], **spec))
        for name, spec in POLICIES.items()
    ]
    ns.apply(json.dumps({"apiVersion": "v1", "kind": "List", "items": pods}))
    ns.succeeded(*POLICIES)
    output = {name: ns.kubectl("logs", name).split("\n\n") for name in POLICIES}
    of_cluster = CLUSTER.format(ns=ns.name).rstrip("\n")
    expected = {
        "first": of_cluster,
        "default": NOBODY.rstrip("\n"),
        "host-default": NOBODY.rstrip("\n"),
        "host-first": of_cluster,
        "none": "search a.example b.example\nnameserver 10.0.0.1\nnameserver 10.0.0.2\noptions ndots:2 edns0",
        "more": f"search {ns.name}.svc.cluster.local svc.cluster.local cluster.local shop.svc.cluster.local a.example\n"
        "nameserver 10.96.0.10\nnameserver 10.0.0.1\noptions ndots:1",
        "named": of_cluster,
        "fqdn": of_cluster,
        "other": of_cluster,
    }
    assert {name: parts[0] for name, parts in output.items()} == expected

    # The pod's own lines follow those that all have.
    hosts = {name: parts[1].splitlines() for name, parts in output.items()}
    assert hosts["first"][:7] == [
        "# Kubernetes-managed hosts file.",
        "127.0.0.1\tlocalhost",
        "::1\tlocalhost ip6-localhost ip6-loopback",
        "fe00::0\tip6-localnet",
        "fe00::0\tip6-mcastprefix",
        "fe00::1\tip6-allnodes",
        "fe00::2\tip6-allrouters",
    ]
    assert hosts["host-first"][0] == "# Kubernetes-managed hosts file (host network)."
    domain = f"httpd-svc.{ns.name}.svc.cluster.local"
    own = {name: {tuple(line.split("\t")[1:]) for line in lines[7:]} for name, lines in hosts.items()}
    assert own["first"] == {("first",)}
    assert own["named"] == {(f"db-0.{domain}", "db-0")}
    assert own["fqdn"] == {(f"db-1.{domain}", "db-1")}
    assert own["other"] == {("db.corp.example",)}
    assert output["more"][2].splitlines() == ["# Entries added by HostAliases.", "1.2.3.4\tfoo.example\tfoo"]

    names = {name: parts[-1].splitlines() for name, parts in output.items()}
    assert names["first"] == ["first", "first", "first"]
    assert names["named"] == ["db-0", f"db-0.{domain}", "db-0"]
    assert names["fqdn"] == [f"db-1.{domain}"] * 3
    assert names["other"] == ["db.corp.example"] * 3
    assert names["host-default"][0].startswith("node")


def test_an_invalid_dns_config_is_refused(ns: Namespace) -> None:
    for spec, text in (
        ({"dnsPolicy": "None"}, "must provide `dnsConfig` when `dnsPolicy` is None"),
        ({"dnsPolicy": "None", "dnsConfig": {}}, "must provide at least one DNS nameserver when `dnsPolicy` is"),
        ({"dnsPolicy": "First"}, 'spec.dnsPolicy: Unsupported value: "First"'),
        ({"dnsConfig": {"nameservers": ["1.1.1.1"] * 4}}, "must not have more than 3 nameservers"),
        ({"dnsConfig": {"nameservers": ["dns.example"]}}, "spec.dnsConfig.nameservers[0]: Invalid value"),
        ({"dnsConfig": {"searches": [f"s{n}.example" for n in range(33)]}}, "must not have more than 32 search paths"),
        (
            {"dnsConfig": {"searches": ["x" * 250 + f".{n}a" for n in range(9)]}},
            "must not have more than 2048 characters",
        ),
        ({"dnsConfig": {"options": [{"value": "1"}]}}, "spec.dnsConfig.options[0]: Required value"),
        ({"hostAliases": [{"ip": "x", "hostnames": ["a"]}]}, "spec.hostAliases[0].ip: Invalid value"),
    ):
        assert text in ns.refused(pod("refused", **spec)), spec


def test_a_fqdn_that_is_too_long_for_a_host_name_is_reported(ns: Namespace) -> None:
    ns.apply(pod("long", hostname="x" * 40, subdomain="httpd-svc", setHostnameAsFQDN=True))

    def has_event() -> bool:
        events = ns.list_all("events")
        return any(
            event["reason"] == "FailedCreatePodSandBox" and "(64 characters is the max, " in event["message"]
            for event in events
        )

    eventually(has_event)
    assert ns.get("pods", "long")["status"]["phase"] == "Pending"


# --- Changes, while somebody asks ---------------------------------------------------------------------------------


@contextlib.contextmanager
def asking(where: Namespace, script: str) -> Iterator[list[str]]:
    """Run `script` again and again in the pod `tools`, ten times at least; what was printed is there at the end."""
    output: list[str] = []
    loop = (
        "rm -f /tmp/stop; echo begun; runs=0;"
        f" while [ ! -e /tmp/stop ] || [ $runs -lt 10 ]; do {script}; runs=$((runs+1)); done"
    )
    argv = ("kubectl", "-n", where.name, "exec", "tools", "--", "sh", "-c", loop)
    with running(*argv, env=where.lab.env, stdout=subprocess.PIPE) as asker:
        assert asker.stdout is not None
        assert asker.stdout.readline() == "begun\n"
        try:
            yield output
        finally:
            sh(where, "tools", "touch /tmp/stop")
        output += asker.stdout.read().splitlines()


def test_a_headless_service_always_has_records_during_a_rolling_update(shop: Namespace) -> None:
    with asking(shop, "dig +short httpd-svc.shop.svc.cluster.local | wc -l") as counts:
        shop.kubectl("rollout", "restart", "deployment/web")
        shop.rolled_out("deployment/web")
        pods = {pod["status"]["podIP"] for pod in shop.pods("app=web") if "deletionTimestamp" not in pod["metadata"]}
        everywhere(shop, "dig @$server +short +search httpd-svc", sorted(pods))
    assert len(counts) >= 10
    assert "0" not in counts


def test_a_rollout_of_the_dns_loses_no_query(shop: Namespace) -> None:
    """Clients query once, from ports whose flows lead to a terminating pod."""
    system = Namespace(shop.lab, "kube-system")
    address = shop.cluster_ip("web")
    once = "dig -b 0.0.0.0#4000$n +tries=1 +timeout=10 +short web.shop.svc.cluster.local"
    from_each_port = f"for n in 0 1 2 3 4 5 6 7 8 9; do {once}; done"
    with asking(shop, from_each_port) as answers:
        system.kubectl("rollout", "restart", "deployment/coredns")
        system.rolled_out("deployment/coredns")
        eventually(lambda: len(system.pods("k8s-app=kube-dns")) == 2)
    # An answer that is on its way when its flow is taken from a pod is lost (docs/decisions/0012): of a client with one
    # question at a time, one for each of the two pods. Questions are a hundred at least.
    assert answers.count(address) >= 98
    assert len([line for line in answers if "timed out" in line]) <= 2
    assert lines(sh(shop, "tools", from_each_port)) == 10 * [address]


@pytest.fixture
def upstream(lab: Lab) -> Iterator[None]:
    """A name server outside the cluster with the name OUTSIDE."""
    script = Path(__file__).with_name("name_server.py")
    argv = lab.argv_inside(sys.executable, script, *UPSTREAM, f"{OUTSIDE}=10.0.0.77")
    with running(*argv, stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline() == "ready\n"
        yield


def test_w27_an_external_name_follows_a_changed_dns_configuration(shop: Namespace, upstream: None) -> None:
    """The ConfigMap names an upstream for a domain, which is used without a restart and without a lost query."""
    system = Namespace(shop.lab, "kube-system")
    [row] = [line.split() for line in lines(shop.kubectl("get", "service", "svc-externalname-web", "--no-headers"))]
    assert row[:5] == ["svc-externalname-web", "ExternalName", "<none>", OUTSIDE, "<none>"]
    alias = f"svc-externalname-web.shop.svc.cluster.local is an alias for {OUTSIDE}."
    assert lines(sh(shop, "tools", "host svc-externalname-web"))[0] == alias

    before = system.get("configmaps", "coredns")["data"]["Corefile"]
    restarts = [pod["status"]["containerStatuses"][0]["restartCount"] for pod in system.pods("k8s-app=kube-dns")]
    zone = f"mysticalrecluse.com:53 {{\n    forward . {':'.join(UPSTREAM)}\n}}\n"
    try:
        with asking(shop, "dig +tries=1 +timeout=25 +short web.shop.svc.cluster.local") as answers:
            set_corefile(system, before + zone)
            everywhere(shop, "dig @$server +short +search svc-externalname-web", ["10.0.0.77", f"{OUTSIDE}."])
        assert len(answers) >= 10
        assert set(answers) == {shop.cluster_ip("web")}
        output = sh(shop, "tools", "host -t A svc-externalname-web")
        assert lines(output) == [alias, f"{OUTSIDE} has address 10.0.0.77"]
        assert lines(sh(shop, "tools", f"getent hosts {OUTSIDE}"))[0].split() == ["10.0.0.77", OUTSIDE]

        # An invalid configuration is logged, and the earlier one stays in use.
        set_corefile(system, before + zone + "this is not a Corefile {\n")
        text = ("logs", "-l", "k8s-app=kube-dns", "--tail=-1", "--prefix")
        has_event = "the new configuration is not used: Corefile, line"
        eventually(lambda: len({line.split()[0] for line in lines(system.kubectl(*text)) if has_event in line}) == 2)
        assert lines(sh(shop, "tools", f"dig +short {OUTSIDE}")) == ["10.0.0.77"]
    finally:
        set_corefile(system, before)
    everywhere(shop, f"dig @$server {OUTSIDE} | grep -o NXDOMAIN", ["NXDOMAIN"])
    assert restarts == [
        pod["status"]["containerStatuses"][0]["restartCount"] for pod in system.pods("k8s-app=kube-dns")
    ]


def set_corefile(system: Namespace, text: str) -> None:
    patch = yaml.safe_dump({"data": {"Corefile": text}})
    system.kubectl("patch", "configmap", "coredns", "--type=merge", "-p", json.dumps(yaml.safe_load(patch)))


def test_bridgehead_dns_prints_the_zone(shop: Namespace) -> None:
    """The command runs outside the cluster with a kubeconfig."""
    zone = run(BRIDGEHEAD, "dns", f"--kubeconfig={shop.lab.state_dir}/kubeconfig", "--dump").stdout
    assert f"web.shop.svc.cluster.local. 5 IN A {shop.cluster_ip('web')}\n" in zone
    for address in re.findall(r" IN A (\S+)", zone):
        ipaddress.ip_address(address)
