"""The question of a kubelet's server to the API server about a request."""

from __future__ import annotations

import pytest

from bridgehead.client.access_reviews import Client, bearer_token
from bridgehead.kubelet.server.authorization import owner_of, subresources_for, verb_for


def certificate(name, *organizations):
    return {
        "subject": (
            *((("organizationName", organization),) for organization in organizations),
            (("commonName", name),),
        )
    }


@pytest.mark.parametrize(
    ("given", "owner"),
    [
        (None, None),
        ({}, None),
        ({"subject": ((("organizationName", "system:masters"),),)}, None),
        (certificate("ann"), Client("ann", groups=("system:authenticated",))),
        (
            certificate("system:node:node2", "system:nodes", "more"),
            Client("system:node:node2", groups=("system:nodes", "more", "system:authenticated")),
        ),
    ],
)
def test_the_owner_of_a_certificate(given, owner):
    assert owner_of(given) == owner


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer  abc ", "abc"),
        ("Basic abc", ""),
        ("", ""),
        ("Bearer", ""),
        ("Bearer \udcff", ""),
    ],
)
def test_bearer_tokens(header, token):
    assert bearer_token(header) == token


@pytest.mark.parametrize(
    ("path", "subresources"),
    [
        ("/metrics", ("metrics",)),
        ("/metrics/cadvisor", ("metrics",)),
        ("/metricsandmore", ("proxy",)),
        ("/stats/summary", ("stats",)),
        ("/logs/", ("log",)),
        ("/statusz", ("statusz",)),
        ("/flagz", ("configz",)),
        ("/pods", ("pods", "proxy")),
        ("/runningpods/", ("pods", "proxy")),
        ("/healthz/syncloop", ("healthz", "proxy")),
        ("/configz", ("configz", "proxy")),
        ("/exec/default/web/web", ("proxy",)),
        ("//metrics", ("proxy",)),
        ("/", ("proxy",)),
    ],
)
def test_subresources_of_paths(path, subresources):
    assert subresources_for(path) == subresources


@pytest.mark.parametrize(
    ("method", "verb"),
    [("GET", "get"), ("POST", "create"), ("PUT", "update"), ("PATCH", "patch"), ("DELETE", "delete"), ("HEAD", "")],
)
def test_verbs_of_methods(method, verb):
    assert verb_for(method) == verb
