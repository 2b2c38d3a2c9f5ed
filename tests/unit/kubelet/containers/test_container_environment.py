"""Environment variables: Services as seeds and Kubernetes list them, expansion, precedence, sources."""

from __future__ import annotations

import base64
import tracemalloc

import msgspec
import pytest

from bridgehead.kubelet.containers.container_environment import (
    EnvironmentSources,
    container_environment,
    declared_variables,
    service_variables,
)
from bridgehead.kubelet.errors import ArgumentListTooLong, ConfigNotReady
from bridgehead.kubelet.volumes.downward_api import Addresses
from bridgehead.objects.core import (
    ConfigMap,
    Container,
    EnvFromSource,
    EnvVar,
    EnvVarSource,
    FileKeySelector,
    KeySelector,
    ObjectFieldSelector,
    Pod,
    PodSpec,
    ResourceFieldSelector,
    ResourceRequirements,
    Secret,
    Service,
    ServicePort,
    ServiceSpec,
    SourceReference,
)
from bridgehead.objects.meta import ObjectMeta


def service(name, ip, *ports, namespace="default"):
    return Service(
        metadata=ObjectMeta(name=name, namespace=namespace),
        spec=ServiceSpec(cluster_ip=ip, ports=tuple(ports)),
    )


REDIS = service("redis-master", "10.0.0.11", ServicePort(port=6379))
# kube-dns, kubernetes and the others, in one namespace as in the document.
KUBE_DNS = service(
    "kube-dns",
    "10.0.0.2",
    ServicePort(port=53, name="dns", protocol="UDP"),
    ServicePort(port=53, name="dns-tcp"),
    ServicePort(port=9153, name="metrics"),
    namespace="kube-system",
)
DASHBOARD = service("kubernetes-dashboard", "10.0.65.81", ServicePort(port=443), namespace="kube-system")
TILLER = service("tiller-deploy", "10.0.34.221", ServicePort(port=44134, name="tiller"), namespace="kube-system")
SERVICE_TEST = service("service-test", "10.0.46.79", ServicePort(port=6180, name="work"), namespace="kube-system")
KUBERNETES = service("kubernetes", "10.0.0.1", ServicePort(port=443, name="https"))


def test_service_variables_match_the_documentation():
    assert service_variables([REDIS], "default", links=True) == {
        "REDIS_MASTER_SERVICE_HOST": "10.0.0.11",
        "REDIS_MASTER_SERVICE_PORT": "6379",
        "REDIS_MASTER_PORT": "tcp://10.0.0.11:6379",
        "REDIS_MASTER_PORT_6379_TCP": "tcp://10.0.0.11:6379",
        "REDIS_MASTER_PORT_6379_TCP_PROTO": "tcp",
        "REDIS_MASTER_PORT_6379_TCP_PORT": "6379",
        "REDIS_MASTER_PORT_6379_TCP_ADDR": "10.0.0.11",
    }


