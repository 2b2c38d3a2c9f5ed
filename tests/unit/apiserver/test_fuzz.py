"""Random requests: the answer names the error, and is never a 500 or an exception in the log."""

from __future__ import annotations

import asyncio
import copy
import json
import logging
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.apiserver.access.service_account_tokens import ISSUER
from bridgehead.apiserver.admission import service_accounts
from tests.unit.apiserver.fuzz_values import ODD_PATCHES
from tests.unit.apiserver.world import ADMIN, TABLE, Answer, World, open_world, signing_key
from tests.unit.examples import examples

DIGITS = "9" * 5000
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="module")
def world(runner: asyncio.Runner) -> Iterator[World]:
    patched = pytest.MonkeyPatch()
    patched.setattr(service_accounts, "_DEFAULT_ACCOUNT_SECONDS", 0.0)  # accounts are deleted here, too
    context = open_world()
    world = runner.run(context.__aenter__())
    for url, obj in OBJECTS.items():
        runner.run(world.call("POST", url, obj))
    yield world
    runner.run(context.__aexit__(None, None, None))
    patched.undo()


# --- queries

NUMBERS = st.sampled_from(
    ["", "0", "-0", "+1", "1", "-1", "007", " 1", "1 ", "1_0", "1e3", "1.5", "0x1", "٣", "²", "x", "NaN", DIGITS]
    + [str(2**bits + more) for bits in (31, 32, 53, 63, 64) for more in (-1, 0, 1)]
    + ["-" + DIGITS, str(-(2**63)), str(-(2**63) - 1)]
)
TEXTS = st.sampled_from(["", "a", "a=b", "a in (b", "!", "a,,b", "=", "metadata.name=x", "a==b,c!=d", "\x00", "é", "%"])
TOKENS = st.sampled_from(["x", "=", "é", "eyJydiI6MX0", "eyJydiI6IjEiLCJuYW1lc3BhY2UiOjF9", "bnVsbA", "W10", "\x00"])
QUERIES: dict[str, st.SearchStrategy[str]] = {
    "resourceVersion": NUMBERS,
    "limit": NUMBERS,
    "timeoutSeconds": NUMBERS.filter(lambda text: not text.strip("+0").isdigit()) | st.just("-1"),
    "gracePeriodSeconds": NUMBERS,
    "continue": TOKENS | NUMBERS,
    "labelSelector": TEXTS,
    "fieldSelector": TEXTS,
    "resourceVersionMatch": st.sampled_from(["", "Exact", "NotOlderThan", "x"]),
    "sendInitialEvents": st.sampled_from(["", "true", "false", "x"]),
    "allowWatchBookmarks": st.sampled_from(["", "true", "x"]),
    "watch": st.sampled_from(["false", "0"]),
    "includeObject": st.sampled_from(["Object", "None", "Metadata", "x"]),
    "fieldValidation": st.sampled_from(["Strict", "Warn", "Ignore", "x"]),
    "dryRun": st.sampled_from(["All", "x", ""]),
    "propagationPolicy": st.sampled_from(["Orphan", "Foreground", "x"]),
    "orphanDependents": st.sampled_from(["true", "x"]),
    "pretty": st.sampled_from(["true", "x"]),
    "tailLines": NUMBERS,
    "sinceSeconds": NUMBERS,
    "sinceTime": TEXTS,
    "container": TEXTS,
    "hash": TEXTS,
}
MEDIA = ("application/json", "application/vnd.kubernetes.protobuf")
HEADERS: dict[str, st.SearchStrategy[str]] = {
    "accept": st.sampled_from(
        ["*/*", TABLE, "application/yaml", "x", ";;q=x", "application/json;as=Table;v=v9;g=meta.k8s.io"]
        + [f"{media};as=PartialObjectMetadata{more};v=v1;g=meta.k8s.io" for media in MEDIA for more in ("", "List")]
        + [*MEDIA]
    ),
    "accept-encoding": st.sampled_from(["gzip", "x"]),
    "authorization": st.sampled_from(["", "Bearer", "Bearer a.b.c", "Basic x", "Bearer é", "Bearer \x00"]),
    "impersonate-user": st.sampled_from(["", "bob", "system:serviceaccount:", "system:serviceaccount:a:b", "é"]),
    "impersonate-group": TEXTS,
    "impersonate-extra-%ff": TEXTS,
    "user-agent": st.sampled_from(["curl/8", "x"]),
}

