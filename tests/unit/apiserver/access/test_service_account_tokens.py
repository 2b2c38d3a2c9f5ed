"""Verification of service account tokens, and impersonation."""

from __future__ import annotations

import base64
import datetime
import json
import logging
from collections.abc import Callable
from typing import Any

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.x509 import NameOID

from bridgehead.apiserver.access.service_account_tokens import ISSUER, TokenAuthority, TokenSettings
from bridgehead.apiserver.access.token_claims import Bound, Reference, issuer_of
from bridgehead.apiserver.handlers.issuer import IssuerDiscovery
from bridgehead.apiserver.http.user import CredentialNotes, InvalidCredentials, User
from bridgehead.objects.times import parse_time
from bridgehead.signing_keys import SigningKey, read_verification_keys
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
    public = signing_key().verification.public.public_bytes(
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
        assert "authenticated" not in status
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


async def test_a_token_may_be_bound_to_a_node_or_a_secret(world):
    nodes, secrets = "/api/v1/nodes", "/api/v1/namespaces/default/secrets"
    for url, kind in ((nodes, "Node"), (secrets, "Secret")):
        uid = (await world.create(url, {"metadata": {"name": "x"}}))["metadata"]["uid"]
        reference = {"kind": kind, "apiVersion": "v1", "name": "x"}
        token = await issue(world, boundObjectRef=reference)
        assert claims_of(token)["kubernetes.io"][kind.lower()] == {"name": "x", "uid": uid}
        assert await status_with(world, token) == 201
        body = {"spec": {"boundObjectRef": {**reference, "uid": "other"}}}
        answer = await world.call("POST", f"{ACCOUNTS}/default/token", body)
        assert answer.status == 409
        assert answer.json["message"] == (
            f'Operation cannot be fulfilled on {kind} "x": the UID in the bound object reference (other) does not '
            "match the UID in record. The object might have been deleted and then recreated"
        )
        await world.call("DELETE", f"{url}/x")
        assert await status_with(world, token) == 401
        await world.create(url, {"metadata": {"name": "x"}})
        assert await status_with(world, token) == 401
        review = await world.create("/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": token}})
        assert f"does not match service account {kind.lower()} ref claim ({uid})" in review["status"]["error"]


async def test_a_pods_token_names_its_node(world):
    spec = {"nodeName": "node1", "containers": [{"name": "c", "image": "i"}]}
    await world.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
    reference = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    assert claims_of(await issue(world, boundObjectRef=reference))["kubernetes.io"]["node"] == {"name": "node1"}
    uid = (await world.create("/api/v1/nodes", {"metadata": {"name": "node1"}}))["metadata"]["uid"]
    token = await issue(world, boundObjectRef=reference)
    assert claims_of(token)["kubernetes.io"]["node"] == {"name": "node1", "uid": uid}
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    who = (await world.call("POST", WHO, b"{}", user=None, headers=headers)).json["status"]["userInfo"]
    assert who["extra"]["authentication.kubernetes.io/node-uid"] == [uid]
    await world.call("DELETE", "/api/v1/nodes/node1")
    assert await status_with(world, token) == 201, "it is bound to the pod only"