DOCKER_INSPECT = """
KUBE_DNS_SERVICE_PORT=53
KUBE_DNS_PORT_53_UDP_PORT=53
KUBE_DNS_PORT_9153_TCP_PROTO=tcp
KUBERNETES_DASHBOARD_PORT=tcp://10.0.65.81:443
KUBERNETES_DASHBOARD_PORT_443_TCP_PROTO=tcp
TILLER_DEPLOY_PORT_44134_TCP_PROTO=tcp
KUBE_DNS_SERVICE_HOST=10.0.0.2
KUBE_DNS_PORT_53_TCP_PROTO=tcp
KUBE_DNS_PORT_53_TCP_PORT=53
KUBERNETES_SERVICE_PORT=443
KUBERNETES_PORT=tcp://10.0.0.1:443
KUBERNETES_DASHBOARD_SERVICE_HOST=10.0.65.81
KUBERNETES_DASHBOARD_PORT_443_TCP=tcp://10.0.65.81:443
SERVICE_TEST_PORT_6180_TCP_PROTO=tcp
KUBERNETES_DASHBOARD_PORT_443_TCP_PORT=443
SERVICE_TEST_SERVICE_PORT=6180
SERVICE_TEST_PORT_6180_TCP_ADDR=10.0.46.79
KUBE_DNS_PORT=udp://10.0.0.2:53
KUBE_DNS_PORT_9153_TCP_PORT=9153
KUBERNETES_PORT_443_TCP_PROTO=tcp
TILLER_DEPLOY_PORT_44134_TCP_ADDR=10.0.34.221
TILLER_DEPLOY_PORT_44134_TCP=tcp://10.0.34.221:44134
TILLER_DEPLOY_PORT_44134_TCP_PORT=44134
SERVICE_TEST_PORT_6180_TCP=tcp://10.0.46.79:6180
KUBE_DNS_SERVICE_PORT_DNS_TCP=53
KUBE_DNS_PORT_53_UDP_ADDR=10.0.0.2
KUBERNETES_SERVICE_PORT_HTTPS=443
KUBERNETES_PORT_443_TCP=tcp://10.0.0.1:443
TILLER_DEPLOY_SERVICE_PORT=44134
SERVICE_TEST_SERVICE_PORT_WORK=6180
KUBE_DNS_PORT_53_TCP=tcp://10.0.0.2:53
KUBERNETES_SERVICE_HOST=10.0.0.1
TILLER_DEPLOY_SERVICE_HOST=10.0.34.221
SERVICE_TEST_SERVICE_HOST=10.0.46.79
KUBE_DNS_PORT_53_UDP_PROTO=udp
KUBERNETES_DASHBOARD_SERVICE_PORT=443
TILLER_DEPLOY_SERVICE_PORT_TILLER=44134
SERVICE_TEST_PORT=tcp://10.0.46.79:6180
SERVICE_TEST_PORT_6180_TCP_PORT=6180
KUBE_DNS_SERVICE_PORT_DNS=53
KUBE_DNS_SERVICE_PORT_METRICS=9153
KUBE_DNS_PORT_53_UDP=udp://10.0.0.2:53
KUBE_DNS_PORT_9153_TCP=tcp://10.0.0.2:9153
KUBERNETES_PORT_443_TCP_ADDR=10.0.0.1
TILLER_DEPLOY_PORT=tcp://10.0.34.221:44134
KUBE_DNS_PORT_9153_TCP_ADDR=10.0.0.2
KUBERNETES_PORT_443_TCP_PORT=443
KUBERNETES_DASHBOARD_PORT_443_TCP_ADDR=10.0.65.81
KUBE_DNS_PORT_53_TCP_ADDR=10.0.0.2
"""


def test_variables_of_a_pod_in_kube_system_are_complete():
    services = [KUBE_DNS, DASHBOARD, TILLER, SERVICE_TEST, KUBERNETES, REDIS]
    listed = dict(line.split("=", 1) for line in DOCKER_INSPECT.split())
    assert service_variables(services, "kube-system", links=True) == listed


@pytest.mark.parametrize(
    ("services", "namespace", "links", "hosts"),
    [
        ([service("db", "None", ServicePort(port=1))], "default", True, set()),
        ([service("db", "", ServicePort(port=1))], "default", True, set()),
        ([REDIS, KUBERNETES], "other", True, {"KUBERNETES_SERVICE_HOST"}),
        ([REDIS, KUBERNETES], "default", False, {"KUBERNETES_SERVICE_HOST"}),
        ([REDIS, KUBERNETES], "default", True, {"KUBERNETES_SERVICE_HOST", "REDIS_MASTER_SERVICE_HOST"}),
    ],
    ids=["headless", "external name", "other namespace", "without links", "own namespace"],
)
def test_a_pod_gets_variables_of_its_namespaces_services(services, namespace, links, hosts):
    variables = service_variables(services, namespace, links=links)
    assert {name for name in variables if name.endswith("_SERVICE_HOST")} == hosts


def test_an_ipv6_address_has_brackets():
    six = service("six", "fd00::1", ServicePort(port=80))
    assert service_variables([six], "default", links=True)["SIX_PORT"] == "tcp://[fd00::1]:80"


CONFIG = ConfigMap(metadata=ObjectMeta(name="cfg", namespace="default"), data={"COLOR": "red", "size": "3"})
SECRET = Secret(
    metadata=ObjectMeta(name="sec", namespace="default"), data={"PASSWORD": base64.b64encode(b"s3").decode()}
)


FILES = {("shared", "app.env"): "COLOR='red'\n# size\nEMPTY=''\n", ("shared", "bad.env"): "COLOR=red\n"}


def sources(*services):
    return EnvironmentSources(
        services=services,
        config_map=lambda name: CONFIG if name == "cfg" else None,
        secret=lambda name: SECRET if name == "sec" else None,
        env_file=lambda volume, path: FILES.get((volume, path)),
        addresses=Addresses(("10.244.1.5", "fd00:10:244:1::5"), ("10.0.0.201", "fd00:10::201")),
        allocatable={"cpu": "4", "memory": "8Gi"},
    )


