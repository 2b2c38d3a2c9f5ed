"""Columns, defaults and validation for random objects that agree with the schema: none may raise.

Objects are drawn from the official schema, mixed with values that have a meaning in some field.
"""

import copy
from functools import cache
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.bodies.definitions import load_definitions
from bridgehead.apiserver.resource import errors_of
from bridgehead.apiserver.resources.shared.metadata_validation import validate_metadata, validate_metadata_update
from tests.unit.apiserver.resources.steps import Refused, Steps, table
from tests.unit.examples import examples

TABLE = table("10.96.0.0/12", "fd00:96::/112")
TEXTS = (
    *("", "a", "A", "web", "a b", "a/b", "a.example.com", "None", "x" * 300, "ä", "-", "%", "5%", "200%", "1"),
    *("ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "Local", "Cluster", "ClientIP", "PreferDualStack"),
    *("SingleStack", "RequireDualStack", "IPv4", "IPv6", "FQDN", "TCP", "UDP", "VIP", "Always", "OnFailure", "Never"),
    *("Exists", "In", "NotIn", "DoesNotExist", "Equal", "NoExecute", "RollingUpdate", "Recreate", "OnDelete"),
    *("10.96.0.10", "10.1.2.3", "127.0.0.1", "fd00:96::5", "::ffff:1.2.3.4", "fe80::1%eth0", "10.0.0.0/8", "fd00::/64"),
    *("Ready", "True", "False", "Unknown", "PodScheduled", "Initialized", "Pending", "Running", "Succeeded", "Failed"),
    *("metadata.name", "metadata.labels['a']", "kubernetes.io/tls", "kubernetes.io/dockerconfigjson", "Completed"),
)
NUMBERS = (0, 1, 2, -1, 80, 443, 10250, 30000, 30080, 65535, 65536, 86400, 2**31 - 1, -(2**31))
QUANTITIES = ("0", "1", "-1", "100m", "1Gi", "1e3", "1e999", ".5")
TIMES = ("2026-11-21T02:35:22Z", "2026-11-21T02:35:22.123456Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z")
LABELS = {"matchLabels": {"app": "web"}}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "nginx"}]}}


@cache
def definitions():
    return load_definitions()


@cache
def definitions_by_kind():
    return {
        (gvk["group"], gvk["version"], gvk["kind"]): definition
        for definition in definitions().values()
        for gvk in definition.get("x-kubernetes-group-version-kind", ())
    }


