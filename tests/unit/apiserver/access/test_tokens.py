"""Verification of service account tokens, and impersonation."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives import serialization

from bridgehead.apiserver.access.tokens import ISSUER
from bridgehead.apiserver.http.user import User
from tests.unit.apiserver.world import World, open_world, signing_key

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
PODS = "/api/v1/namespaces/default/pods"
WHO = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
Claims = dict[str, Any]


@pytest.fixture
async def world():
    async with open_world() as world:
        await world.create(ACCOUNTS, {"metadata": {"name": "default"}})
        yield world


async def issue(world: World, **spec: Any) -> str:
    answer = await world.call("POST", f"{ACCOUNTS}/default/token", {"spec": {"expirationSeconds": 3600, **spec}})
    assert answer.status == 201, answer.body
    token: str = answer.json["status"]["token"]
    return token


async def status_with(world: World, token: str) -> int:
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    return (await world.call("POST", WHO, b"{}", user=None, headers=headers)).status


def claims_of(token: str) -> Claims:
    claims: Claims = jwt.decode(token, options={"verify_signature": False})
    return claims


def sign(claims: Claims, **more: Any) -> str:
    return jwt.encode(claims, signing_key().private, algorithm="RS256", **more)


def without(*path: str) -> Callable[[Claims], None]:
    def change(claims: Claims) -> None:
        for step in path[:-1]:
            claims = claims[step]
        del claims[path[-1]]

    return change


def with_value(value: Any, *path: str) -> Callable[[Claims], None]:
    def change(claims: Claims) -> None:
        for step in path[:-1]:
            claims = claims[step]
        claims[path[-1]] = value

    return change


WRONG = (
    without("kubernetes.io"),
    without("kubernetes.io", "serviceaccount"),
    without("kubernetes.io", "namespace"),
    without("kubernetes.io", "serviceaccount", "uid"),
    without("exp"),
    without("nbf"),
    without("aud"),
    without("iss"),
    with_value("banana", "kubernetes.io"),
    with_value("default", "kubernetes.io", "serviceaccount"),
    with_value(["p"], "kubernetes.io", "pod"),
    with_value("x", "kubernetes.io", "serviceaccount", "uid"),
    with_value("other", "kubernetes.io", "namespace"),
    with_value("tomorrow", "exp"),
    with_value(None, "nbf"),
    with_value("https://elsewhere", "iss"),
    with_value(["vault"], "aud"),
)


async def test_a_signed_token_with_invalid_claims_is_refused(world):
    """A token with a valid signature and malformed claims gets a 401, never a 500."""
    token = await issue(world)
    assert await status_with(world, sign(claims_of(token))) == 201
    for change in WRONG:
        claims = claims_of(token)
        change(claims)
        assert await status_with(world, sign(claims)) == 401, claims


async def test_a_malformed_signature_is_refused(world):
    token = await issue(world)
    header, body, signature = token.split(".")
    public = signing_key().public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    none = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').decode().rstrip("=")
    symmetric = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "typ": "JWT"}).encode()).decode().rstrip("=")
    digest = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    mac = base64.urlsafe_b64encode(digest.sign(f"{symmetric}.{body}".encode(), public)).decode().rstrip("=")
    for wrong in (
        f"{header}.{body}.",
        f"{header}.{body}.{signature[:-4]}AAAA",
        f"{none}.{body}.",
        f"{none}.{body}.{signature}",
        f"{symmetric}.{body}.{mac}",
        f"{header}.{body}",
        "..",
        "a.b.c",
        "\xff.\xff.\xff",
    ):
        assert await status_with(world, wrong) == 401


async def test_a_token_is_invalid_after_its_account_is_deleted(world):
    token = await issue(world)
    await world.call("DELETE", f"{ACCOUNTS}/default")
    assert await status_with(world, token) == 401
    await world.create(ACCOUNTS, {"metadata": {"name": "default"}})
    assert await status_with(world, token) == 401  # another object with that name


async def test_a_token_expires_after_the_deletion_of_its_pod_despite_finalizers(world):
    spec = {"nodeName": "node1", "containers": [{"name": "c", "image": "i"}]}
    await world.create(PODS, {"metadata": {"name": "p", "finalizers": ["example.com/held"]}, "spec": spec})
    token = await issue(world, boundObjectRef={"kind": "Pod", "apiVersion": "v1", "name": "p"})
    assert await status_with(world, token) == 201
    await world.call("DELETE", f"{PODS}/p?gracePeriodSeconds=10")
    world.clock.now += 65  # its containers may still need it
    assert await status_with(world, token) == 201
    world.clock.now += 10
    assert await status_with(world, token) == 401


async def test_a_token_is_valid_for_its_audiences_only(world):
    url = "/apis/authentication.k8s.io/v1/tokenreviews"

    async def review(token: str, *audiences: str) -> dict[str, Any]:
        answer = await world.call("POST", url, {"spec": {"token": token, "audiences": list(audiences)}})
        status: dict[str, Any] = answer.json["status"]
        return status

    own, vault = await issue(world), await issue(world, audiences=["vault", "safe"])
    assert (await review(own))["audiences"] == [ISSUER]
    assert (await review(own, ISSUER, "vault"))["audiences"] == [ISSUER]
    assert (await review(vault, "bank", "vault"))["audiences"] == ["vault"]
    for token, audiences in ((own, ["vault"]), (vault, []), (vault, ["bank"])):
        status = await review(token, *audiences)
        assert status["authenticated"] is False
        assert "is invalid for the target audiences" in status["error"]
    assert await status_with(world, vault) == 401


async def test_credentials_are_not_logged(world, caplog):
    caplog.set_level(logging.DEBUG)
    token = await issue(world)
    await world.call("DELETE", f"{ACCOUNTS}/default")
    secrets = [token, token[:-9] + "AAAAAAAAA", "opaque-secret", f"{token}x", sign({"aud": ISSUER, "iss": ISSUER})]
    for secret in secrets:
        assert await status_with(world, secret) == 401
        review = {"spec": {"token": secret}}
        assert (await world.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)).status == 201
    assert caplog.records, "a refused token is worth a line"
    for secret in secrets:
        for piece in secret.split("."):
            assert len(piece) < 9 or piece not in caplog.text


ORDINARY = (
    User("bob", ("system:authenticated",)),
    User("system:masters", ("system:authenticated",)),
    User("system:node:node1", ("system:nodes", "system:authenticated")),
    User("system:kube-proxy", ("system:authenticated",)),
    User("system:kube-scheduler", ("system:authenticated",)),
    User("system:kube-controller-manager", ("system:authenticated",)),
    User("system:serviceaccount:default:default", ("system:serviceaccounts", "system:authenticated")),
    None,
)


async def test_only_administrators_may_impersonate(world):
    secrets = "/api/v1/namespaces/kube-system/secrets"
    for user in ORDINARY:
        for headers in (
            {"impersonate-user": "admin", "impersonate-group": "system:masters"},
            {"impersonate-user": "system:node:node1", "impersonate-group": "system:nodes"},
            {"impersonate-user": "system:serviceaccount:kube-system:kube-proxy"},
            {"impersonate-user": "system:kube-controller-manager"},
            {"impersonate-user": "system:anonymous"},
        ):
            answer = await world.call("GET", secrets, user=user, headers=headers)
            assert (answer.status, "cannot impersonate" in answer.json["message"]) == (403, True), user
        for header in ("impersonate-group", "impersonate-uid", "impersonate-extra-scopes"):
            answer = await world.call("GET", secrets, user=user, headers={header: "system:masters"})
            assert answer.status == 400


async def test_anonymous_requests_are_denied(world):
    for url in (
        "/api/v1/secrets",
        "/api/v1/namespaces/default/pods/p/exec",
        "//api/v1/secrets",
        "/api/v1/./secrets",
        "/healthz/../api/v1/secrets",
        "/version/../metrics",
        "/metrics/",
        "/api",
        "/openapi/v2",
        "/apis/authentication.k8s.io/v1/tokenreviews",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    ):
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "CONNECT"):
            for headers in ({}, {"authorization": "Basic YWRtaW46YWRtaW4="}, {"authorization": "Bearer"}):
                answer = await world.call(method, url, user=None, headers=headers)
                assert answer.status in (403, 404), (method, url, answer.body)