async def test_the_lifetime_has_bounds_and_is_extended_for_pods_by_default(world):
    spec = {"containers": [{"name": "c", "image": "i"}]}
    await world.create(PODS, {"metadata": {"name": "p"}, "spec": spec})
    bound = {"kind": "Pod", "apiVersion": "v1", "name": "p"}
    for given, lifetime in (
        ({"expirationSeconds": 600}, 600),
        ({"expirationSeconds": 3607}, 3607),
        ({"expirationSeconds": 3600, "boundObjectRef": bound}, 3600),
        ({"expirationSeconds": 3607, "boundObjectRef": bound, "audiences": ["vault"]}, 3607),
        ({"expirationSeconds": 3607, "boundObjectRef": bound}, 365 * 24 * 3600),
    ):
        answer = await world.call("POST", f"{ACCOUNTS}/default/token", {"spec": given})
        claims = claims_of(answer.json["status"]["token"])
        assert claims["exp"] - claims["iat"] == lifetime
        assert claims["kubernetes.io"].get("warnafter", 0) == (claims["iat"] + 3607 if lifetime > 4000 else 0)
        # The client asks for a new one at the time that it wanted.
        until = parse_time(answer.json["status"]["expirationTimestamp"])
        assert until - claims["iat"] == given["expirationSeconds"]
    for seconds, why in (
        (599, "Invalid value: 599: may not specify a duration less than 10 minutes"),
        (2**32 + 1, "Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds"),
    ):
        answer = await world.call("POST", f"{ACCOUNTS}/default/token", {"spec": {"expirationSeconds": seconds}})
        assert answer.status == 422
        assert why in answer.json["message"]


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        (
            {"metadata": {"name": "other"}},
            422,
            'TokenRequest.authentication.k8s.io "default" is invalid: metadata.name: Invalid value: "other": must '
            "match the service account name if specified",
        ),
        (
            {"metadata": {"namespace": "other"}},
            400,
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
        (
            {"spec": {"boundObjectRef": {"kind": "Deployment", "apiVersion": "apps/v1", "name": "x"}}},
            400,
            "cannot bind token to object of type apps/v1, Kind=Deployment",
        ),
        (
            {"spec": {"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}}},
            400,
            "cannot bind token to object of type /v1, Kind=ConfigMap",
        ),
        ({"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "x"}}}, 404, 'pods "x" not found'),
        (
            {"spec": {"boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "others"}}},
            400,
            'cannot bind token for serviceaccount "default" to pod running with different serviceaccount name.',
        ),
    ],
)
async def test_invalid_token_requests(world, body, code, message):
    await world.create(ACCOUNTS, {"metadata": {"name": "other"}})
    spec = {"serviceAccountName": "other", "containers": [{"name": "c", "image": "i"}]}
    await world.create(PODS, {"metadata": {"name": "others"}, "spec": spec})
    answer = await world.call("POST", f"{ACCOUNTS}/default/token", body)
    assert (answer.status, answer.json["message"]) == (code, message)


async def test_a_token_request_may_name_the_uid_of_the_account(world):
    uid = (await world.get(f"{ACCOUNTS}/default"))["metadata"]["uid"]
    for given in ("", uid):
        answer = await world.call("POST", f"{ACCOUNTS}/default/token", {"metadata": {"uid": given}})
        assert (answer.status, answer.json["metadata"]["uid"]) == (201, uid)
    answer = await world.call("POST", f"{ACCOUNTS}/default/token", {"metadata": {"uid": "x"}})
    assert (answer.status, answer.json["message"]) == (
        409,
        'Operation cannot be fulfilled on TokenRequest.authentication.k8s.io "default": the UID in the token request '
        f"(x) does not match the UID of the service account ({uid})",
    )


async def test_the_token_of_a_secret_is_valid_while_the_secret_holds_it(world):
    secrets = "/api/v1/namespaces/default/secrets"
    uid = (await world.get(f"{ACCOUNTS}/default"))["metadata"]["uid"]
    claims = {
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": "default",
        "kubernetes.io/serviceaccount/secret.name": "legacy",
        "kubernetes.io/serviceaccount/service-account.name": "default",
        "kubernetes.io/serviceaccount/service-account.uid": uid,
        "sub": "system:serviceaccount:default:default",
    }
    token = signing_key().sign(claims)
    assert await status_with(world, token) == 401, "there is no Secret"
    annotations = {"kubernetes.io/service-account.name": "default"}
    data = {"token": base64.b64encode(token.encode()).decode()}
    secret = {"metadata": {"name": "legacy", "annotations": annotations}, "data": data}
    await world.create(secrets, {**secret, "type": "kubernetes.io/service-account-token"})
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    who = (await world.call("POST", WHO, b"{}", user=None, headers=headers)).json["status"]["userInfo"]
    groups = ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"]
    assert who == {"username": "system:serviceaccount:default:default", "uid": uid, "groups": groups}
    watch = await world.watch(f"{secrets}?fieldSelector=metadata.name=legacy")
    while "labels" not in (metadata := (await watch.next())["object"]["metadata"]):
        pass
    assert metadata["labels"] == {"kubernetes.io/legacy-token-last-used": "2026-11-21"}
    await watch.leave()
    for wrong, why in (
        (without("sub"), "missing required field `sub`"),
        (with_value("system:serviceaccount:default:x", "sub"), "sub claim is invalid"),
        (with_value("", "kubernetes.io/serviceaccount/secret.name"), "secretName claim is missing"),
        (with_value(5, "kubernetes.io/serviceaccount/secret.name"), "Expected `str`, got `int`"),
        (with_value("y", "kubernetes.io/serviceaccount/secret.name"), "Token has been invalidated"),
        (lambda changed: changed.update(jti="2"), "Token does not match server's copy"),
    ):
        changed = dict(claims)
        wrong(changed)
        review = {"spec": {"token": signing_key().sign(changed)}}
        status = (await world.create("/apis/authentication.k8s.io/v1/tokenreviews", review))["status"]
        assert why in status["error"]
    labels = {"kubernetes.io/legacy-token-invalid-since": "2026-11-21"}
    await world.patch(f"{secrets}/legacy", {"metadata": {"labels": labels}})
    assert await status_with(world, token) == 401
    await world.patch(f"{secrets}/legacy", {"metadata": {"labels": dict.fromkeys(labels)}})
    assert await status_with(world, token) == 201
    await world.call("DELETE", f"{secrets}/legacy")
    assert await status_with(world, token) == 401


async def test_a_review_is_for_tokens_of_every_kind(world):
    url = "/apis/authentication.k8s.io/v1/tokenreviews"
    assert (await world.call("POST", url, {"spec": {}})).status == 400
    status = (await world.create(url, {"spec": {"token": "token-of-bob"}}))["status"]
    assert (status["user"]["username"], status["audiences"]) == ("bob", [ISSUER])
    status = (await world.create(url, {"spec": {"token": "token-of-bob", "audiences": ["vault"]}}))["status"]
    assert "authenticated" not in status
    status = (await world.create(url, {"spec": {"token": "nonsense"}}))["status"]
    assert status == {"user": {}, "error": "invalid bearer token"}


async def test_the_issuer_publishes_its_keys(world):
    answer = await world.call("GET", "/.well-known/openid-configuration")
    assert answer.header("cache-control") == ["public, max-age=3600"]
    assert answer.json["issuer"] == ISSUER
    assert answer.json["id_token_signing_alg_values_supported"] == ["RS256"]
    answer = await world.call("GET", "/openid/v1/jwks")
    assert answer.header("content-type") == ["application/jwk-set+json"]
    keys = jwt.PyJWKSet.from_dict(answer.json)
    token = await issue(world, audiences=["oidc-discovery-test"])
    key = keys[jwt.get_unverified_header(token)["kid"]]
    verified = jwt.decode(
        token, key.key, algorithms=["RS256"], audience="oidc-discovery-test", options={"verify_exp": False}
    )
    assert verified["sub"] == "system:serviceaccount:default:default"
    account = User("system:serviceaccount:default:default", ("system:serviceaccounts", "system:authenticated"))
    assert (await world.call("GET", "/openid/v1/jwks", user=account)).status == 200
    assert (await world.call("GET", "/openid/v1/jwks", user=None)).status == 403
    assert (await world.call("POST", "/openid/v1/jwks")).status == 405


@pytest.mark.parametrize(("curve", "algorithm"), [(ec.SECP256R1(), "ES256"), (ec.SECP384R1(), "ES384")])
def test_elliptic_keys_sign_tokens(curve, algorithm):
    key = SigningKey(ec.generate_private_key(curve))
    published = jwt.PyJWK(key.verification.jwk())
    assert (published.algorithm_name, published.key_id) == (algorithm, key.verification.id)
    assert jwt.decode(key.sign({"sub": "x"}), published.key, algorithms=[algorithm]) == {"sub": "x"}


def test_what_is_no_key_is_refused(tmp_path):
    with pytest.raises(ValueError, match="unknown private key curve"):
        SigningKey(ec.generate_private_key(ec.SECP256K1()))
    file = tmp_path / "key"
    file.write_text("nonsense")
    with pytest.raises(ValueError, match="not an RSA or ECDSA private key without a password"):
        SigningKey.read(file)
    key = ed25519.Ed25519PrivateKey.generate()
    pkcs8, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    file.write_bytes(key.private_bytes(serialization.Encoding.PEM, pkcs8, plain))
    with pytest.raises(ValueError, match="not an RSA or ECDSA private key"):
        SigningKey.read(file)


async def test_tokens_of_a_replaced_key_stay_valid(world):
    """A new key signs; the tokens of the old one are verified as long as its public key is given."""
    account = await world.get(f"{ACCOUNTS}/default")
    reference = Reference("default", account["metadata"]["uid"])
    old, new = SigningKey(ec.generate_private_key(ec.SECP256R1())), signing_key()

    def authority(key, *others):
        settings = TokenSettings(verification_keys=tuple(other.verification for other in others))
        return TokenAuthority(key, world.store, world.clock, settings)

    token = authority(old).issue("default", reference, Bound(), audiences=[ISSUER], seconds=600).token
    user, _ = authority(new, old).verify(token, [ISSUER], CredentialNotes())
    assert user.name == "system:serviceaccount:default:default"
    without_id = jwt.encode(claims_of(token), old.private, algorithm="ES256")
    user, _ = authority(new, old).verify(without_id, [ISSUER], CredentialNotes())
    assert user.name == "system:serviceaccount:default:default"
    with pytest.raises(InvalidCredentials):
        authority(new).verify(token, [ISSUER], CredentialNotes())
    discovery = IssuerDiscovery(authority(new, old, old), "https://127.0.0.1/openid/v1/jwks")
    published = json.loads(discovery.handle("/openid/v1/jwks").body)["keys"]
    assert [key["kid"] for key in published] == [new.verification.id, old.verification.id]
    configuration = json.loads(discovery.handle("/.well-known/openid-configuration").body)
    assert configuration["id_token_signing_alg_values_supported"] == ["ES256", "RS256"]


def test_verification_keys_are_read_from_every_kind_of_pem(tmp_path):
    private = [ec.generate_private_key(ec.SECP256R1()) for _ in range(3)]
    pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
    traditional, info = serialization.PrivateFormat.TraditionalOpenSSL, serialization.PublicFormat.SubjectPublicKeyInfo
    certificate = self_signed(private[2]).public_bytes(pem)
    nonsense = b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n"
    blocks = [private[0].private_bytes(pem, traditional, plain), private[1].public_key().public_bytes(pem, info)]
    file = tmp_path / "keys"
    file.write_bytes(b"# keys\n".join([*blocks, nonsense, certificate]))
    wanted = [SigningKey(key).verification.id for key in private]
    assert [key.id for key in read_verification_keys(file)] == wanted
    file.write_bytes(nonsense)
    with pytest.raises(ValueError, match="does not contain any valid RSA or ECDSA public keys"):
        read_verification_keys(file)


def self_signed(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "service-account")])
    start = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, start, start + datetime.timedelta(days=1))
    return builder.sign(key, hashes.SHA256())


@pytest.mark.parametrize("claims", [b"", b"x", b"\xff", b"[]", b'{"iss":7}', b"[" * 100_000])
def test_a_token_without_readable_claims_names_no_issuer(claims: bytes) -> None:
    assert issuer_of(f"e30.{base64.urlsafe_b64encode(claims).decode()}.") is None
