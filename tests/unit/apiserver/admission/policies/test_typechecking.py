"""Warnings about expressions of policies that contradict schemas, and the status in which they are."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from bridgehead.apiserver.admission.policies.typechecking import (
    checked_resources,
    expression_warnings,
    type_of_resource,
)
from bridgehead.apiserver.bodies.definitions import LazyDefinitions
from bridgehead.apiserver.registry.policy_status import PolicyStatus
from tests.unit.apiserver.customresources.definitions import define, definition
from tests.unit.apiserver.world import World, open_world

GROUP = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
DEPLOYMENTS = {"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}


@contextlib.asynccontextmanager
async def checking(world: World) -> Any:
    task = asyncio.create_task(PolicyStatus(world.parts.registry, world.parts.schema).run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def status(world: World, generation: int = 1) -> Any:
    """Return the status of policy `p` when its spec of a generation is checked."""
    watch = world.store.watch("validatingadmissionpolicies.admissionregistration.k8s.io", since=world.store.revision)
    async with asyncio.timeout(40):
        while True:
            found = (await world.get(f"{GROUP}/p")).get("status", {})
            if found.get("observedGeneration") == generation:
                watch.close()
                return found
            await anext(aiter(watch))


def policy(expression: str, **spec: Any) -> dict[str, Any]:
    validation = {"expression": expression, **spec.pop("validation", {})}
    spec = {"matchConstraints": {"resourceRules": [DEPLOYMENTS]}, "validations": [validation], **spec}
    return {"metadata": {"name": "p"}, "spec": spec}


async def test_the_status_has_the_warnings():
    confused = {"messageExpression": "'wants replicas > 1, got ' + object.spec.replicas"}
    async with open_world() as world:
        # A policy that was stored before the server started is checked, too.
        await world.create(GROUP, policy("object.spec.replicas > '1'", validation=confused))
        async with checking(world):
            found = await status(world)
            warnings = found["typeChecking"]["expressionWarnings"]
            assert [one["fieldRef"] for one in warnings] == [
                "spec.validations[0].expression",
                "spec.validations[0].messageExpression",
            ]
            assert warnings[0]["warning"] == (
                "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to "
                "'(int, string)'\n | object.spec.replicas > '1'\n | .....................^\n"
            )
            assert "found no matching overload for '_+_' applied to '(string, int)'" in warnings[1]["warning"]
            # A change of the spec is checked again, and clears the warnings.
            stored = await world.get(f"{GROUP}/p")
            stored["spec"]["validations"] = [{"expression": "object.spec.replicas > 1"}]
            assert (await world.call("PUT", f"{GROUP}/p", stored)).status == 200
            assert await status(world, 2) == {"observedGeneration": 2, "typeChecking": {}}


FITTING = [
    "object.metadata.labels['a'] == oldObject.metadata.annotations['a']",
    "object.metadata.creationTimestamp > timestamp('2020-01-01T00:00:00Z')",
    "object.spec.template.spec.containers.all(c, c.image.startsWith('a') && has(c.resources.limits))",
    "object.spec.strategy.rollingUpdate.maxSurge == 1 || object.spec.strategy.rollingUpdate.maxSurge == '1'",
    "quantity(object.spec.template.spec.containers[0].resources.limits['cpu']).isGreaterThan(quantity('1'))",
    "params.data['most'] == variables.most && object.kind == 'Deployment' && object.apiVersion == 'apps/v1'",
    "has(object.spec.selector.matchLabels) && authorizer.requestResource.check('get').allowed()",
]
CONFUSED = {
    "object.spec.replica == 1": "undefined field 'replica'",
    "object.spec.template.spec.containers.all(c, c.image > 1)": "applied to '(string, int)'",
    "object.metadata.labels == 1": "applied to '(map(string, string), int)'",
    "params.data.size() == 'a'": "applied to '(int, string)'",
    "variables.most + 1 == 2": "applied to '(string, int)'",
}


@pytest.fixture(scope="module")
def definitions() -> LazyDefinitions:
    return LazyDefinitions()


@pytest.mark.parametrize(("expression", "problem"), [*((one, "") for one in FITTING), *CONFUSED.items()])
def test_types_are_those_of_the_definitions(definitions, expression, problem):
    from tests.unit.apiserver.resources.steps import table

    deployments = next(one for one in table().values() if one.id == "deployments.apps")
    types: list[Any] = [(deployments, type_of_resource("io.k8s.api.apps.v1.Deployment", definitions))]
    params = type_of_resource("io.k8s.api.core.v1.ConfigMap", definitions)
    spec = {
        "validations": [{"expression": expression}],
        "variables": [{"name": "most", "expression": "params.data['most']"}],
    }
    found = expression_warnings(spec, types, params)
    assert [problem in one["warning"] for one in found] == ([True] if problem else [])


def test_recursive_definitions_have_types(definitions):
    for name in definitions:
        if name.endswith((".JSONSchemaProps", ".CustomResourceDefinition", ".Pod")):
            assert type_of_resource(name, definitions) is not None


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ({}, ["deployments"]),
        ({"resources": ["daemonsets", "deployments", "deployments/status", "*"]}, ["daemonsets", "deployments"]),
        ({"apiGroups": ["*"]}, []),
        ({"apiVersions": ["v2", "*"]}, []),
        ({"resources": ["things"]}, []),
        ({"apiGroups": ["", "apps"], "resources": ["pods", "deployments"]}, ["pods", "deployments"]),
    ],
)
async def test_resources_that_rules_name_are_checked(rule, names):
    async with open_world() as world:
        spec = {"matchConstraints": {"resourceRules": [{**DEPLOYMENTS, **rule}]}}
        assert [one.plural for one in checked_resources(spec, world.parts.table)] == names


async def test_custom_resources_are_checked():
    rule = {**DEPLOYMENTS, "apiGroups": ["stable.example.com"], "resources": ["crontabs"]}
    kind = {"apiVersion": "stable.example.com/v1", "kind": "CronTab"}
    async with open_world() as world, checking(world):
        await define(world, definition())
        named = "object.metadata.labels['a'] == 'b' && params.spec.cronSpec == object.spec.cronSpec"
        await world.create(GROUP, policy(named, matchConstraints={"resourceRules": [rule]}, paramKind=kind))
        assert (await status(world))["typeChecking"] == {}
        stored = await world.get(f"{GROUP}/p")
        stored["spec"]["validations"] = [{"expression": "object.spec.replicas > params.spec.image"}]
        assert (await world.call("PUT", f"{GROUP}/p", stored)).status == 200
        (warning,) = (await status(world, 2))["typeChecking"]["expressionWarnings"]
        assert "found no matching overload for '_>_' applied to '(int, string)'" in warning["warning"]


async def test_the_status_is_written_by_clients_too():
    async with open_world() as world, checking(world):
        await world.create(GROUP, policy("object.spec.replicas > 1"))
        await status(world)
        condition = {"type": "A", "status": "True", "reason": "R", "message": "m"}
        condition["lastTransitionTime"] = "2020-01-01T00:00:00Z"
        patch = {"metadata": {"annotations": {"a": "b"}}, "status": {"conditions": [condition]}}
        answer = await world.patch(f"{GROUP}/p/status", patch, "merge-patch")
        assert answer.json["status"] == {"observedGeneration": 1, "typeChecking": {}, "conditions": [condition]}
        stored = {**answer.json, "spec": {}}
        answer = await world.call("PUT", f"{GROUP}/p/status", stored)
        assert (answer.status, len(answer.json["spec"]["validations"])) == (200, 1)
        # A write of the policy keeps the status.
        answer = await world.call("PUT", f"{GROUP}/p", {**answer.json, "status": {}})
        assert answer.json["status"]["conditions"] == [condition]
