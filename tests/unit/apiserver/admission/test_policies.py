"""Admission policies: a whole API server, called by ASGI.

The cases are those of Kubernetes' documentation and of test/e2e/apimachinery/{validating,mutating}admissionpolicy.go.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from bridgehead.apiserver.http.user import User
from tests.unit.apiserver.customresources.definitions import define, definition, version
from tests.unit.apiserver.world import Answer, World, open_world

GROUP = "/apis/admissionregistration.k8s.io/v1"
DEFAULT = "/api/v1/namespaces/default"
CONFIG_MAPS = f"{DEFAULT}/configmaps"
MAPS = {"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as opened:
        yield opened


async def validating(world: World, *validations: Any, binding: Any = None, bound: bool = True, **spec: Any) -> None:
    """Create a policy `p` and its binding `b`. A validation is an expression, or a Validation."""
    spec.setdefault("matchConstraints", {"resourceRules": [MAPS]})
    spec["validations"] = [one if isinstance(one, dict) else {"expression": one} for one in validations]
    await world.create(f"{GROUP}/validatingadmissionpolicies", {"metadata": {"name": "p"}, "spec": spec})
    if bound:
        binding = {"policyName": "p", "validationActions": ["Deny"], **(binding or {})}
        await world.create(f"{GROUP}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": binding})


async def mutating(world: World, *mutations: Any, binding: Any = None, name: str = "p", **spec: Any) -> None:
    """Create a policy and its binding. A mutation is the expression of an apply configuration, or a Mutation."""
    spec.setdefault("matchConstraints", {"resourceRules": [MAPS]})
    spec.setdefault("reinvocationPolicy", "Never")
    spec["mutations"] = [
        one if isinstance(one, dict) else {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": one}}
        for one in mutations
    ]
    await world.create(f"{GROUP}/mutatingadmissionpolicies", {"metadata": {"name": name}, "spec": spec})
    binding = {"policyName": name, **(binding or {})}
    await world.create(f"{GROUP}/mutatingadmissionpolicybindings", {"metadata": {"name": name}, "spec": binding})


def json_patch(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


async def create(world: World, name: str = "a", url: str = CONFIG_MAPS, **fields: Any) -> Answer:
    metadata = {"name": name, **fields.pop("metadata", {})}
    return await world.call("POST", url, {"metadata": metadata, **fields})


def refusal(answer: Answer) -> tuple[int, str, str]:
    return answer.status, answer.json["reason"], answer.json["message"]


DENIED = "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "


# --- Validating -------------------------------------------------------------------------------------------------------


async def test_a_validation_refuses_objects(world):
    await validating(world, "object.data.size() <= 1")
    assert (await create(world, data={"x": "1"})).status == 201
    answer = await create(world, name="c", data={"x": "1", "y": "2"})
    message = DENIED.replace('"a"', '"c"') + "failed expression: object.data.size() <= 1"
    assert refusal(answer) == (422, "Invalid", message)
    assert answer.json["details"] == {
        "name": "c",
        "kind": "configmaps",
        "causes": [{"message": message.partition("forbidden: ")[2]}],
    }
    # Updates and patches are checked, too; other operations and resources are not.
    answer = await world.call("PUT", f"{CONFIG_MAPS}/a", {"metadata": {"name": "a"}, "data": {"x": "1", "y": "2"}})
    assert answer.status == 422
    assert (await world.call("DELETE", f"{CONFIG_MAPS}/a")).status == 200
    assert (await create(world, url=f"{DEFAULT}/secrets", stringData={"x": "1", "y": "2"})).status == 201


async def test_a_policy_counts_while_it_is_bound(world):
    await validating(world, "false", bound=False)
    assert (await create(world)).status == 201
    binding = {"metadata": {"name": "b"}, "spec": {"policyName": "p", "validationActions": ["Deny"]}}
    await world.create(f"{GROUP}/validatingadmissionpolicybindings", binding)
    assert (await create(world, "c")).status == 422
    await world.call("DELETE", f"{GROUP}/validatingadmissionpolicybindings/b")
    assert (await create(world, "c")).status == 201


@pytest.mark.parametrize(
    ("validation", "code", "reason", "why"),
    [
        ({"expression": "false", "message": " not now "}, 422, "Invalid", "not now"),
        ({"expression": "false", "messageExpression": "'got ' + object.metadata.name"}, 422, "Invalid", "got a"),
        ({"expression": "false", "messageExpression": "object.x", "message": "m"}, 422, "Invalid", "m"),
        ({"expression": "false", "messageExpression": "'a\\nb'"}, 422, "Invalid", "failed expression: false"),
        ({"expression": "false", "reason": "Forbidden"}, 403, "Forbidden", "failed expression: false"),
        (
            {"expression": "false", "reason": "RequestEntityTooLarge"},
            413,
            "RequestEntityTooLarge",
            "failed expression: false",
        ),
        (
            {"expression": "object.x == 1"},
            422,
            "Invalid",
            "expression 'object.x == 1' resulted in error: no such key: x",
        ),
        (
            {"expression": "has(object.metadata) && [1].all(x, [1].all(y, object.nothing.all(z, true)))"},
            422,
            "Invalid",
            "expression 'has(object.metadata) && [1].all(x, [1].all(y, object.nothing.all(z, true)))' "
            "resulted in error: no such key: nothing",
        ),
    ],
)
async def test_messages_and_reasons(world, validation, code, reason, why):
    if validation.get("messageExpression") == "object.x":
        validation = {**validation, "messageExpression": "string(object.x)"}
    await validating(world, validation)
    assert refusal(await create(world)) == (code, reason, DENIED + why)


async def test_failures_can_be_ignored(world):
    await validating(world, "object.x == 1", failurePolicy="Ignore")
    assert (await create(world)).status == 201


async def test_actions_warn_and_audit(world):
    await validating(world, "false", binding={"validationActions": ["Warn", "Audit"]})
    answer = await create(world)
    text = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed expression: false"
    assert (answer.status, answer.header("warning")) == (201, [f'299 - "{text}"'])


VARIABLES = [
    "request.operation == 'CREATE' && request.kind.kind == 'ConfigMap' && request.resource.resource == 'configmaps'",
    "request.namespace == 'default' && request.name == 'a' && request.subResource == '' && !request.dryRun",
    "request.userInfo.username == 'kubernetes-admin' || request.userInfo.groups.size() > 0",
    "oldObject == null && object.kind == 'ConfigMap' && object.apiVersion == 'v1'",
    "namespaceObject.metadata.name == 'default' && !has(namespaceObject.metadata.deletionTimestamp)",
    "namespaceObject.metadata.labels['kubernetes.io/metadata.name'] == 'default'",
    "namespaceObject.metadata.creationTimestamp > timestamp('2000-01-01T00:00:00Z')",
    "authorizer.group('').resource('pods').namespace('default').check('create').allowed()",
    "authorizer.requestResource.check('update').allowed() && authorizer.path('/healthz').check('get').allowed()",
    "!authorizer.serviceAccount('default', 'sa').group('').resource('secrets').check('get').allowed()",
    "request.options.kind == 'CreateOptions'",
]


async def test_expressions_see_the_request(world):
    await validating(world, *VARIABLES)
    answer = await create(world)
    assert answer.status == 201, answer.json


async def test_variables_are_evaluated_once_and_only_when_used(world):
    await validating(
        world,
        "variables.both == 'xy'",
        {"expression": "variables.broken == 1", "message": "m"},
        variables=[
            {"name": "broken", "expression": "object.nothing"},
            {"name": "one", "expression": "object.data.a"},
            {"name": "both", "expression": "variables.one + object.data.b"},
        ],
    )
    answer = await create(world, data={"a": "x", "b": "y"})
    why = (
        "expression 'variables.broken == 1' resulted in error: "
        'composited variable "broken" fails to evaluate: no such key: nothing'
    )
    assert refusal(answer) == (422, "Invalid", DENIED + why)
    answer = await create(world, data={"a": "x", "b": "z"})
    assert answer.json["message"] == DENIED + "failed expression: variables.both == 'xy'"


async def test_match_conditions_choose_requests(world):
    await validating(
        world,
        "false",
        matchConditions=[
            {"name": "labelled", "expression": "has(object.metadata.labels)"},
            {"name": "not-nodes", "expression": "!('system:nodes' in request.userInfo.groups)"},
        ],
    )
    assert (await create(world)).status == 201
    assert (await create(world, "c", metadata={"labels": {"x": "y"}})).status == 422


async def test_a_failing_match_condition_refuses(world):
    await validating(world, "true", matchConditions=[{"name": "n", "expression": "object.nothing == 1"}])
    answer = await create(world)
    assert refusal(answer)[2] == DENIED + "expression 'object.nothing == 1' resulted in error: no such key: nothing"


async def test_rules_names_and_selectors_choose_requests(world):
    rule = {**MAPS, "resourceNames": ["named"]}
    excluded = {**MAPS, "resourceNames": ["excluded"]}
    await validating(
        world,
        "false",
        matchConstraints={
            "resourceRules": [rule, {**MAPS, "resources": ["configmaps", "secrets"]}],
            "excludeResourceRules": [excluded],
            "objectSelector": {"matchLabels": {"checked": "yes"}},
        },
        binding={"matchResources": {"namespaceSelector": {"matchLabels": {"checked": "yes"}}}},
    )
    labels = {"labels": {"checked": "yes"}}
    assert (await create(world, metadata=labels)).status == 201  # its namespace has no label
    await world.create("/api/v1/namespaces", {"metadata": {"name": "n", **labels}})
    url = "/api/v1/namespaces/n/configmaps"
    assert (await create(world, url=url)).status == 201
    assert (await create(world, "c", url=url, metadata=labels)).status == 422
    assert (await create(world, "excluded", url=url, metadata=labels)).status == 201


async def test_parameters(world):
    ref = {"name": "limits", "parameterNotFoundAction": "Deny"}
    await validating(
        world,
        "params == null || object.data.size() <= int(params.data.most)",
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        matchConditions=[{"name": "not-limits", "expression": "object.metadata.name != 'limits'"}],
        binding={"paramRef": ref},
    )
    missing = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"
    assert refusal(await create(world, data={"x": "1"})) == (422, "Invalid", DENIED + missing)
    await world.call("DELETE", f"{GROUP}/validatingadmissionpolicybindings/b")
    await world.create(CONFIG_MAPS, {"metadata": {"name": "limits", "labels": {"l": "m"}}, "data": {"most": "1"}})
    for reference in (ref, {"selector": {"matchLabels": {"l": "m"}}}, {"namespace": "default", "name": "limits"}):
        spec = {"policyName": "p", "validationActions": ["Deny"], "paramRef": reference}
        binding = {"metadata": {"name": "b"}, "spec": spec}
        await world.create(f"{GROUP}/validatingadmissionpolicybindings", binding)
        assert (await create(world, data={"x": "1", "y": "2"})).status == 422
        assert (await create(world, "c", data={"x": "1"})).status == 201
        await world.call("DELETE", f"{CONFIG_MAPS}/c")
        await world.call("DELETE", f"{GROUP}/validatingadmissionpolicybindings/b")
    allowed = {
        "policyName": "p",
        "validationActions": ["Deny"],
        "paramRef": {"name": "z", "parameterNotFoundAction": "Allow"},
    }
    await world.create(f"{GROUP}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": allowed})
    assert (await create(world, data={"x": "1", "y": "2"})).status == 201


async def test_an_unknown_kind_of_parameters(world):
    await validating(world, "true", paramKind={"apiVersion": "example.com/v1", "kind": "Thing"})
    answer = await create(world)
    assert refusal(answer)[2] == (
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: "
        "failed to find resource referenced by paramKind: 'example.com/v1, Kind=Thing'"
    )


async def test_policies_do_not_check_policies(world):
    rule = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    await validating(world, "false", matchConstraints={"resourceRules": [rule]})
    assert (await create(world)).status == 422
    assert (await world.call("DELETE", f"{GROUP}/validatingadmissionpolicies/p")).status == 200
    assert (await create(world)).status == 201


async def test_deletions_have_an_old_object(world):
    rule = {**MAPS, "operations": ["DELETE"]}
    await validating(
        world,
        "object == null && oldObject.metadata.name != 'kept'",
        matchConstraints={"resourceRules": [rule]},
    )
    await create(world, "kept")
    await create(world)
    assert (await world.call("DELETE", f"{CONFIG_MAPS}/kept")).status == 422
    assert (await world.call("DELETE", f"{CONFIG_MAPS}/a")).status == 200


async def test_an_expensive_policy_ends(world):
    loop = "object.data.all(a, object.data.all(b, object.data.all(c, a != b + c + 'x')))"
    await validating(world, loop)
    answer = await create(world, data={f"k{number}": "v" for number in range(200)})
    why = f"expression '{loop}' resulted in error: operation cancelled: actual cost limit exceeded"
    assert refusal(answer) == (422, "Invalid", DENIED + why)


async def test_large_objects_are_checked_and_changed(world):
    await mutating(world, 'Object{data: {"size": string(object.data.text.size())}}')
    await validating(world, "object.data.size == '50000' && object.data.text.size() == 50000")
    made = await create(world, data={"text": "x" * 50_000})
    assert (made.status, made.json["data"]["size"]) == (201, "50000")
    assert (await create(world, "c", data={"text": "x" * 50_001})).status == 422


# --- Mutating ---------------------------------------------------------------------------------------------------------


async def test_an_apply_configuration_changes_the_object(world):
    await mutating(
        world,
        'Object{metadata: Object.metadata{annotations: {"mutated-by": "admission-policy"}}}',
        'Object{data: {"second": object.metadata.annotations["mutated-by"]}}',
    )
    stored = (await create(world, data={"first": "1"})).json
    assert stored["metadata"]["annotations"] == {"mutated-by": "admission-policy"}
    assert stored["data"] == {"first": "1", "second": "admission-policy"}
    # A policy that changes nothing leaves an update as it is.
    answer = await world.call("PUT", f"{CONFIG_MAPS}/a", stored)
    assert answer.json["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]


async def test_json_patches_change_the_object(world):
    await mutating(
        world,
        json_patch(
            """[
              JSONPatch{op: "test", path: "/metadata/name", value: object.metadata.name},
              JSONPatch{op: "add", path: "/metadata/labels", value: {"a/b": "c"}},
              JSONPatch{op: "replace", path: "/metadata/labels/" + jsonpatch.escapeKey("a/b"), value: "d"},
              JSONPatch{op: "copy", from: "/metadata/name", path: "/metadata/labels/name"}
            ]"""
        ),
        json_patch(
            '[JSONPatch{op: "test", path: "/metadata/name", value: "other"}, JSONPatch{op: "remove", path: "/x"}]'
        ),
    )
    assert (await create(world)).json["metadata"]["labels"] == {"a/b": "d", "name": "a"}


async def test_lists_are_merged_by_their_keys(world):
    pods = {**MAPS, "resources": ["pods"]}
    await world.create(f"{DEFAULT}/serviceaccounts", {"metadata": {"name": "default"}})
    await mutating(
        world,
        """Object{spec: Object.spec{
             initContainers: [Object.spec.initContainers{name: "sidecar", image: "i", restartPolicy: "Always"}],
             containers: object.spec.containers.map(c, Object.spec.containers{
               name: c.name, env: [Object.spec.containers.env{name: "E", value: params.data.value}]})
           }}""",
        matchConstraints={"resourceRules": [{**pods, "operations": ["CREATE"]}]},
        matchConditions=[
            {
                "name": "no-sidecar",
                "expression": "!object.spec.?initContainers.orValue([]).exists(c, c.name == 'sidecar')",
            }
        ],
        paramKind={"apiVersion": "v1", "kind": "ConfigMap"},
        binding={"paramRef": {"name": "limits", "parameterNotFoundAction": "Deny"}},
        reinvocationPolicy="IfNeeded",
    )
    await create(world, "limits", data={"value": "v"})
    made = await create(world, url=f"{DEFAULT}/pods", spec={"containers": [{"name": "c", "image": "i"}]})
    assert made.status == 201, made.json
    spec = made.json["spec"]
    assert [one["name"] for one in spec["initContainers"]] == ["sidecar"]
    assert spec["initContainers"][0]["imagePullPolicy"] == "Always"  # has default values
    assert (spec["containers"][0]["image"], spec["containers"][0]["env"]) == ("i", [{"name": "E", "value": "v"}])


@pytest.mark.parametrize(
    ("mutation", "why"),
    [
        (
            "Object{metadata: Object.spec{}}",
            'type mismatch: unexpected type name "Object.spec", expected "Object.metadata", '
            "which matches field name path from root Object type",
        ),
        (
            "Object{nothing: 1}",
            "error applying patch: failed to convert patch object to typed object: "
            ".nothing: field not declared in schema",
        ),
        (
            "Object{data: {'k': object.x}}",
            "expression 'Object{data: {'k': object.x}}' resulted in error: no such key: x",
        ),
        (json_patch('[JSONPatch{op: "remove", path: "/nothing"}]'), "JSONPath: "),
    ],
)
async def test_mutations_that_fail_refuse(world, mutation, why):
    await mutating(world, mutation)
    code, reason, message = refusal(await create(world))
    assert (code, reason) == (403, "Invalid")
    assert message.startswith(f"policy 'p' with binding 'p' denied request: {why}")
    spec = {"spec": {"failurePolicy": "Ignore"}}
    headers = {"content-type": "application/merge-patch+json"}
    await world.call("PATCH", f"{GROUP}/mutatingadmissionpolicies/p", spec, headers=headers)
    assert (await create(world)).status == 201


async def test_atomic_parts_are_not_changed(world):
    services = {**MAPS, "resources": ["services"]}
    await mutating(
        world,
        'Object{spec: Object.spec{selector: {"a": "b"}}}',
        matchConstraints={"resourceRules": [services]},
    )
    answer = await create(world, url=f"{DEFAULT}/services", spec={"ports": [{"port": 80}]})
    why = "error applying patch: invalid ApplyConfiguration: "
    why += "may not mutate atomic arrays, maps or structs: .spec.selector"
    assert refusal(answer)[2] == f"policy 'p' with binding 'p' denied request: {why}"


async def test_policies_see_later_changes_if_needed(world):
    copies = 'Object{metadata: Object.metadata{annotations: {"copy": object.?data.value.orValue("none")}}}'
    await mutating(world, copies, name="a", reinvocationPolicy="IfNeeded")
    await mutating(world, copies.replace("copy", "never"), name="b")
    await mutating(world, "Object{data: {'value': 'set'}}", name="c")
    made = (await create(world)).json
    assert made["metadata"]["annotations"] == {"copy": "set", "never": "none"}


async def test_a_mutation_is_validated(world):
    await mutating(world, "Object{data: {'bad key': 'x'}}")
    answer = await create(world)
    assert (answer.status, answer.json["details"]["causes"][0]["field"]) == (422, "data[bad key]")


# --- Rights -----------------------------------------------------------------------------------------------------------


async def test_parameters_need_the_right_to_read_them(world):
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    registration = {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]}
    maps = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get"]}
    for name, rules in (("alice", [registration]), ("bob", [registration, maps])):
        await world.create(f"{rbac}/clusterroles", {"metadata": {"name": name}, "rules": rules})
        subject = {"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        reference = {"kind": "ClusterRole", "name": name, "apiGroup": "rbac.authorization.k8s.io"}
        binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
        await world.create(f"{rbac}/clusterrolebindings", binding)
    alice, bob = User("alice", ("system:authenticated",)), User("bob", ("system:authenticated",))

    async def write(user: User, kind: str, spec: Any, method: str = "POST") -> Answer:
        url = f"{GROUP}/{kind}" + ("/q" if method == "PUT" else "")
        return await world.call(method, url, {"metadata": {"name": "q"}, "spec": spec}, user=user)

    def cause(answer: Answer) -> tuple[str, str]:
        (found,) = answer.json["details"]["causes"]
        return found["field"], found["message"]

    policy = {
        "matchConstraints": {"resourceRules": [MAPS]},
        "validations": [{"expression": "true"}],
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
    }
    assert cause(await write(alice, "validatingadmissionpolicies", policy)) == (
        "spec.paramKind",
        'Forbidden: user &{alice  [system:authenticated] map[]} must have "get" permission on all objects of the '
        "referenced paramKind (kind=ConfigMap, apiVersion=v1)",
    )
    answer = await write(bob, "validatingadmissionpolicies", policy)
    assert answer.status == 201
    # An update that leaves the kind as it is needs no right.
    other = {**answer.json, "spec": {**policy, "validations": [{"expression": "false"}]}}
    url = f"{GROUP}/validatingadmissionpolicies/q"
    assert (await world.call("PUT", url, other, user=alice)).status == 200
    spec = {"policyName": "q", "validationActions": ["Deny"], "paramRef": {"name": "m", "namespace": "n"}}
    assert cause(await write(alice, "validatingadmissionpolicybindings", spec)) == (
        "spec.paramRef",
        'Forbidden: user get does not have "&{alice  [system:authenticated] map[]}" permission on the object '
        "referenced by paramRef",
    )
    listed = {**spec, "paramRef": {"selector": {}}}
    assert "user list does not have" in cause(await write(bob, "validatingadmissionpolicybindings", listed))[1]
    assert (await write(bob, "validatingadmissionpolicybindings", spec)).status == 201


# --- Custom resources -------------------------------------------------------------------------------------------------


async def test_custom_resources_as_objects_and_as_parameters(world):
    tags = {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}
    properties = {"max": {"type": "integer"}, "tags": tags}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    await define(world, definition(version(schema=schema), plural="limits", kind="Limit", group="example.com"))
    limits = "/apis/example.com/v1/namespaces/default/limits"
    rule = {**MAPS, "apiGroups": ["example.com"], "resources": ["limits"]}
    await mutating(
        world,
        'Object{spec: Object.spec{tags: ["checked"]}}',
        matchConstraints={"resourceRules": [rule]},
    )
    kind = {"apiVersion": "example.com/v1", "kind": "Limit"}
    made = await world.create(limits, {**kind, "metadata": {"name": "m"}, "spec": {"max": 1, "tags": ["a"]}})
    assert made["spec"] == {"max": 1, "tags": ["a", "checked"]}
    await validating(
        world,
        "object.data.size() <= params.spec.max && params.kind == 'Limit'",
        paramKind=kind,
        binding={"paramRef": {"name": "m", "parameterNotFoundAction": "Deny"}},
    )
    assert (await create(world, data={"x": "1"})).status == 201
    assert (await create(world, "c", data={"x": "1", "y": "2"})).status == 422
