"""Requests to an API server in this process, and its answers with Kubernetes' texts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.registry import registry
from bridgehead.apiserver.registry.expiry import expire_once
from tests.unit.apiserver.customresources.definitions import crontab, define, definition, version
from tests.unit.apiserver.customresources.definitions import url as crontabs_url
from tests.unit.apiserver.world import ADMIN, TABLE, World, open_world

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
TOKEN_SUBPROTOCOL = "base64url.bearer.authorization.k8s.io."
SERVICES = "/api/v1/namespaces/default/services"
PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as world:
        yield world


def config_map(name: str = "one", **more: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **more}, "data": {"k": "v"}}


def service(name: str = "web") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}


def deployment() -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    return {
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }


async def create_pod(world: World, name: str = "p", **spec: Any) -> dict[str, Any]:
    await world.call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    pod = {"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "nginx"}], **spec}}
    created: dict[str, Any] = await world.create(PODS, pod)
    return created


# --- create, get, update


async def test_create_sets_server_owned_fields(world):
    created = await world.create(CONFIG_MAPS, config_map(uid="mine", creationTimestamp="2000-01-01T00:00:00Z"))
    metadata = created["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["creationTimestamp"] == "2026-11-21T03:48:41Z"
    assert metadata["namespace"] == "default"
    assert metadata["resourceVersion"] == str(world.store.revision)
    assert await world.get(f"{CONFIG_MAPS}/one") == created


async def test_generated_names_are_unique_and_keep_their_prefix(world):
    made = [await world.create(CONFIG_MAPS, {"metadata": {"generateName": "web-"}}) for _ in range(3)]
    names = {obj["metadata"]["name"] for obj in made}
    assert len(names) == 3
    assert all(name.startswith("web-") and len(name) == 9 for name in names)


async def test_an_update_without_changes_is_not_written(world):
    created = await world.create(CONFIG_MAPS, config_map())
    before = world.store.revision
    answer = await world.call("PUT", f"{CONFIG_MAPS}/one", created)
    assert (answer.status, answer.json, world.store.revision) == (200, created, before)
    assert (await world.patch(f"{CONFIG_MAPS}/one", {"data": {"k": "v"}})).status == 200
    assert world.store.revision == before


async def test_generation_counts_annotations_of_a_deployment_unless_its_status_is_written(world):
    """The controller records the revision with the status, in an annotation."""
    await world.create(DEPLOYMENTS, deployment())
    for url, generation in ((f"{DEPLOYMENTS}/web/status", 1), (f"{DEPLOYMENTS}/web", 2)):
        answer = await world.patch(url, {"metadata": {"annotations": {"revision": str(generation)}}})
        assert answer.json["metadata"]["annotations"]["revision"] == str(generation)
        assert answer.json["metadata"]["generation"] == generation


async def test_generation_counts_changes_of_the_spec_only(world):
    await world.create(DEPLOYMENTS, deployment())
    url = f"{DEPLOYMENTS}/web"
    assert (await world.patch(url, {"metadata": {"labels": {"a": "b"}}})).json["metadata"]["generation"] == 1
    assert (await world.patch(f"{url}/status", {"status": {"replicas": 1}})).json["metadata"]["generation"] == 1
    assert (await world.patch(url, {"spec": {"replicas": 3}})).json["metadata"]["generation"] == 2


async def test_status_and_spec_have_their_own_endpoints(world):
    await world.create(DEPLOYMENTS, deployment())
    url = f"{DEPLOYMENTS}/web"
    changed = (await world.patch(f"{url}/status", {"spec": {"replicas": 9}, "status": {"replicas": 1}})).json
    assert (changed["spec"]["replicas"], changed["status"]["replicas"]) == (2, 1)
    changed = (await world.patch(url, {"spec": {"replicas": 9}, "status": {"replicas": 5}})).json
    assert (changed["spec"]["replicas"], changed["status"]["replicas"]) == (9, 1)


async def test_dry_run_stores_nothing(world):
    before = world.store.revision
    answer = await world.call("POST", f"{SERVICES}?dryRun=All", service())
    assert answer.status == 201
    assert answer.json["spec"]["clusterIP"].startswith("10.")
    assert world.store.revision == before
    assert (await world.call("GET", f"{SERVICES}/web")).status == 404
    await world.create(CONFIG_MAPS, config_map())
    assert (await world.call("DELETE", f"{CONFIG_MAPS}/one?dryRun=All")).status == 200
    assert (await world.call("GET", f"{CONFIG_MAPS}/one")).status == 200


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("apis/coordination.k8s.io/v1/namespaces/default/leases", {"spec": {"holderIdentity": "me"}}),
        ("apis/node.k8s.io/v1/runtimeclasses", {"handler": "h"}),
        ("api/v1/namespaces/default/limitranges", {"spec": {"limits": []}}),
        ("api/v1/namespaces/default/services", {"spec": {"ports": [{"port": 80}]}}),
    ],
)
async def test_update_creates_what_does_not_exist(world, path, fields):
    obj = {"metadata": {"name": "x"}, **fields}
    created = await world.call("PUT", f"/{path}/x", obj)
    assert created.status == 201
    if path.endswith("services"):
        assert created.json["spec"]["clusterIP"]
    updated = await world.call("PUT", f"/{path}/x", created.json)
    assert (updated.status, updated.json["metadata"]["uid"]) == (200, created.json["metadata"]["uid"])


async def test_yaml_is_accepted_and_returned(world):
    text = b"metadata: {name: maps}\ndata:\n  when: 2026-11-21\n"
    answer = await world.call("POST", CONFIG_MAPS, text, headers={"content-type": "application/yaml"})
    assert answer.json["data"] == {"when": "2026-11-21"}
    answer = await world.call("GET", f"{CONFIG_MAPS}/maps", headers={"accept": "application/yaml"})
    assert b"when: '2026-11-21'" in answer.body


async def test_json_is_indented_for_browsers_and_curl(world):
    await world.create(CONFIG_MAPS, config_map())
    url = f"{CONFIG_MAPS}/one"
    curl = await world.call("GET", url, headers={"user-agent": "curl/8"})
    assert curl.body.startswith(b'{\n  "kind": "ConfigMap",\n  "apiVersion": "v1",\n  "metadata": {\n')
    assert int(curl.header("content-length")[0]) == len(curl.body)
    plain = (await world.call("GET", f"{url}?pretty=false", headers={"user-agent": "curl/8"})).body
    assert plain.startswith(b'{"kind":"ConfigMap",')
    assert plain.index(b"\n") == len(plain) - 1
    assert b"\n" in (await world.call("GET", f"{url}?pretty=true")).body
    refused = await world.call("GET", f"{CONFIG_MAPS}/x", headers={"user-agent": "curl/8"})
    assert refused.body.startswith(b'{\n  "kind": "Status",')


# --- refusals


async def test_an_object_must_not_be_larger_than_etcd_takes(world, monkeypatch):
    monkeypatch.setattr(registry, "_MAX_BYTES", 2000)
    monkeypatch.setattr(registry, "_MAX_CUSTOM_BYTES", 1000)
    await define(world, definition(version("v1")))
    created = await world.create(CONFIG_MAPS, config_map())
    large = {"data": {"k": "x" * 2000}}
    for answer in (
        await world.call("POST", CONFIG_MAPS, config_map("two") | large),
        await world.patch(f"{CONFIG_MAPS}/one", large),
        await world.call("POST", crontabs_url(), crontab(spec={"cronSpec": "* * * * *", "image": "x" * 1000})),
    ):
        assert answer.status == 500
        assert (answer.json["message"], "reason" in answer.json) == ("etcdserver: request is too large", False)
    assert await world.get(f"{CONFIG_MAPS}/one") == created
    assert (await world.call("GET", f"{CONFIG_MAPS}/two")).status == 404
    assert (await world.patch(f"{CONFIG_MAPS}/one", {"data": {"k": "x" * 1000}})).status == 200


async def test_a_path_of_no_api_is_answered_by_a_text(world):
    await define(world, definition(version("v1")))
    cluster_scoped = "/apis/apiextensions.k8s.io/v1/namespaces/default/customresourcedefinitions"
    for path in (
        *("/nope", "/healthz/nope", "/openapi/v3/nope", "/apis/nope", "/apis/nope/v1"),
        *("/apis/nope/v1/things", "/apis/stable.example.com/v1/things"),
        *("/apis/stable.example.com/v2/crontabs", "/apis/stable.example.com/v1/crontabs/x"),
    ):
        answer = await world.call("GET", path)
        assert (answer.status, answer.body) == (404, b"404 page not found\n"), path
        assert answer.header("content-type") == ["text/plain; charset=utf-8"]
        assert answer.header("x-content-type-options") == ["nosniff"]
    # A Status states that a group of Kubernetes' own has no such resource.
    for path in (
        *(f"{PODS}/p/nope", "/apis/authorization.k8s.io/v1/things", "/api/v1/pods/p", cluster_scoped),
        *("/api/v2", "/apis/apps/v1beta1/deployments"),
    ):
        answer = await world.call("GET", path)
        assert (answer.status, answer.json["message"]) == (404, "the server could not find the requested resource"), (
            path
        )
    answer = await world.call("GET", f"{crontabs_url(name='x')}/nope")
    assert answer.json["message"] == 'crontabs.stable.example.com "x" not found'


@pytest.mark.parametrize(
    ("method", "url", "body", "status", "reason", "message"),
    [
        ("GET", f"{CONFIG_MAPS}/x", None, 404, "NotFound", 'configmaps "x" not found'),
        (
            "GET",
            "/apis/apps/v1/namespaces/default/deployments/x",
            None,
            404,
            "NotFound",
            'deployments.apps "x" not found',
        ),
        ("GET", "/api/v1/things", None, 404, "NotFound", "the server could not find the requested resource"),
        (
            "DELETE",
            "/version",
            None,
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        ),
        (
            "POST",
            f"{CONFIG_MAPS}/x",
            {},
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        ),
        (
            "PUT",
            CONFIG_MAPS,
            config_map(),
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        ),
        (
            "POST",
            "/api/v1/namespaces/nope/configmaps",
            config_map(),
            404,
            "NotFound",
            'namespaces "nope" not found',
        ),
        (
            "POST",
            CONFIG_MAPS,
            config_map(namespace="other"),
            400,
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            "POST",
            CONFIG_MAPS,
            {"kind": "Secret", "apiVersion": "v1"},
            400,
            "BadRequest",
            None,
        ),
        (
            "POST",
            CONFIG_MAPS,
            {"kind": "ConfigMap", "apiVersion": "v2"},
            400,
            "BadRequest",
            'ConfigMap in version "v2" cannot be handled as a ConfigMap: no kind "ConfigMap" is registered for version '
            '"v2" in scheme "pkg/api/legacyscheme/scheme.go:30"',
        ),
        (
            "POST",
            CONFIG_MAPS,
            {"metadata": {"resourceVersion": "7"}},
            422,
            "Invalid",
            'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
        ),
        (
            "POST",
            CONFIG_MAPS,
            {"metadata": {}},
            422,
            "Invalid",
            'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required',
        ),
        (
            "POST",
            SERVICES,
            {"metadata": {"name": "s"}, "spec": {"ports": [{"port": "x"}]}},
            400,
            "BadRequest",
            'Service in version "v1" cannot be handled as a Service: json: cannot unmarshal string into '
            "Go struct field ServicePort.spec.ports.port of type int32",
        ),
        ("GET", f"{CONFIG_MAPS}?labelSelector=a%20in%20b", None, 400, "BadRequest", None),
        (
            "GET",
            f"{CONFIG_MAPS}?fieldSelector=data.k=v",
            None,
            400,
            "BadRequest",
            '"data.k" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
        ("GET", f"{CONFIG_MAPS}?continue=x", None, 400, "BadRequest", None),
        ("GET", f"{CONFIG_MAPS}?limit=x", None, 400, "BadRequest", None),
        ("GET", f"{CONFIG_MAPS}?timeoutSeconds=x", None, 400, "BadRequest", None),
        ("DELETE", f"{CONFIG_MAPS}?timeoutSeconds=x", None, 400, "BadRequest", None),
        ("GET", f"{CONFIG_MAPS}?resourceVersion=x", None, 400, "BadRequest", None),
        ("GET", f"{CONFIG_MAPS}?resourceVersion=99999", None, 504, "Timeout", None),
        ("GET", f"{CONFIG_MAPS}/one?resourceVersion=99999", None, 504, "Timeout", None),
        ("GET", f"{CONFIG_MAPS}/one?resourceVersion=x", None, 400, "BadRequest", None),
        ("GET", f"{CONFIG_MAPS}?watch=true&sendInitialEvents=true", None, 422, "Invalid", None),
        ("POST", f"{CONFIG_MAPS}?fieldValidation=Sometimes", config_map(), 422, "Invalid", None),
        ("POST", f"{CONFIG_MAPS}?dryRun=Some", config_map(), 422, "Invalid", None),
        (
            "DELETE",
            "/api/v1/namespaces/kube-system",
            None,
            403,
            "Forbidden",
            'namespaces "kube-system" is forbidden: this namespace may not be deleted',
        ),
    ],
)
async def test_invalid_requests_are_refused(world, method, url, body, status, reason, message):
    answer = await world.call(method, url, body)
    assert (answer.status, answer.json["reason"]) == (status, reason), answer.body
    assert answer.json["kind"] == "Status"
    assert answer.json["status"] == "Failure"
    assert answer.json["code"] == status
    if message is not None:
        assert answer.json["message"] == message


@pytest.mark.parametrize(
    ("method", "kind"),
    [("POST", "CreateOptions"), ("PUT", "UpdateOptions"), ("PATCH", "PatchOptions"), ("DELETE", "DeleteOptions")],
)
async def test_refusals_of_options_name_their_kind(world, method, kind):
    await world.create(CONFIG_MAPS, config_map())
    url = CONFIG_MAPS if method == "POST" else f"{CONFIG_MAPS}/one"
    headers = {"content-type": "application/merge-patch+json"} if method == "PATCH" else None
    body = None if method == "DELETE" else config_map()
    answer = await world.call(method, f"{url}?dryRun=some", body, headers=headers)
    message = f'{kind}.meta.k8s.io "" is invalid: dryRun: Unsupported value: ["some"]: supported values: "All"'
    assert (answer.status, answer.json["message"]) == (422, message)
    if method != "DELETE":
        answer = await world.call(method, f"{url}?fieldValidation=some", body, headers=headers)
        assert answer.json["message"].startswith(
            f'{kind}.meta.k8s.io "" is invalid: fieldValidation: Unsupported value'
        )
    else:
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["some"]}
        assert (await world.call("DELETE", url, options)).json["message"] == message


SCHEME = 'in scheme "pkg/api/legacyscheme/scheme.go:30"'


@pytest.mark.parametrize(
    ("kind", "patch", "text"),
    [
        ("merge-patch", {"apiVersion": "v2"}, f'no kind "ConfigMap" is registered for version "v2" {SCHEME}'),
        (
            "json-patch",
            [{"op": "replace", "path": "/apiVersion", "value": "v2"}],
            f'no kind "ConfigMap" is registered for version "v2" {SCHEME}',
        ),
        ("merge-patch", {"kind": "Nothing"}, f'no kind "Nothing" is registered for version "v1" {SCHEME}'),
        ("merge-patch", {"kind": "Secret"}, "converting (v1.Secret) to (core.ConfigMap): unknown conversion"),
    ],
)
async def test_a_patch_to_another_kind_or_version_is_refused(world, kind, patch, text):
    await world.create(CONFIG_MAPS, config_map())
    answer = await world.patch(f"{CONFIG_MAPS}/one", patch, kind)
    assert (answer.status, answer.json["reason"]) == (422, "Invalid")
    assert answer.json["message"].endswith(text)
    # The value of the error is what the patch makes of the object.
    assert '\\"name\\":\\"one\\"' in answer.json["message"]


@pytest.mark.parametrize("version", ["v1", "-1", "0", "", "00", "1.5", "1_0", str(2**64)])
async def test_a_new_object_may_have_a_version_that_is_no_number(world, version):
    created = await world.create(CONFIG_MAPS, config_map(resourceVersion=version))
    assert created["metadata"]["resourceVersion"] == str(world.store.revision)


async def test_a_dry_run_does_not_look_at_the_version_of_a_new_object(world):
    answer = await world.call("POST", f"{CONFIG_MAPS}?dryRun=All", config_map(resourceVersion="7"))
    assert answer.status == 201
    answer = await world.call("POST", CONFIG_MAPS, config_map(resourceVersion="7"))
    assert (answer.status, answer.json.get("reason"), answer.json.get("details")) == (500, None, None)
    assert answer.json["message"] == "resourceVersion should not be set on objects to be created"


async def test_a_strategic_merge_patch_changes_the_first_of_several_ports_with_one_number(world):
    url = "/api/v1/namespaces/default/services"
    ports = [
        {"name": "tcp", "port": 80, "protocol": "TCP", "targetPort": 1},
        {"name": "udp", "port": 80, "protocol": "UDP", "targetPort": 2},
    ]
    await world.create(url, {"metadata": {"name": "one"}, "spec": {"ports": ports}})
    # As kubectl apply sends it.
    changes = {"$setElementOrder/ports": [{"port": 80}, {"port": 80}], "ports": [{"port": 80, "targetPort": 3}]}
    answer = await world.patch(f"{url}/one", {"spec": changes}, "strategic-merge-patch")
    assert [(port["name"], port["targetPort"]) for port in answer.json["spec"]["ports"]] == [("tcp", 3), ("udp", 2)]


async def test_a_strategic_merge_patch_puts_new_elements_first(world):
    url, labels = "/apis/apps/v1/namespaces/default/deployments", {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "nginx", "image": "x"}]}}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    await world.create(url, {"metadata": {"name": "web"}, "spec": spec})
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "y"}]}}}}
    answer = await world.patch(f"{url}/web", patch, "strategic-merge-patch")
    assert [one["name"] for one in answer.json["spec"]["template"]["spec"]["containers"]] == ["side", "nginx"]


async def test_a_strategic_merge_patch_leaves_kind_and_version(world):
    await world.create(CONFIG_MAPS, config_map())
    patch = {"kind": "Secret", "apiVersion": "v2", "data": {"a": "b"}}
    answer = await world.patch(f"{CONFIG_MAPS}/one", patch, "strategic-merge-patch")
    assert answer.status == 200
    assert (answer.json["kind"], answer.json["apiVersion"], answer.json["data"]["a"]) == ("ConfigMap", "v1", "b")


@pytest.mark.parametrize(
    ("kind", "version", "message"),
    [
        (
            "Secret",
            "v1",
            'Secret in version "v1" cannot be handled as a ConfigMap: '
            "converting (v1.Secret) to (core.ConfigMap): unknown conversion",
        ),
        (
            "Nothing",
            "v1",
            'Nothing in version "v1" cannot be handled as a ConfigMap: '
            f'no kind "Nothing" is registered for version "v1" {SCHEME}',
        ),
        ("ConfigMap", "v1beta3", "the API version in the data (v1beta3) does not match the expected API version (v1)"),
    ],
)
async def test_an_object_of_another_kind_is_refused(world, kind, version, message):
    answer = await world.call("POST", CONFIG_MAPS, config_map() | {"kind": kind, "apiVersion": version})
    assert (answer.status, answer.json["message"]) == (400, message)


@pytest.mark.parametrize(
    "body", [b"{", b"[]", b"7", b"\xff\xfe", b'{"metadata":' + b"[" * 200_000, b'{"metadata": {"name": 5}}', b'{"a"}']
)
async def test_malformed_bodies_are_refused(world, body):
    answer = await world.call("POST", CONFIG_MAPS, body)
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")


@pytest.mark.parametrize("depth", [300, 450, 600, 900, 1500, 5000])
@pytest.mark.parametrize("field", [b'{"x":%b}', b'{"metadata":{"name":"n","managedFields":[{"fieldsV1":%b}]}}'])
@pytest.mark.parametrize("method", ["POST", "PATCH"])
async def test_deeply_nested_bodies_are_refused(world, depth, field, method):
    await world.create(CONFIG_MAPS, config_map("n"))
    body = field % (b'{"a":' * depth + b"1" + b"}" * depth)
    if method == "POST":
        answer = await world.call("POST", CONFIG_MAPS, body)
    else:
        headers = {"content-type": "application/merge-patch+json"}
        answer = await world.call("PATCH", f"{CONFIG_MAPS}/n", body, headers=headers)
    assert answer.status in (200, 400, 409, 422)


@pytest.mark.parametrize(
    "text",
    [
        b"a: &a [*a]",
        b"{",
        b"a: b: c",
        b"a: " + b"[" * 100_000,
        b"- " * 100_000,
        b"- [a, b]\n" * 100_000,
        # Ten of the ten of the ten ...: a gigabyte when written out.
        b"y0: &y0 [1,1,1,1,1,1,1,1,1,1]\n"
        + b"".join(b"y%d: &y%d [%b]\n" % (i, i, b",".join([b"*y%d" % (i - 1)] * 10)) for i in range(1, 9)),
    ],
)
async def test_malformed_yaml_is_refused(world, text):
    answer = await world.call("POST", CONFIG_MAPS, text, headers={"content-type": "application/yaml"})
    assert answer.status == 400


@pytest.mark.parametrize("depth", [900, 950, 960, 970, 100_000])
async def test_deeply_nested_json_is_refused(world, depth):
    """Nesting that is too deep gets a 400, never a 500."""
    text = b'{"metadata":{"name":"deep"},"more":' + b'{"a":' * depth + b"1" + b"}" * depth + b"}"
    answer = await world.call("POST", CONFIG_MAPS, text)
    assert answer.status in (201, 400)


async def test_a_name_in_use_is_refused(world):
    await world.create(CONFIG_MAPS, config_map())
    answer = await world.call("POST", CONFIG_MAPS, config_map())
    assert (answer.status, answer.json["reason"]) == (409, "AlreadyExists")
    assert answer.json["message"] == 'configmaps "one" already exists'
    assert answer.json["details"] == {"name": "one", "kind": "configmaps"}


async def test_an_update_from_an_old_version_is_a_conflict(world):
    created = await world.create(CONFIG_MAPS, config_map())
    await world.patch(f"{CONFIG_MAPS}/one", {"data": {"k": "w"}})
    answer = await world.call("PUT", f"{CONFIG_MAPS}/one", created)
    assert (answer.status, answer.json["reason"]) == (409, "Conflict")
    assert answer.json["message"] == (
        'Operation cannot be fulfilled on configmaps "one": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    version = {"metadata": {"resourceVersion": created["metadata"]["resourceVersion"]}}
    assert (await world.patch(f"{CONFIG_MAPS}/one", version)).status == 409
    created["metadata"]["resourceVersion"] = "abc"
    answer = await world.call("PUT", f"{CONFIG_MAPS}/one", created)
    assert (answer.status, answer.json.get("reason")) == (500, None)
    assert answer.json["message"] == 'strconv.ParseUint: parsing "abc": invalid syntax'
    created["metadata"] |= {"resourceVersion": "", "uid": "other"}
    answer = await world.call("PUT", f"{CONFIG_MAPS}/one", created)
    uid = (await world.get(f"{CONFIG_MAPS}/one"))["metadata"]["uid"]
    assert (answer.status, answer.json["reason"]) == (409, "Conflict")
    assert answer.json["message"] == (
        'Operation cannot be fulfilled on configmaps "one": StorageError: invalid object, Code: 4, '
        "Key: /registry/configmaps/default/one, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: other, UID in object meta: {uid}"
    )
    # The uid is a precondition of an update, which comes before all checks; in a patch it is an immutable field.
    answer = await world.patch(f"{CONFIG_MAPS}/one", {"metadata": {"uid": "other"}})
    assert answer.status == 422
    assert 'metadata.uid: Invalid value: "other": field is immutable' in answer.json["message"]
    times = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}
    for name, value in times.items():
        answer = await world.patch(f"{CONFIG_MAPS}/one", {"metadata": {name: value}})
        assert (answer.status, answer.json["details"]["causes"][0]["field"]) == (422, f"metadata.{name}")
    created["metadata"]["uid"] = uid
    del created["metadata"]["resourceVersion"]
    assert (await world.call("PUT", f"{CONFIG_MAPS}/one", created)).status == 200


async def test_invalid_objects_list_their_causes(world):
    answer = await world.call("POST", SERVICES, {"metadata": {"name": "s"}, "spec": {"ports": [{"port": 0}]}})
    assert answer.status == 422
    details = answer.json["details"]
    assert (details["name"], details["kind"]) == ("s", "Service")
    assert "spec.ports[0].port" in [cause["field"] for cause in details["causes"]]
    assert answer.json["message"].startswith('Service "s" is invalid: ')


@pytest.mark.parametrize("size", [3 * 1024 * 1024 + 1, 10 * 1024 * 1024])
async def test_bodies_over_the_size_limit_are_refused(world, size):
    whole = await world.call("POST", CONFIG_MAPS, b" " * size)
    chunked = await world.call("POST", CONFIG_MAPS, pieces=[b" " * 65536] * (size // 65536 + 1))
    for answer in (whole, chunked):
        assert (answer.status, answer.json["reason"]) == (413, "RequestEntityTooLarge")
        assert answer.header("connection") == ["close"]


@pytest.mark.parametrize("type", ["text/plain", "application/x-www-form-urlencoded", "application/cbor"])
async def test_unsupported_media_types_are_refused(world, type):
    answer = await world.call("POST", CONFIG_MAPS, b"a=b", headers={"content-type": type})
    assert (answer.status, answer.json["reason"]) == (415, "UnsupportedMediaType")
    answer = await world.call("PATCH", f"{CONFIG_MAPS}/x", b"{}", headers={"content-type": "application/json"})
    assert (answer.status, answer.json["reason"]) == (415, "UnsupportedMediaType")


async def test_a_subresource_is_not_carried_out_if_its_answer_is_not_acceptable(world):
    await create_pod(world, "web")
    pods, binding = "/api/v1/namespaces/default/pods", {"target": {"kind": "Node", "name": "node1"}}
    headers = {"accept": "application/cbor", "content-type": "application/json"}
    for subresource, body in (("binding", binding), ("eviction", {"metadata": {"name": "web"}})):
        answer = await world.call("POST", f"{pods}/web/{subresource}", body, headers=headers)
        assert (answer.status, answer.json["reason"]) == (406, "NotAcceptable")
    pod = await world.get(f"{pods}/web")
    assert "nodeName" not in pod["spec"]
    assert "deletionTimestamp" not in pod["metadata"]
    assert (await world.call("GET", f"{pods}/web/eviction", headers=headers)).status == 405


async def test_unsupported_response_types_are_not_acceptable(world):
    answer = await world.call("GET", CONFIG_MAPS, headers={"accept": "application/cbor"})
    assert (answer.status, answer.json["reason"]) == (406, "NotAcceptable")
    assert answer.json["message"] == (
        "only the following media types are accepted: application/json, application/yaml, "
        "application/vnd.kubernetes.protobuf"
    )
    both = {"accept": "application/cbor,application/json"}
    assert (await world.call("GET", CONFIG_MAPS, headers=both)).status == 200


# --- field validation


async def test_unknown_and_duplicate_fields_follow_field_validation(world):
    body = b'{"metadata":{"name":"s"},"spec":{"foo":1,"ports":[{"port":80,"port":81,"bar":2}]}}'
    strict = await world.call("POST", f"{SERVICES}?fieldValidation=Strict", body)
    assert strict.status == 400
    assert strict.json["message"] == (
        'Service in version "v1" cannot be handled as a Service: strict decoding error: '
        'unknown field "spec.foo", duplicate field "spec.ports[0].port", unknown field "spec.ports[0].bar"'
    )
    yaml = b"metadata: {name: s}\nspec:\n  ports:\n  - port: 80\n    port: 81\n"
    headers = {"content-type": "application/yaml"}
    repeated = await world.call("POST", f"{SERVICES}?fieldValidation=Strict", yaml, headers=headers)
    assert repeated.json["message"].endswith(
        'strict decoding error: yaml: unmarshal errors:\n  line 5: key "port" already set in map'
    )
    url = f"{SERVICES}/s?fieldManager=m&fieldValidation=Strict"
    yaml = b"apiVersion: v1\nkind: Service\n" + yaml
    applied = await world.call("PATCH", url, yaml, headers={"content-type": "application/apply-patch+yaml"})
    assert applied.json["message"] == (
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
        '  line 7: key "port" already set in map'
    )
    warned = await world.call("POST", SERVICES, body)
    assert warned.status == 201
    assert '299 - "unknown field \\"spec.foo\\""' in warned.header("warning")
    assert "foo" not in warned.json["spec"]
    ignored = await world.call("PUT", f"{SERVICES}/s?fieldValidation=Ignore", body)
    assert ignored.status == 200
    assert ignored.header("warning") == []


async def test_a_gated_pod_has_a_condition_with_its_time(world):
    made = await create_pod(world, "gated", schedulingGates=[{"name": "example.com/x"}])
    (condition,) = made["status"]["conditions"]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")
    assert condition["lastTransitionTime"] == made["metadata"]["creationTimestamp"]


async def test_use_of_endpoints_causes_a_deprecation_warning(world):
    for path in ("/api/v1/namespaces/default/endpoints", "/api/v1/namespaces/default/endpoints/none"):
        answer = await world.call("GET", path)
        assert answer.header("warning") == [
            '299 - "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"'
        ]


async def test_writes_of_a_service_warn_of_its_spec_but_not_those_of_its_status(world):
    old = {**service(), "spec": {**service()["spec"], "trafficDistribution": "PreferClose"}}
    text = '299 - "spec.trafficDistribution: \\"PreferClose\\" is deprecated; use \\"PreferSameZone\\""'
    for dry_run in ("?dryRun=All", ""):
        assert (await world.call("POST", f"{SERVICES}{dry_run}", old)).header("warning") == [text]
    status = {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}}
    for change in ({"metadata": {"labels": {"a": "b"}}}, {}, {"spec": {"sessionAffinity": "ClientIP"}}):
        assert (await world.patch(f"{SERVICES}/web", change)).header("warning") == [text]
    assert (await world.patch(f"{SERVICES}/web/status", status)).header("warning") == []


async def test_unknown_fields_in_patches_follow_field_validation(world):
    await world.create(SERVICES, service())
    strict = await world.patch(f"{SERVICES}/web?fieldValidation=Strict", {"spec": {"foo": 1}})
    assert strict.status == 422
    assert 'strict decoding error: unknown field "spec.foo"' in strict.json["message"]
    warned = await world.patch(f"{SERVICES}/web", {"spec": {"foo": 1}})
    assert warned.status == 200
    assert warned.header("warning") == ['299 - "unknown field \\"spec.foo\\""']


# --- delete


async def test_delete_answers_with_a_status(world):
    created = await world.create(CONFIG_MAPS, config_map())
    answer = await world.call("DELETE", f"{CONFIG_MAPS}/one")
    assert answer.json["status"] == "Success"
    assert answer.json["details"] == {"name": "one", "kind": "configmaps", "uid": created["metadata"]["uid"]}
    assert (await world.call("DELETE", f"{CONFIG_MAPS}/one")).status == 404


async def test_delete_honors_preconditions(world):
    created = await world.create(CONFIG_MAPS, config_map())
    uid, version = created["metadata"]["uid"], created["metadata"]["resourceVersion"]
    for field, name, stored, cause in (
        ("uid", "UID", uid, "deleted and then recreated"),
        ("resourceVersion", "ResourceVersion", version, "modified"),
    ):
        answer = await world.call("DELETE", f"{CONFIG_MAPS}/one", {"preconditions": {field: "1"}})
        assert (answer.status, answer.json["reason"]) == (409, "Conflict")
        assert answer.json["message"] == (
            f'Operation cannot be fulfilled on ConfigMap "one": the {name} in the precondition (1) does not match the '
            f"{name} in record ({stored}). The object might have been {cause}"
        )
    body = {"kind": "DeleteOptions", "preconditions": {"uid": uid, "resourceVersion": version}}
    assert (await world.call("DELETE", f"{CONFIG_MAPS}/one", body)).status == 200


async def test_a_delete_of_a_page_leaves_the_rest(world):
    for name in ("a", "b", "c"):
        await world.create(CONFIG_MAPS, config_map(name))
    for deleted, left in ((["a"], ["b", "c"]), (["b"], ["c"])):
        answer = (await world.call("DELETE", f"{CONFIG_MAPS}?limit=1")).json
        assert [item["metadata"]["name"] for item in answer["items"]] == deleted
        assert answer["metadata"]["continue"]
        assert [item["metadata"]["name"] for item in (await world.get(CONFIG_MAPS))["items"]] == left


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            b"",
            "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse ",
        ),
        (b"[]", "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json "),
        (b'{"kind": 1}', "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind;"),
    ],
)
async def test_a_body_that_is_no_object_is_refused_with_the_kind(world, body, message):
    answer = await world.call("POST", CONFIG_MAPS, body)
    assert (answer.status, answer.json["message"][: len(message)]) == (400, message)


@pytest.mark.parametrize(
    "options",
    [
        b"[]",
        b"{",
        b'{"kind": "Pod"}',
        b'{"gracePeriodSeconds": "soon"}',
        b'{"preconditions": []}',
        b'{"propagationPolicy": "Sideways"}',
        b'{"propagationPolicy": "Orphan", "orphanDependents": true}',
        b"k8s\x00\x12\x05",
    ],
)
async def test_invalid_delete_options_are_refused(world, options):
    await world.create(CONFIG_MAPS, config_map())
    media = "application/vnd.kubernetes.protobuf" if options.startswith(b"k8s") else "application/json"
    answer = await world.call("DELETE", f"{CONFIG_MAPS}/one", options, headers={"content-type": media})
    assert answer.status in (400, 422)
    assert (await world.call("GET", f"{CONFIG_MAPS}/one")).status == 200


async def test_delete_options_may_be_protobuf(world):
    await create_pod(world, nodeName="node1")
    # DeleteOptions{gracePeriodSeconds: 7} as Go clients send it.
    body = b"k8s\x00\x0a\x13\x0a\x02v1\x12\x0dDeleteOptions\x12\x02\x08\x07"
    headers = {"content-type": "application/vnd.kubernetes.protobuf"}
    answer = await world.call("DELETE", f"{PODS}/p", body, headers=headers)
    assert answer.json["metadata"]["deletionGracePeriodSeconds"] == 7


async def test_finalizers_delay_the_removal_of_an_object(world):
    await world.create(CONFIG_MAPS, config_map(finalizers=["example.com/wait"]))
    assert (await world.call("DELETE", f"{CONFIG_MAPS}/one")).json["metadata"]["deletionTimestamp"]
    added = await world.patch(f"{CONFIG_MAPS}/one", {"metadata": {"finalizers": ["example.com/wait", "example.com/b"]}})
    assert (added.status, added.json["details"]["causes"][0]["field"]) == (422, "metadata.finalizers")
    assert (await world.patch(f"{CONFIG_MAPS}/one", {"metadata": {"finalizers": None}})).status == 200
    assert (await world.call("GET", f"{CONFIG_MAPS}/one")).status == 404


@pytest.mark.parametrize(("policy", "finalizers"), [("Orphan", ["orphan"]), ("Foreground", ["foregroundDeletion"])])
async def test_propagation_policies_set_finalizers(world, policy, finalizers):
    await world.create(DEPLOYMENTS, deployment())
    answer = await world.call("DELETE", f"{DEPLOYMENTS}/web", {"propagationPolicy": policy})
    assert answer.json["metadata"]["finalizers"] == finalizers
    assert answer.status == (202 if policy == "Foreground" else 200)


@pytest.mark.parametrize(
    ("url", "spec", "policy", "warning"),
    [
        ("/api/v1/namespaces/default/replicationcontrollers", {"selector": {"a": "b"}}, "Always", []),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            {},
            "Never",
            [
                '299 - "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to '
                'remove them or set propagationPolicy=Orphan to suppress this warning"'
            ],
        ),
    ],
)
async def test_some_kinds_are_deleted_without_their_pods_by_default(world, url, spec, policy, warning):
    pod = {"containers": [{"name": "c", "image": "i"}], "restartPolicy": policy}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": pod}
    for name, finalizers, expected in (("a", [], ["orphan"]), ("b", ["foregroundDeletion"], ["foregroundDeletion"])):
        metadata = {"name": name, "finalizers": finalizers}
        await world.create(url, {"metadata": metadata, "spec": {**spec, "template": template}})
        answer = await world.call("DELETE", f"{url}/{name}")
        assert (answer.json["metadata"]["finalizers"], answer.header("warning")) == (expected, warning)
    answer = await world.call("DELETE", f"{url}/a?propagationPolicy=Background")
    assert answer.header("warning") == []


async def test_the_name_of_an_update_is_that_of_the_url(world):
    answer = await world.call("PUT", f"{CONFIG_MAPS}/one", config_map("two"))
    message = "the name of the object (two) does not match the name on the URL (one)"
    assert (answer.status, answer.json["message"]) == (400, message)


async def test_background_deletion_is_immediate(world):
    await world.create(DEPLOYMENTS, deployment())
    await world.call("DELETE", f"{DEPLOYMENTS}/web", {"propagationPolicy": "Background"})
    assert (await world.call("GET", f"{DEPLOYMENTS}/web")).status == 404


async def test_a_bound_pod_is_deleted_by_its_kubelet(world):
    await create_pod(world, nodeName="node1")
    answer = await world.call("DELETE", f"{PODS}/p")
    metadata = answer.json["metadata"]
    assert (metadata["deletionGracePeriodSeconds"], metadata["deletionTimestamp"]) == (30, "2026-11-21T03:49:11Z")
    shorter = (await world.call("DELETE", f"{PODS}/p?gracePeriodSeconds=5")).json["metadata"]
    assert (shorter["deletionGracePeriodSeconds"], shorter["deletionTimestamp"]) == (5, "2026-11-21T03:48:46Z")
    longer = (await world.call("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 60})).json["metadata"]
    assert longer["deletionGracePeriodSeconds"] == 5
    assert (await world.patch(f"{PODS}/p/status", {"status": {"phase": "Running"}})).status == 200
    assert (await world.call("GET", f"{PODS}/p")).status == 200
    assert (await world.call("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})).status == 200
    assert (await world.call("GET", f"{PODS}/p")).status == 404


@pytest.mark.parametrize("grace", [10**12, 2**63 - 1])
async def test_the_longest_grace_period_ends_with_the_calendar(world, grace):
    await create_pod(world, nodeName="node1", terminationGracePeriodSeconds=grace)
    metadata = (await world.call("DELETE", f"{PODS}/p")).json["metadata"]
    assert metadata["deletionTimestamp"] == "9999-12-31T23:59:59Z"
    shorter = (await world.call("DELETE", f"{PODS}/p?gracePeriodSeconds=5")).json["metadata"]
    assert (shorter["deletionGracePeriodSeconds"], shorter["deletionTimestamp"]) == (5, "2026-11-21T03:48:46Z")


async def test_an_unbound_pod_is_deleted_at_once(world):
    await create_pod(world)
    await world.call("DELETE", f"{PODS}/p")
    assert (await world.call("GET", f"{PODS}/p")).status == 404


async def test_delete_collection_deletes_selected_objects(world):
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "1"}), ("c", {"x": "2"})):
        await world.create(CONFIG_MAPS, config_map(name, labels=labels))
    answer = await world.call("DELETE", f"{CONFIG_MAPS}?labelSelector=x%3D1")
    assert [item["metadata"]["name"] for item in answer.json["items"]] == ["a", "b"]
    assert [item["metadata"]["name"] for item in (await world.get(CONFIG_MAPS))["items"]] == ["c"]


@pytest.mark.parametrize("path", ["/api/v1/configmaps", "/api/v1/namespaces"])
async def test_delete_collection_does_not_cross_namespaces(world, path):
    await world.create(CONFIG_MAPS, config_map("kept"))
    assert (await world.call("DELETE", path)).status == 405
    assert (await world.call("GET", f"{CONFIG_MAPS}/kept")).status == 200


async def test_a_namespace_is_removed_when_it_is_finalized(world):
    await world.create("/api/v1/namespaces", {"metadata": {"name": "n"}})
    marked = (await world.call("DELETE", "/api/v1/namespaces/n")).json
    assert (marked["status"]["phase"], marked["spec"]["finalizers"]) == ("Terminating", ["kubernetes"])
    answer = await world.call("POST", "/api/v1/namespaces/n/configmaps", config_map())
    assert (answer.status, answer.json["reason"]) == (403, "Forbidden")
    assert answer.json["message"] == (
        'configmaps "one" is forbidden: unable to create new content in namespace n because it is being terminated'
    )
    assert answer.json["details"]["causes"][0]["reason"] == "NamespaceTerminating"
    marked["spec"]["finalizers"] = []
    assert (await world.call("PUT", "/api/v1/namespaces/n/finalize", marked)).status == 200
    assert (await world.call("GET", "/api/v1/namespaces/n")).status == 404


# --- lists


async def test_lists_honor_selectors(world):
    await world.create(CONFIG_MAPS, config_map("a", labels={"app": "x"}))
    await world.create(CONFIG_MAPS, config_map("b", labels={"app": "y"}))

    async def names(query: str) -> list[str]:
        return [item["metadata"]["name"] for item in (await world.get(f"{CONFIG_MAPS}?{query}"))["items"]]

    assert await names("labelSelector=app%3Dx") == ["a"]
    assert await names("labelSelector=app+in+(x,y)") == ["a", "b"]
    assert await names("labelSelector=!app") == []
    assert await names("fieldSelector=metadata.name%3Db") == ["b"]
    assert await names("fieldSelector=metadata.name!%3Db,metadata.namespace=default&limit=1") == ["a"]


async def test_pods_are_selected_by_other_names_of_fields(world):
    await create_pod(world, "one", nodeName="node1")
    for selector, expected in (("spec.host%3Dnode1", ["one"]), ("spec.host%3Dx", []), ("status.podIPs%3D10.0.0.9", [])):
        found = (await world.get(f"{PODS}?fieldSelector={selector}"))["items"]
        assert [item["metadata"]["name"] for item in found] == expected


async def test_tables_are_returned_on_request(world):
    await world.create(SERVICES, service())
    table = await world.get(SERVICES, headers={"accept": TABLE})
    assert table["kind"] == "Table"
    assert [column["name"] for column in table["columnDefinitions"]][:3] == ["Name", "Type", "Cluster-IP"]
    row = table["rows"][1]
    assert row["cells"][:2] == ["web", "ClusterIP"]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    one = await world.get(f"{SERVICES}/web?includeObject=Object", headers={"accept": TABLE})
    assert one["rows"][0]["object"]["spec"]["ports"][0]["port"] == 80
    none = await world.get(f"{SERVICES}?includeObject=None", headers={"accept": TABLE})
    assert none["rows"][0]["object"] is None
    partial = {"accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    listed = await world.get(SERVICES, headers=partial)
    assert (listed["kind"], "spec" in listed["items"][0]) == ("PartialObjectMetadataList", False)


# --- subresources


async def test_the_scale_subresource_reads_and_writes_replicas(world):
    await world.create(DEPLOYMENTS, deployment())
    url = f"{DEPLOYMENTS}/web/scale"
    scale = await world.get(url)
    assert (scale["kind"], scale["spec"], scale["status"]["selector"]) == ("Scale", {"replicas": 2}, "app=web")
    table = await world.get(url, headers={"accept": TABLE})
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Desired", "Available", "Age"]
    assert table["rows"][0]["cells"][:3] == ["web", 2, 0]
    scale["spec"]["replicas"] = 4
    assert (await world.call("PUT", url, scale)).json["spec"] == {"replicas": 4}
    assert (await world.call("PUT", url, scale)).json["reason"] == "Conflict"
    assert (await world.patch(url, {"spec": {"replicas": 0}})).json["spec"] == {"replicas": 0}
    assert (await world.get(f"{DEPLOYMENTS}/web"))["spec"]["replicas"] == 0
    assert (await world.patch(url, {"spec": {"replicas": -1}})).status == 422


async def test_a_binding_sets_the_node_once(world):
    await create_pod(world)
    await world.patch(f"{PODS}/p/status", {"status": {"nominatedNodeName": "node2"}})
    body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "node1"}}
    assert (await world.call("POST", f"{PODS}/p/binding?dryRun=All", body)).status == 201
    unbound = await world.get(f"{PODS}/p")
    assert ("nodeName" in unbound["spec"], unbound["status"]["nominatedNodeName"]) == (False, "node2")
    assert (await world.call("POST", f"{PODS}/p/binding", body)).status == 201
    pod = await world.get(f"{PODS}/p")
    assert "nominatedNodeName" not in pod["status"]
    assert pod["spec"]["nodeName"] == "node1"
    assert [c["status"] for c in pod["status"]["conditions"] if c["type"] == "PodScheduled"] == ["True"]
    again = await world.call("POST", f"{PODS}/p/binding", body)
    assert (again.status, again.json["reason"]) == (409, "Conflict")
    why = 'Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "node1"'
    assert again.json["message"] == why


async def test_a_pod_with_scheduling_gates_is_not_bound(world):
    await create_pod(world, schedulingGates=[{"name": "example.com/wait"}])
    body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "node1"}}
    refused = await world.call("POST", f"{PODS}/p/binding", body)
    why = 'Operation cannot be fulfilled on pods/binding "p": pod p has non-empty .spec.schedulingGates'
    assert (refused.status, refused.json["message"]) == (409, why)


async def test_a_bound_pod_gets_the_labels_of_the_binding_and_the_zone_of_its_node(world):
    zone = {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r"}
    node = {"metadata": {"name": "node1", "labels": {**zone, "disk": "ssd"}}}
    assert (await world.call("POST", "/api/v1/nodes", node)).status == 201
    await create_pod(world)
    own = {"labels": {"chosen-by": "me", "topology.kubernetes.io/zone": "b"}, "annotations": {"why": "room"}}
    body = {"metadata": {"name": "p", **own}, "target": {"kind": "Node", "name": "node1"}}
    assert (await world.call("POST", f"{PODS}/p/binding", body)).status == 201
    metadata = (await world.get(f"{PODS}/p"))["metadata"]
    assert zone | {"chosen-by": "me"} == {
        k: v for k, v in metadata["labels"].items() if k in {*zone, "chosen-by", "disk"}
    }
    assert metadata["annotations"]["why"] == "room"
    placed = {
        "metadata": {"name": "placed"},
        "spec": {"nodeName": "node1", "containers": [{"name": "a", "image": "b"}]},
    }
    assert (await world.call("POST", PODS, placed)).json["metadata"]["labels"] == zone


async def test_a_binding_in_its_older_form_names_the_pod(world):
    await create_pod(world)
    url = "/api/v1/namespaces/default/bindings"
    body = {"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "node1"}}
    answer = await world.call("POST", f"{PODS}/p/binding", {**body, "metadata": {"name": "q"}})
    assert (answer.status, answer.json["message"]) == (400, "name in URL does not match name in Binding object")
    assert (await world.call("POST", url, {**body, "metadata": {"name": "q"}})).status == 404
    assert (await world.call("GET", url)).status == 405
    assert (await world.call("POST", url, body)).json["status"] == "Success"
    assert (await world.get(f"{PODS}/p"))["spec"]["nodeName"] == "node1"


async def test_an_eviction_deletes_the_pod(world):
    await create_pod(world)
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert (await world.call("POST", f"{PODS}/p/eviction", body)).status == 201
    assert (await world.call("GET", f"{PODS}/p")).status == 404


async def test_pods_get_a_service_account_and_its_token_volume(world):
    missing = await world.call("POST", PODS, {"metadata": {"name": "q"}, "spec": {"serviceAccountName": "nobody"}})
    assert missing.status == 403
    assert missing.json["message"] == (
        'pods "q" is forbidden: error looking up service account default/nobody: serviceaccount "nobody" not found'
    )
    pod = await create_pod(world)
    volume = pod["spec"]["volumes"][0]["name"]
    assert volume.startswith("kube-api-access-")
    mounts = pod["spec"]["containers"][0]["volumeMounts"]
    assert mounts == [{"name": volume, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": True}]
    bare = await create_pod(world, "bare", automountServiceAccountToken=False)
    assert "volumes" not in bare["spec"]


async def test_a_pod_waits_for_the_service_account_of_a_new_namespace(world):
    await world.create("/api/v1/namespaces", {"metadata": {"name": "n"}})
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    creating = asyncio.create_task(world.call("POST", "/api/v1/namespaces/n/pods", pod))
    await world.call("POST", "/api/v1/namespaces/n/serviceaccounts", {"metadata": {"name": "default"}})
    assert (await creating).status == 201


async def test_a_namespace_can_be_deleted_while_a_pod_waits_for_its_account(world):
    await world.create("/api/v1/namespaces", {"metadata": {"name": "n"}})
    pod = {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}}
    accounts = "/api/v1/namespaces/n/serviceaccounts"
    async with asyncio.TaskGroup() as tasks:
        creating = tasks.create_task(world.call("POST", "/api/v1/namespaces/n/pods", pod))
        await asyncio.sleep(0)  # the create has begun, and waits
        # Created before the namespace ends, and noticed afterwards.
        await world.call("POST", accounts, {"metadata": {"name": "default"}})
        await world.call("DELETE", "/api/v1/namespaces/n")
    assert creating.result().status == 403


async def test_events_expire_after_an_hour(world):
    events = "/api/v1/namespaces/default/events"
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "type": "Normal"}
    await world.create(events, event)
    await world.create(events, {**event, "metadata": {"name": "again"}, "lastTimestamp": "2026-11-21T04:48:00Z"})
    world.clock.now += 3601
    await expire_once(world.parts.registry)
    assert [item["metadata"]["name"] for item in (await world.get(events))["items"]] == ["again"]


async def test_tokens_are_valid_while_their_pod_exists(world):
    await create_pod(world)
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    body = {"spec": {"boundObjectRef": reference, "expirationSeconds": 600}}
    answer = await world.call("POST", "/api/v1/namespaces/default/serviceaccounts/default/token", body)
    assert answer.json["status"]["expirationTimestamp"] == "2026-11-21T03:58:41Z"
    headers = {"authorization": f"Bearer {answer.json['status']['token']}"}
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    who = await world.call("POST", review, b"{}", user=None, headers=headers)
    assert who.json["status"]["userInfo"]["username"] == "system:serviceaccount:default:default"
    refused = await world.call("GET", CONFIG_MAPS, user=None, headers=headers)
    assert refused.status == 403
    world.clock.now += 661  # clocks may differ by a minute
    assert (await world.call("GET", "/version", user=None, headers=headers)).status == 401
    world.clock.now -= 601
    assert (await world.call("GET", "/version", user=None, headers=headers)).status == 200
    await world.call("DELETE", f"{PODS}/p")
    assert (await world.call("GET", "/version", user=None, headers=headers)).status == 401


# --- access


async def test_anonymous_requests_may_read_health_and_version_only(world):
    for path in ("/healthz", "/livez", "/readyz", "/readyz?verbose", "/version"):
        assert (await world.call("GET", path, user=None)).status == 200
    assert (await world.call("GET", "/readyz/ping", user=None)).status == 403
    refused = await world.call("GET", SERVICES, user=None)
    assert refused.json["message"] == (
        'services is forbidden: User "system:anonymous" cannot list resource "services" in API group "" '
        'in the namespace "default"'
    )
    refused = await world.call("GET", "/metrics", user=None)
    assert refused.json["message"] == 'forbidden: User "system:anonymous" cannot get path "/metrics"'


async def test_bearer_tokens_authenticate(world):
    bob = {"authorization": "Bearer token-of-bob"}
    assert (await world.call("GET", "/api", user=None, headers=bob)).status == 200
    assert (await world.call("GET", SERVICES, user=None, headers=bob)).status == 403
    wrong = await world.call("GET", "/api", user=None, headers={"authorization": "Bearer nonsense"})
    assert (wrong.status, wrong.json["reason"]) == (401, "Unauthorized")


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"authorization": "Bearer nonsense"}, 401),
        ({"upgrade": "websocket", "sec-websocket-protocol": f"{TOKEN_SUBPROTOCOL}bm9uc2Vuc2U, v5.channel.k8s.io"}, 401),
        ({"upgrade": "websocket", "sec-websocket-protocol": f"{TOKEN_SUBPROTOCOL}dG9rZW4tb2YtYm9i, x"}, 403),
    ],
)
async def test_a_websocket_is_authenticated_by_header_or_subprotocol(world, headers, code):
    url = "/api/v1/namespaces/default/pods/web/exec"
    scope = world.scope("GET", url, headers, None)
    scope |= {"type": "websocket", "extensions": {"websocket.http.response": {}}}
    del scope["method"]
    sent = []

    async def send(message):
        sent.append(message)

    await world.parts.application(scope, None, send)
    assert (sent[0]["type"], sent[0]["status"]) == ("websocket.http.response.start", code)


@pytest.mark.parametrize("subresource", ["exec", "attach", "portforward"])
async def test_connections_to_pods_take_the_right_to_create(world, subresource):
    """A GET is authorized as `get`, and WebSockets begin with one."""
    await create_pod(world, "web")
    rights = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rule = {"apiGroups": [""], "resources": [f"pods/{subresource}"], "verbs": ["get"]}
    await world.create(f"{rights}/roles", {"metadata": {"name": "reader"}, "rules": [rule]})
    binding = {
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"}],
    }
    await world.create(f"{rights}/rolebindings", binding)
    url = f"/api/v1/namespaces/default/pods/web/{subresource}"
    bob = User("bob", ("system:authenticated",))
    refused = await world.call("GET", url, user=bob)
    assert (refused.status, refused.json["message"]) == (403, 'pods "web" is forbidden: ')
    rule["verbs"].append("create")
    assert (await world.patch(f"{rights}/roles/reader", {"rules": [rule]})).status == 200
    assert (await world.call("GET", url, user=bob)).status == 400  # the pod has no node


@pytest.mark.parametrize(
    ("path", "query", "is_taken"),
    [
        ("/api/v1/namespaces/n/pods/p/log", b"", True),
        ("/api/v1/watch/pods", b"", True),
        ("/api/v1/pods", b"watch=1", True),
        ("/api/v1/pods", b"", False),
        ("/api/v1/namespaces/n/pods/p", b"", False),
        ("/version", b"", False),
    ],
)
async def test_upgrades_are_taken_only_where_there_are_streams(world, path, query, is_taken):
    assert world.parts.application.takes_socket(path, query) == is_taken


async def test_a_websocket_by_post_is_refused_after_authorization(world):
    """The right to create is looked at first, then the pod; this one has no node whose kubelet could refuse."""
    await create_pod(world, "web")
    headers = {"connection": "Upgrade", "upgrade": "websocket"}
    url = "/api/v1/namespaces/default/pods/web/exec?command=x"
    bob = User("bob", ("system:authenticated",))
    codes = [
        (await world.call("POST", url, b"", user=None, headers=headers | {"authorization": "Bearer x"})).status,
        (await world.call("POST", url, b"", user=bob, headers=headers)).status,
        (await world.call("POST", url.replace("web", "none"), b"", headers=headers)).status,
        (await world.call("POST", url, b"", headers=headers)).status,
    ]
    assert codes == [401, 403, 404, 400]


async def test_impersonation_follows_the_policy(world):
    refused = await world.call("GET", SERVICES, headers={"impersonate-user": "bob"})
    assert 'User "bob" cannot list' in refused.json["message"]
    bob = {"authorization": "Bearer token-of-bob", "impersonate-user": "kubernetes-admin"}
    assert (await world.call("GET", SERVICES, user=None, headers=bob)).status == 403


async def test_access_reviews_answer_by_the_policy(world):
    url = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    review = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"}}}
    assert (await world.call("POST", url, review)).json["status"] == {"allowed": True}
    bob = User("bob", ("system:authenticated",))
    assert (await world.call("POST", url, review, user=bob)).json["status"] == {"allowed": False}


async def test_nodes_may_modify_their_own_objects_only(world):
    node1 = User("system:node:node1", ("system:nodes", "system:authenticated"))
    node = {"metadata": {"name": "node1"}}
    assert (await world.call("POST", "/api/v1/nodes", node, user=node1)).status == 201
    other = await world.call("POST", "/api/v1/nodes", {"metadata": {"name": "node2"}}, user=node1)
    assert other.json["message"] == ('nodes "node2" is forbidden: node "node1" is not allowed to modify node "node2"')
    await create_pod(world, "mine", nodeName="node1")
    await create_pod(world, "theirs", nodeName="node2")
    headers = {"content-type": "application/merge-patch+json"}
    patch = {"status": {"phase": "Running"}}
    for name, status in (("mine", 200), ("theirs", 403)):
        answer = await world.call("PATCH", f"{PODS}/{name}/status", patch, user=node1, headers=headers)
        assert answer.status == status
    for url in ("/api/v1/secrets", "/api/v1/namespaces/default/secrets/x"):
        assert (await world.call("GET", url, user=node1)).status == 403
    assert (await world.call("GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dnode1", user=node1)).status == 200


PODS_OF = {"node1": {}, "node2": {"podCIDR": "10.244.2.0/24", "podCIDRs": ["10.244.2.0/24", "fd00:10:244:2::/64"]}}


async def test_a_service_cannot_take_the_address_of_a_node(world):
    addresses = [{"type": "InternalIP", "address": "10.0.0.201"}, {"type": "ExternalIP", "address": "fd00:10:0::201"}]
    for name, status in (("node1", {"addresses": addresses}), ("node2", {})):
        await world.create("/api/v1/nodes", {"metadata": {"name": name}, "status": status, "spec": PODS_OF[name]})
    spec = {"type": "LoadBalancer", "ports": [{"port": 80}]}
    await world.create(SERVICES, {"metadata": {"name": "web"}, "spec": spec})

    async def try_ingress(*ingress):
        status = {"status": {"loadBalancer": {"ingress": list(ingress)}}}
        return await world.patch(f"{SERVICES}/web/status", status)

    for address, owner in (
        ("10.0.0.201", "node node1"),
        ("fd00:10::201", "node node1"),
        ("10.0.0.1", "the API server"),
        ("10.244.2.7", "a pod of node node2"),
        ("fd00:10:244:2::7", "a pod of node node2"),
    ):
        refused = await try_ingress({"ip": "192.0.2.1"}, {"ip": address})
        assert (refused.status, refused.json["reason"]) == (422, "Invalid")
        (cause,) = refused.json["details"]["causes"]
        assert cause["field"] == "status.loadBalancer.ingress[1].ip"
        assert cause["message"] == (
            f'Invalid value: "{address}": may not be the address of {owner}, which the Service would take over'
        )
    # No proxy takes packets to an address with ipMode Proxy, which is for load balancers that run on the nodes.
    assert (await try_ingress({"ip": "10.0.0.201", "ipMode": "Proxy"})).status == 200
    assert (await try_ingress({"ip": "10.0.0.201", "ipMode": "VIP"})).status == 422
    assert (await try_ingress({"ip": "10.0.0.202"}, {"hostname": "node1"})).status == 200


async def test_unknown_paths_share_one_metric_label(world):
    for i in range(3):
        await world.call("GET", f"/api/v1/invented{i}")
        refused = await world.call(
            "GET", f"/apis/invented/v1/invented{i}", headers={"impersonate-group": "g"}, user=None
        )
        assert refused.status == 400
    text = (await world.call("GET", "/metrics", user=ADMIN)).body.decode()
    assert "invented" not in text
    assert 'verb="OTHER"' in text


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"{CONFIG_MAPS}?timeout=invalid", 400),
        (f"{CONFIG_MAPS}?timeout=1", 400),
        (f"{CONFIG_MAPS}?timeout=1m2.5s", 200),
        (f"{CONFIG_MAPS}?timeout=0s", 200),
        ("/version?timeout=x", 400),
    ],
)
async def test_a_timeout_must_be_a_duration(world, path, status):
    answer = await world.call("GET", path)
    assert answer.status == status
    if status == 400:
        assert answer.json["message"] == "invalid timeout specified in the request URL"


async def test_head_is_no_method_of_resources_of_kubernetes(world):
    """The routes of these have methods; the handler of custom resources sees only the verb, which is that of a GET."""
    await define(world, definition(version("v1")))
    await world.create(CONFIG_MAPS, config_map())
    await world.create(crontabs_url(), crontab("a"))
    for path in (CONFIG_MAPS, f"{CONFIG_MAPS}/one", "/apis/apps/v1/deployments", f"{PODS}/p/log", f"{PODS}/p/exec"):
        assert (await world.call("HEAD", path)).status == 405, path
    for path in (crontabs_url(), crontabs_url(name="a")):
        assert (await world.call("HEAD", path)).status == 200, path
