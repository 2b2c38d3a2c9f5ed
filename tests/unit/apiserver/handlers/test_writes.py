"""The writes that requests ask for, and their attributes for admission."""

from __future__ import annotations

import pytest

from bridgehead.apiserver.fieldmanagement.managers import Writer
from bridgehead.apiserver.handlers.writes import create_of, delete_of, update_of
from bridgehead.apiserver.http.request import Request
from bridgehead.apiserver.http.request_info import parse_query, parse_request
from bridgehead.apiserver.http.user import User
from bridgehead.apiserver.registry.deletion import DeleteOptions
from bridgehead.apiserver.resources import build_table
from bridgehead.apiserver.table import ResourceTable

TABLE = ResourceTable(build_table(service_cidrs=("10.96.0.0/12",), node_port_range=(30000, 32767)))
WRITER = Writer("me")


def request_of(method: str, url: str) -> Request:
    path, _, raw = url.partition("?")
    query = parse_query(raw.encode())

    async def receive() -> dict[str, object]:
        raise AssertionError("the body is not read")

    return Request(parse_request(method, path, query), method, query, {}, User("me"), {}, receive, body_size=7)


@pytest.mark.parametrize(
    ("url", "resource", "namespace", "of_attributes"),
    [
        ("/api/v1/namespaces/n/pods", "pods", "n", "n"),
        ("/api/v1/nodes", "nodes", "", ""),
        ("/api/v1/namespaces", "namespaces", "", "x"),  # as the authorizer and NamespaceLifecycle know it
    ],
)
def test_the_name_of_a_new_object_is_for_admission_only(url, resource, namespace, of_attributes):
    write = create_of(request_of("POST", url), TABLE.by_id(resource), "x", WRITER)
    assert (write.namespace, write.name, write.size, write.writer) == (namespace, "", 7, WRITER)
    assert write.attributes is not None
    assert (write.attributes.operation, write.attributes.name) == ("CREATE", "x")
    assert write.attributes.namespace == of_attributes


def test_a_change_has_the_names_of_its_path_and_the_options_of_its_query():
    url = "/api/v1/namespaces/n/pods/p/status?dryRun=All&fieldManager=m&force=true"
    write = update_of(request_of("PATCH", url), TABLE.by_id("pods"), WRITER)
    assert (write.namespace, write.name, write.subresource, write.dry_run) == ("n", "p", "status", True)
    assert write.attributes is not None
    assert (write.attributes.subresource, write.attributes.verb) == ("status", "patch")
    assert write.attributes.options == {"dryRun": ["All"], "fieldManager": "m"}


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_delete_has_the_options_of_its_body(dry_run):
    options = DeleteOptions(grace_seconds=0, uid="u", policy="Orphan")
    request = request_of("DELETE", "/api/v1/namespaces/n/pods/p?fieldManager=m")
    write = delete_of(request, TABLE.by_id("pods"), options, dry_run=dry_run)
    assert (write.namespace, write.name, write.dry_run) == ("n", "p", dry_run)
    assert write.attributes is not None
    assert (write.attributes.operation, write.attributes.verb, write.attributes.dry_run) == ("DELETE", "", dry_run)
    given = {"gracePeriodSeconds": 0, "preconditions": {"uid": "u"}, "propagationPolicy": "Orphan"}
    assert write.attributes.options == given | ({"dryRun": ["All"]} if dry_run else {})
