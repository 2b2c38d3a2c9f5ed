"""The operations of every kind, in the order of the conformance tests "should support ... API operations"."""

from __future__ import annotations

import copy
from typing import Any

from bridgehead.apiserver.http.request_info import parse_request
from tests.unit.apiserver.fuzz_seeds import FURTHER
from tests.unit.apiserver.test_fuzz import OBJECTS
from tests.unit.apiserver.world import World, open_world

# Their names follow from their content, so there can be only one of each content.
NAMED_BY_CONTENT = ("customresourcedefinitions", "apiservices", "ipaddresses")
# Their deletion is finished by a controller.
DELETED_BY_A_CONTROLLER = ("namespaces", "servicecidrs", "persistentvolumeclaims", "persistentvolumes")
KINDS = {
    url: seed
    for url, seed in (OBJECTS | FURTHER).items()
    if url.rpartition("/")[2] not in (*NAMED_BY_CONTENT, *DELETED_BY_A_CONTROLLER) and "a.example" not in url
}
# An update of these must have a resourceVersion (AllowUnconditionalUpdate).
CONDITIONAL = {
    *("mutatingadmissionpolicies", "mutatingadmissionpolicybindings", "mutatingwebhookconfigurations"),
    *("validatingadmissionpolicies", "validatingadmissionpolicybindings", "validatingwebhookconfigurations"),
    *("csidrivers", "csinodes", "csistoragecapacities", "volumeattachments"),
    *("leases", "poddisruptionbudgets", "runtimeclasses"),
}
# A write to the status of these changes no labels (ResetObjectMetaForStatus).
LABELS_STAY = {
    *("deployments", "flowschemas", "prioritylevelconfigurations", "resourceclaims", "validatingadmissionpolicies"),
    "volumeattachments",
}
AT_ONCE = "gracePeriodSeconds=0&propagationPolicy=Background"
SELECTED = "labelSelector=example%3Doperations"


def template(url: str, seed: dict[str, Any]) -> dict[str, Any]:
    """Return an object without a name, of which there can be several."""
    obj = copy.deepcopy(seed)
    obj["metadata"] = {"generateName": "example-", "labels": {"example": "operations"}}
    if url.endswith("/services"):
        del obj["spec"]["clusterIP"], obj["spec"]["ports"][0]["nodePort"]
    return obj


async def changed(world: World, url: str, key: str) -> Any:
    """Read an object, annotate it and write it back; return the answer's object."""
    obj = await world.get(url)
    obj["metadata"].setdefault("annotations", {})[key] = "true"
    answer = await world.call("PUT", url, obj)
    assert answer.status == 200, answer.body
    return answer.json


async def check_operations(world: World, url: str) -> None:
    obj = template(url, KINDS[url])
    created = [await world.create(url, obj) for _ in range(3)]
    one = f"{url}/{created[2]['metadata']['name']}"
    assert (await world.get(one))["metadata"]["uid"] == created[2]["metadata"]["uid"]
    found = await world.get(f"{url}?{SELECTED}")
    assert len(found["items"]) == 3
    watch = await world.watch(f"{url}?{SELECTED}&resourceVersion={found['metadata']['resourceVersion']}")
    patched = await world.patch(one, {"metadata": {"annotations": {"patched": "true"}}})
    assert patched.json["metadata"]["annotations"]["patched"] == "true", patched.body
    updated = await changed(world, one, "updated")
    assert {"patched", "updated"} <= updated["metadata"]["annotations"].keys()
    unconditional = {**updated, "metadata": {**updated["metadata"], "resourceVersion": ""}}
    plural = url.rpartition("/")[2]
    expected = 422 if plural in CONDITIONAL else 200
    assert (await world.call("PUT", one, unconditional)).status == expected
    event = await watch.next()
    assert event is not None
    assert (event["type"], event["object"]["metadata"]["annotations"]["patched"]) == ("MODIFIED", "true")
    await watch.leave()
    info = parse_request("GET", one, {})
    resource = world.parts.table.find(info.group, info.version, info.resource)
    if resource is not None and "status" in resource.subresources:
        assert (await world.get(f"{one}/status"))["metadata"]["uid"] == created[2]["metadata"]["uid"]
        await changed(world, f"{one}/status", "status")
        labelled = await world.patch(f"{one}/status", {"metadata": {"labels": {"status": "x"}}})
        assert ("status" in labelled.json["metadata"]["labels"]) == (plural not in LABELS_STAY)
    assert (await world.call("DELETE", f"{one}?{AT_ONCE}")).status == 200
    assert (await world.call("GET", one)).status == 404
    assert len((await world.get(f"{url}?{SELECTED}"))["items"]) == 2
    assert (await world.call("DELETE", f"{url}?{SELECTED}&{AT_ONCE}")).status == 200
    assert (await world.get(f"{url}?{SELECTED}"))["items"] == []


async def test_every_kind_supports_the_operations():
    async with open_world() as world:
        paths = {url.replace("/namespaces/default/", "/") for url in OBJECTS | FURTHER}
        served = {f"{'/apis' if r.group else '/api'}/{r.api_version}/{r.plural}" for r in world.parts.table}
        assert served - paths == {"/api/v1/componentstatuses"}, "every kind has an object in the seeds"
        await world.call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
        for url in KINDS:
            try:
                await check_operations(world, url)
            except Exception as error:
                error.add_note(url)
                raise