def environment(container, *services, **spec):
    pod = Pod(
        metadata=ObjectMeta(name="web-1", namespace="default", uid="u", labels={"app": "web"}),
        spec=PodSpec(containers=(container,), node_name="node1", service_account_name="default", **spec),
    )
    return container_environment(pod, container, sources(*services))


def test_env_overrides_env_from_and_both_override_services():
    container = Container(
        name="c",
        env=(
            EnvVar(name="COLOR", value="blue"),
            EnvVar(name="REDIS_MASTER_SERVICE_HOST", value="mine"),
            EnvVar(name="WHERE", value="$(REDIS_MASTER_SERVICE_PORT) $(COLOR) $(size) $(LATER)"),
            EnvVar(name="LATER", value="x"),
        ),
        env_from=(EnvFromSource(config_map_ref=SourceReference(name="cfg")),),
    )
    env = environment(container, REDIS)
    assert env["COLOR"] == "blue"
    assert env["size"] == "3"
    assert env["REDIS_MASTER_SERVICE_HOST"] == "mine"
    assert env["WHERE"] == "6379 blue 3 $(LATER)"


def value_from(**source):
    return Container(
        name="c",
        env=(EnvVar(name="X", value_from=EnvVarSource(**source)),),
        resources=ResourceRequirements(limits={"cpu": "250m", "memory": "64Mi"}),
    )


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ({"field_ref": ObjectFieldSelector(field_path="metadata.name")}, "web-1"),
        ({"field_ref": ObjectFieldSelector(field_path="metadata.labels['app']")}, "web"),
        ({"field_ref": ObjectFieldSelector(field_path="metadata.annotations['none']")}, ""),
        ({"field_ref": ObjectFieldSelector(field_path="status.podIP")}, "10.244.1.5"),
        ({"field_ref": ObjectFieldSelector(field_path="status.hostIP")}, "10.0.0.201"),
        ({"field_ref": ObjectFieldSelector(field_path="status.podIPs")}, "10.244.1.5,fd00:10:244:1::5"),
        ({"field_ref": ObjectFieldSelector(field_path="status.hostIPs")}, "10.0.0.201,fd00:10::201"),
        ({"field_ref": ObjectFieldSelector(field_path="spec.nodeName")}, "node1"),
        ({"config_map_key_ref": KeySelector(name="cfg", key="COLOR")}, "red"),
        ({"secret_key_ref": KeySelector(name="sec", key="PASSWORD")}, "s3"),
        ({"resource_field_ref": ResourceFieldSelector(resource="limits.cpu")}, "1"),
        ({"resource_field_ref": ResourceFieldSelector(resource="limits.cpu", divisor="1m")}, "250"),
        ({"resource_field_ref": ResourceFieldSelector(resource="limits.memory", divisor="1Mi")}, "64"),
        ({"resource_field_ref": ResourceFieldSelector(resource="requests.memory")}, str(64 << 20)),
    ],
    ids=lambda value: str(value)[:60],
)
def test_value_from_is_resolved(source, value):
    assert environment(value_from(**source))["X"] == value


def test_an_unset_limit_is_the_nodes_capacity():
    container = Container(
        name="c",
        env=(
            EnvVar(name="X", value_from=EnvVarSource(resource_field_ref=ResourceFieldSelector(resource="limits.cpu"))),
        ),
    )
    assert environment(container)["X"] == "4"


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"config_map_key_ref": KeySelector(name="none", key="k")}, 'configmap "none" not found'),
        ({"secret_key_ref": KeySelector(name="none", key="k")}, 'secret "none" not found'),
        ({"config_map_key_ref": KeySelector(name="cfg", key="k")}, "couldn't find key k in ConfigMap default/cfg"),
        ({"secret_key_ref": KeySelector(name="sec", key="k")}, "couldn't find key k in Secret default/sec"),
    ],
)
def test_missing_objects_are_reported(source, message):
    with pytest.raises(ConfigNotReady, match=message):
        environment(value_from(**source))


@pytest.mark.parametrize(
    "source",
    [
        {"config_map_key_ref": KeySelector(name="none", key="k", optional=True)},
        {"secret_key_ref": KeySelector(name="sec", key="k", optional=True)},
    ],
)
def test_optional_missing_objects_are_ignored(source):
    assert "X" not in environment(value_from(**source))


def test_env_from_adds_a_prefix_and_skips_invalid_names():
    odd = EnvFromSource(prefix="P_", config_map_ref=SourceReference(name="cfg"))
    missing = EnvFromSource(secret_ref=SourceReference(name="none", optional=True))
    assert environment(Container(name="c", env_from=(odd, missing))) == {"P_COLOR": "red", "P_size": "3"}
    with pytest.raises(ConfigNotReady, match='secret "none" not found'):
        environment(Container(name="c", env_from=(EnvFromSource(secret_ref=SourceReference(name="none")),)))