# --- bodies

META: dict[str, Any] = {"name": "x", "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["a.b/c"]}
POD_SPEC: dict[str, Any] = {
    "containers": [
        {
            "name": "c",
            "image": "x",
            "ports": [{"containerPort": 80, "name": "http", "hostPort": 8080}],
            "env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "resources": {"limits": {"cpu": "1"}, "requests": {"memory": "1Gi"}},
            "readinessProbe": {"httpGet": {"port": "http", "path": "/"}, "periodSeconds": 1},
            "volumeMounts": [{"name": "v", "mountPath": "/v", "subPath": "s"}],
            "securityContext": {"capabilities": {"add": ["X"]}},
        }
    ],
    "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}, {"name": "s", "secret": {"secretName": "s"}}],
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
    "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}},
    "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "DoNotSchedule"}],
    "serviceAccountName": "default",
    "nodeName": "n",
}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": POD_SPEC}
SELECTING = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
IN_DEFAULT = "/api/v1/namespaces/default"
OBJECTS: dict[str, dict[str, Any]] = {
    f"{IN_DEFAULT}/serviceaccounts": {"metadata": {"name": "default"}},
    f"{IN_DEFAULT}/configmaps": {"metadata": META, "data": {"k": "v"}, "binaryData": {"b": "AA=="}},
    f"{IN_DEFAULT}/secrets": {"metadata": META, "data": {"k": "AA=="}, "stringData": {"s": "t"}, "type": "Opaque"},
    f"{IN_DEFAULT}/services": {
        "metadata": META,
        "spec": {
            "type": "LoadBalancer",
            "selector": {"a": "b"},
            "ports": [{"port": 80, "targetPort": "http", "name": "p", "nodePort": 30001, "protocol": "TCP"}],
            "clusterIP": "10.96.7.7",
            "externalIPs": ["192.0.2.1"],
            "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10}},
            "sessionAffinity": "ClientIP",
            "loadBalancerSourceRanges": ["192.0.2.0/24"],
            "ipFamilies": ["IPv4"],
        },
    },
    f"{IN_DEFAULT}/endpoints": {
        "metadata": META,
        "subsets": [{"addresses": [{"ip": "10.1.1.1", "nodeName": "n"}], "ports": [{"port": 80, "name": "p"}]}],
    },
    f"{IN_DEFAULT}/pods": {"metadata": META, "spec": POD_SPEC},
    f"{IN_DEFAULT}/events": {
        "metadata": {"name": "x"},
        "involvedObject": {"namespace": "default", "kind": "Pod", "name": "x"},
        "lastTimestamp": "2026-11-21T03:48:41Z",
        "count": 1,
    },
    "/api/v1/namespaces": {"metadata": META},
    "/api/v1/nodes": {
        "metadata": META,
        "spec": {
            "podCIDR": "10.244.1.0/24",
            "podCIDRs": ["10.244.1.0/24"],
            "taints": [{"key": "a", "effect": "NoExecute"}],
        },
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        },
    },
    "/apis/apps/v1/namespaces/default/deployments": {
        "metadata": META,
        "spec": {**SELECTING, "replicas": 2, "strategy": {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}}},
    },
    "/apis/apps/v1/namespaces/default/replicasets": {"metadata": META, "spec": {**SELECTING, "replicas": 1}},
    "/apis/apps/v1/namespaces/default/daemonsets": {"metadata": META, "spec": SELECTING},
    "/apis/apps/v1/namespaces/default/statefulsets": {
        "metadata": META,
        "spec": {
            **SELECTING,
            "serviceName": "x",
            "updateStrategy": {"rollingUpdate": {"partition": 1, "maxUnavailable": "25%"}},
            "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"},
            "volumeClaimTemplates": [
                {
                    "metadata": {"name": "c"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                }
            ],
        },
    },
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices": {
        "metadata": META,
        "addressType": "IPv4",
        "endpoints": [
            {"addresses": ["10.1.1.1"], "conditions": {"ready": True}, "hints": {"forZones": [{"name": "z"}]}}
        ],
        "ports": [{"port": 80, "name": "p", "protocol": "TCP"}],
    },
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": {
        "metadata": META,
        "spec": {"holderIdentity": "x", "leaseDurationSeconds": 5, "renewTime": "2026-11-21T03:48:41.000000Z"},
    },
}
SUBRESOURCES: dict[str, dict[str, Any]] = {
    f"{IN_DEFAULT}/pods/x/binding": {"metadata": {"name": "x"}, "target": {"kind": "Node", "name": "n"}},
    f"{IN_DEFAULT}/pods/x/eviction": {"metadata": {"name": "x"}, "deleteOptions": {"gracePeriodSeconds": 1}},
    f"{IN_DEFAULT}/serviceaccounts/default/token": {
        "spec": {
            "audiences": ["a"],
            "expirationSeconds": 600,
            "boundObjectRef": {"kind": "Pod", "name": "x", "uid": "y"},
        }
    },
    "/apis/apps/v1/namespaces/default/deployments/x/scale": {"metadata": {"name": "x"}, "spec": {"replicas": 2}},
    "/apis/authentication.k8s.io/v1/tokenreviews": {"spec": {"token": "a.b.c", "audiences": ["a"]}},
    "/apis/authentication.k8s.io/v1/selfsubjectreviews": {},
    "/apis/authorization.k8s.io/v1/subjectaccessreviews": {
        "spec": {"user": "bob", "groups": ["g"], "resourceAttributes": {"verb": "get", "resource": "pods"}}
    },
    "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews": {"spec": {"namespace": "default"}},
    "/api/v1/namespaces/x/finalize": {"metadata": {"name": "x"}, "spec": {"finalizers": ["kubernetes"]}},
}
ODD: list[Any] = [None, True, 0, -1, 2**31, 2**63, 2**64, 1.5, 1e300, "", "x", "é", "\x00", "a" * 300, DIGITS]
ODD += [[], [None], ["x", "x"], {}, {"": None}, {"a": {"b": {}}}, "80%", "127.0.0.9", "::1", "2026-13-41T99:99:99Z"]


def paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, child in children:
        yield from paths(child, (*path, key))


def changed(value: Any, path: tuple[Any, ...], wanted: Any) -> Any:
    if not path:
        return wanted
    value = copy.copy(value)
    value[path[0]] = changed(value[path[0]], path[1:], wanted)
    return value


@st.composite
def nearly_sound(draw: st.DrawFn, whole: dict[str, Any]) -> Any:
    for _ in range(draw(st.integers(0, 2))):
        whole = changed(whole, draw(st.sampled_from(list(paths(whole)))), draw(st.sampled_from(ODD)))
        if not isinstance(whole, dict):
            break
    return whole


POINTERS = st.sampled_from(
    " / /metadata /metadata/labels/a /metadata/finalizers/0 /metadata/finalizers/- /spec /spec/ports/0 /data/k /kind x "
    f"/~2 /status /spec/ports/{DIGITS}".split(" ")
)
PATCHES = {
    "json-patch": st.lists(
        st.fixed_dictionaries(
            {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x", None])},
            optional={"path": POINTERS, "from": POINTERS, "value": st.sampled_from(ODD)},
        ),
        max_size=4,
    ),
    "merge-patch": st.sampled_from(ODD),
    "strategic-merge-patch": st.sampled_from(
        [*ODD, {"$patch": "replace"}, {"$patch": "delete"}, {"$patch": []}, {"$retainKeys": ["spec"]}]
        + [{"spec": {"$setElementOrder/ports": odd}} for odd in ODD]
        + [{"metadata": {"$deleteFromPrimitiveList/finalizers": odd}} for odd in ODD]
        + [{"spec": {"ports": [{"$patch": odd, "port": odd}]}} for odd in ODD]
        + [{"metadata": {"ownerReferences": [{"uid": odd}]}} for odd in ODD]
    ),
}


@st.composite
def some_of(draw: st.DrawFn, choices: dict[str, st.SearchStrategy[str]], most: int) -> dict[str, str]:
    """Draw a few choices, so that not every request is refused for the first of many reasons."""
    names = draw(st.lists(st.sampled_from(sorted(choices)), max_size=most))
    return {name: draw(choices[name]) for name in names}


@st.composite
def requests(draw: st.DrawFn) -> dict[str, Any]:
    url, obj = draw(st.sampled_from([*OBJECTS.items(), *SUBRESOURCES.items()]))
    method = draw(st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]))
    headers = draw(some_of(HEADERS, 1))
    if url in OBJECTS and (method in ("PUT", "PATCH") or draw(st.booleans())) and method != "POST":
        url += "/" + draw(
            st.sampled_from(["x", "x", "x", "missing", "X%00", "..", "é", "x/status", "x/log", "x/scale", "x/y/z"])
        )
    body: bytes | None = None
    if method == "PATCH":
        kind = draw(st.sampled_from(sorted(PATCHES)))
        patch = draw(PATCHES[kind] | nearly_sound(obj))
        body, headers["content-type"] = json.dumps(patch).encode(), f"application/{kind}+json"
    elif method in ("POST", "PUT", "DELETE"):
        sent = draw(nearly_sound(obj)) if method != "DELETE" else draw(nearly_sound(DELETE_OPTIONS))
        body, headers["content-type"] = json.dumps(sent).encode(), "application/json"
    if body is not None and draw(st.integers(0, 9)) == 0:
        body = draw(
            st.binary(max_size=30)
            | st.sampled_from([b"k8s\0" + body[:40], body[:-1], b"[" * 3000, b"\xff", b"&a [*a]"])
        )
        types = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "x", ""]
        headers["content-type"] = draw(st.sampled_from(types))
    query = "&".join(f"{key}={value}" for key, value in draw(some_of(QUERIES, 2)).items())
    user = draw(st.sampled_from([ADMIN] * 9 + [None]))
    return {"method": method, "url": f"{url}?{query}", "body": body, "user": user, "headers": headers}