def draw(random: Random, schema, depth: int = 0):
    """Draw a value that agrees with `schema`; deeper ones have fewer fields."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name.endswith("Quantity"):
            return random.choice(QUANTITIES)
        if name.endswith("IntOrString"):
            return random.choice((random.choice(TEXTS), random.choice(NUMBERS)))
        return draw(random, definitions()[name], depth)
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    match kind:
        case "string":
            if schema.get("format") == "byte":
                return random.choice(("", "eA==", "e30=", "W10="))
            return random.choice(TIMES if schema.get("format") == "date-time" else TEXTS)
        case "integer" | "number":
            return random.choice(NUMBERS)
        case "boolean":
            return random.random() < 0.5
        case "array":
            return [draw(random, schema["items"], depth + 1) for _ in range(random.choice((0, 1, 1, 2, 4)))]
    if "properties" not in schema:
        values = schema.get("additionalProperties", {"type": "string"})
        return {random.choice(TEXTS): draw(random, values, depth + 1) for _ in range(random.choice((0, 1, 2)))}
    share = 0.75 if depth < 3 else 0.3
    required = schema.get("required", ())
    return {
        name: draw(random, field, depth + 1)
        for name, field in schema["properties"].items()
        if name in required or (depth < 12 and random.random() < share)
    }


def draw_object(seed: int, resource):
    random = Random(seed)
    obj = draw(random, definitions_by_kind()[resource.group, resource.version, resource.kind])
    obj["apiVersion"], obj["kind"] = resource.api_version, resource.kind
    obj.setdefault("metadata", {})["name"] = "a"
    return obj


SOUND = {
    "services": {"type": "NodePort", "selector": {"app": "web"}, "ports": [{"port": 80}]},
    "pods": {"containers": [{"name": "a", "image": "nginx", "ports": [{"containerPort": 80}]}]},
    "deployments.apps": {"selector": LABELS, "template": TEMPLATE},
    "replicasets.apps": {"selector": LABELS, "template": TEMPLATE},
    "daemonsets.apps": {"selector": LABELS, "template": TEMPLATE},
    "statefulsets.apps": {"selector": LABELS, "template": TEMPLATE},
}


def mix(random: Random, sound, drawn, share: float):
    """Sound objects, with a share of random values."""
    if isinstance(sound, dict) and isinstance(drawn, dict):
        mixed = {key: mix(random, value, drawn.get(key), share) for key, value in sound.items()}
        return mixed | {key: drawn[key] for key in sorted(drawn.keys() - sound.keys()) if random.random() < share}
    if isinstance(sound, list):
        others = drawn if isinstance(drawn, list) and drawn else [None]
        return [mix(random, value, others[index % len(others)], share) for index, value in enumerate(sound)]
    return sound if drawn is None or random.random() > share else drawn


def draw_nearly_sound(seed: int, resource):
    drawn, random = draw_object(seed, resource), Random(seed)
    metadata = {"name": "a", "namespace": "default"}
    sound = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return mix(random, {**sound, "spec": SOUND[resource.id]}, drawn, random.choice((0.0, 0.02, 0.1)))


SEEDS_AT_ONCE = 10  # objects are drawn by `random`, much faster than Hypothesis draws anything
seeds = st.integers(0, 2**32).map(lambda number: range(number * SEEDS_AT_ONCE, (number + 1) * SEEDS_AT_ONCE))


@pytest.mark.parametrize("name", TABLE)
@examples(4)
@given(some=seeds)
def test_any_object_can_be_printed_and_selected(name, some):
    resource = TABLE[name]
    for seed in some:
        obj = draw_object(seed, resource)
        for column in resource.columns:
            assert type(column.cell(obj, 1_800_000_000.0)) in (str, int, bool)
        for read in resource.selectable.values():
            assert type(read(obj)) is str
        assert isinstance(resource.strategy.claims(obj), frozenset)
        assert isinstance(resource.strategy.warnings(obj), list)


@pytest.mark.parametrize("name", TABLE)
@examples(4)
@given(some=seeds)
def test_defaulting_is_idempotent(name, some):
    resource = TABLE[name]
    for seed in some:
        obj = draw_object(seed, resource)
        resource.strategy.default(obj)
        once = copy.deepcopy(obj)
        resource.strategy.default(obj)
        assert obj == once


@pytest.mark.parametrize("name", TABLE)
@examples(6)
@given(some=seeds, others=seeds)
def test_any_object_is_validated_without_an_error(name, some, others):
    for seed, other in zip(some, others, strict=True):
        validate_any(TABLE[name], seed, other)


def validate_any(resource, seed, other):
    obj, wished = draw_object(seed, resource), draw_object(other, resource)
    errors_of(validate_metadata, obj, resource)
    errors_of(validate_metadata_update, wished, obj)
    steps = Steps(resource)
    stored = obj
    try:
        stored = steps.create(obj)
    except Refused:
        resource.strategy.default(stored)  # an object may be older than a rule
    else:
        assert steps.update(stored, stored) == stored
    for subresource in ("", *(name for name in resource.subresources if name in ("status", "finalize"))):
        try:
            steps.update(stored, wished, subresource)
        except Refused as refused:
            assert all(error.message for error in refused.errors)  # noqa: PT017


@pytest.mark.parametrize("name", SOUND)
@examples(10)
@given(some=seeds, others=seeds)
def test_nearly_valid_objects_are_validated_without_an_error(name, some, others):
    """Random objects are refused early; nearly valid ones reach more checks, and many are accepted."""
    for seed, other in zip(some, others, strict=True):
        validate_nearly_valid(TABLE[name], seed, other)


def validate_nearly_valid(resource, seed, other):
    steps = Steps(resource)
    obj = draw_nearly_sound(seed, resource)
    try:
        stored = steps.create(obj)
    except Refused:
        return
    assert steps.update(stored, stored) == stored
    steps.update_refusal(stored, draw_nearly_sound(other, resource))
    steps.update_refusal(stored, draw_nearly_sound(other, resource), "status")


SERVICE_SPECS = st.fixed_dictionaries(
    {"ports": st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True)},
    optional={
        "type": st.sampled_from(["ClusterIP", "NodePort", "LoadBalancer", "ExternalName"]),
        "selector": st.just({"app": "web"}),
        "sessionAffinity": st.sampled_from(["None", "ClientIP"]),
        "ipFamilyPolicy": st.sampled_from(["SingleStack", "PreferDualStack", "RequireDualStack"]),
        "ipFamilies": st.lists(st.sampled_from(["IPv4", "IPv6"]), max_size=2, unique=True),
        "externalIPs": st.just(["192.0.2.1"]),
        "externalTrafficPolicy": st.sampled_from(["Cluster", "Local"]),
        "internalTrafficPolicy": st.sampled_from(["Cluster", "Local"]),
        "clusterIP": st.sampled_from(["None", "10.96.0.10", "fd00:96::5", ""]),
        "externalName": st.just("a.example.com"),
        "trafficDistribution": st.just("PreferClose"),
    },
)


@examples(150)
@given(before=SERVICE_SPECS, after=SERVICE_SPECS)
def test_a_service_that_is_stored_is_valid_and_complete(before, after):
    """A stored Service is accepted again, unchanged, in a create and in a replace."""
    services = Steps(TABLE["services"])

    def made(spec):
        ports = [{"name": f"p{port}", "port": port} for port in spec["ports"]]
        return {"metadata": {"name": "web", "namespace": "default"}, "spec": {**spec, "ports": ports}}

    stored = None
    for spec in (before, after):
        try:
            stored = services.create(made(spec)) if stored is None else services.update(stored, made(spec))
        except Refused:
            continue
        assert services.update(stored, stored) == stored
        assert services.claimed == services.resource.strategy.claims(stored)
        has_address = stored["spec"]["type"] != "ExternalName" and stored["spec"].get("clusterIP") != "None"
        assert bool([claim for claim in services.claimed if claim.startswith("clusterip/")]) == has_address
        if stored["spec"]["type"] in ("NodePort", "LoadBalancer"):
            assert all(port["nodePort"] for port in stored["spec"]["ports"])