def from_file(key, path="app.env", **more):
    reference = FileKeySelector(volume_name="shared", path=path, key=key, **more)
    variable = EnvVar(name="X", value_from=EnvVarSource(file_key_ref=reference))
    return environment(Container(name="c", env=(variable,))).get("X")


def test_variables_of_env_files():
    assert (from_file("COLOR"), from_file("EMPTY")) == ("red", "")
    assert from_file("SIZE", optional=True) is None
    assert from_file("SIZE", path="none.env", optional=True) is None
    for path in ("app.env", "none.env"):
        with pytest.raises(ConfigNotReady, match=f'environment variable key "SIZE" not found in file "{path}"'):
            from_file("SIZE", path)
    with pytest.raises(ConfigNotReady, match="couldn't parse env file: invalid environment variable format at line 1"):
        from_file("COLOR", "bad.env", optional=True)


def test_the_variables_that_a_pod_sets_itself():
    imported = EnvFromSource(prefix="P_", config_map_ref=SourceReference(name="cfg"))
    own = Container(name="c", env_from=(imported,), env=(EnvVar(name="A", value="1"), EnvVar(name="P_size")))
    pod = Pod(metadata=ObjectMeta(name="p", namespace="default"), spec=PodSpec(containers=(own,)))
    assert declared_variables(pod, own, sources(REDIS)) == ("P_COLOR", "P_size", "A")


def doubling(count: int) -> tuple[EnvVar, ...]:
    """Variables of which each has the value of the one before twice."""
    return (EnvVar(name="E0", value="x"), *(EnvVar(name=f"E{n}", value=f"$(E{n - 1})" * 2) for n in range(1, count)))


def test_values_that_double_end_at_the_longest_argument():
    assert len(environment(Container(name="c", env=doubling(17)))["E16"]) == 2**16
    tracemalloc.start()
    try:
        with pytest.raises(
            ArgumentListTooLong,
            match=r'^argument list too long: environment variable "E17" has more than 131072 bytes$',
        ):
            environment(Container(name="c", env=doubling(60)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


@pytest.mark.parametrize(
    "container",
    [
        # Each of the variables may be that long; together they may not.
        Container(name="c", env=(*doubling(17), *(EnvVar(name=f"V{n}", value="$(E16)") for n in range(10_000)))),
        Container(
            name="c",
            env_from=tuple(
                EnvFromSource(prefix=f"P{n}_", config_map_ref=SourceReference(name="cfg")) for n in range(50_000)
            ),
        ),
    ],
    ids=["env", "envFrom"],
)
def test_the_whole_environment_is_bounded(container):
    message = r'with environment variable "\w+", arguments and environment have more than 2097152 bytes'
    with pytest.raises(ArgumentListTooLong, match=message):
        environment(container)


def test_secrets_are_counted_while_they_are_decoded():
    large = Secret(metadata=ObjectMeta(name="sec"), data={"KEY": base64.b64encode(b"x" * 100_000).decode()})
    every = msgspec.structs.replace(sources(), secret=lambda name: large)
    references = (EnvFromSource(prefix=f"P{n}_", secret_ref=SourceReference(name="sec")) for n in range(2000))
    container, pod = Container(name="c", env_from=tuple(references)), Pod(metadata=ObjectMeta(name="web-1"))
    tracemalloc.start()
    try:
        with pytest.raises(ArgumentListTooLong, match='with environment variable "P20_KEY"'):
            container_environment(pod, container, every)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000


def test_the_variables_of_many_services_are_bounded():
    services = [service(f"web-{n}", "10.96.0.9", ServicePort(port=80)) for n in range(20_000)]
    with pytest.raises(ArgumentListTooLong, match="more than 2097152 bytes"):
        environment(Container(name="c"), *services)
    assert environment(Container(name="c"), *services, enable_service_links=False) == {}


def test_an_annotation_may_be_longer_than_a_variable():
    source = EnvVarSource(field_ref=ObjectFieldSelector(field_path="metadata.annotations['long']"))
    pod = Pod(metadata=ObjectMeta(name="web-1", namespace="default", annotations={"long": "x" * 2**17}))
    container = Container(name="c", env=(EnvVar(name="LONG", value_from=source),))
    with pytest.raises(ArgumentListTooLong, match='environment variable "LONG" has more than 131072 bytes'):
        container_environment(pod, container, sources())