DELETE_OPTIONS = {
    "kind": "DeleteOptions",
    "apiVersion": "v1",
    "gracePeriodSeconds": 0,
    "propagationPolicy": "Orphan",
    "preconditions": {"uid": "x", "resourceVersion": "1"},
    "dryRun": ["All"],
}


def test_no_request_causes_an_internal_error(runner, world, caplog):
    @examples(150)
    @given(requests())
    def ask(request: dict[str, Any]) -> None:
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            answer: Answer = runner.run(world.call(**request))
        is_odd = any(text.encode() in answer.body for text in ODD_PATCHES)
        assert answer.status != 500 or is_odd, (request, answer.body)
        assert not caplog.records, (request, caplog.text)

    ask()


# --- examples with their texts

PARSE = 'strconv.{}: parsing "{}": {}'


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ("resourceVersion", PARSE.format("ParseUint", DIGITS, "value out of range")),
        ("watch=true&resourceVersion", PARSE.format("ParseUint", DIGITS, "value out of range")),
        ("limit", PARSE.format("ParseInt", DIGITS, "value out of range")),
        ("timeoutSeconds", PARSE.format("ParseInt", DIGITS, "value out of range")),
        ("watch=true&limit", PARSE.format("ParseInt", DIGITS, "value out of range")),
        ("watch=true&timeoutSeconds", PARSE.format("ParseInt", DIGITS, "value out of range")),
    ],
)
def test_numbers_of_5000_digits_are_refused(runner, world, query, text):
    answer = runner.run(world.call("GET", f"{CONFIG_MAPS}?{query}={DIGITS}"))
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    assert answer.json["message"].endswith(text)


@pytest.mark.parametrize("text", ["1_0", "٣", " 1", "-1", "1.0"])
def test_numbers_that_go_does_not_parse_are_refused(runner, world, text):
    answer = runner.run(world.call("GET", f"{CONFIG_MAPS}?resourceVersion={text}"))
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")


SOUND = {
    "aud": [ISSUER],
    "exp": 2_000_000_000,
    "iss": ISSUER,
    "nbf": 0,
    "sub": "system:serviceaccount:default:default",
    "kubernetes.io": {"namespace": "default", "serviceaccount": {"name": "default", "uid": "u"}},
}


@given(nearly_sound(SOUND), st.sampled_from([None, "kubernetes.io", "exp"]))
def test_signed_tokens_with_odd_claims_are_invalid(runner, world, claims, left_out):
    if not isinstance(claims, dict):
        claims = {"claims": claims}
    claims = {key: value for key, value in claims.items() if key != left_out}
    try:
        token = jwt.encode(claims, signing_key().private, algorithm="RS256")
    except (TypeError, ValueError):
        return  # the library refuses to sign it
    headers = {"authorization": f"Bearer {token}"}
    answer = runner.run(world.call("GET", "/version", user=None, headers=headers))
    assert (answer.status, answer.json["reason"]) == (401, "Unauthorized")
