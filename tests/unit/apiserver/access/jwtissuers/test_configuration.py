# ruff: noqa: E501
"""AuthenticationConfiguration: validation, and users from claims."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import yaml

from bridgehead.apiserver.access.jwtissuers.configuration import parse
from bridgehead.apiserver.access.jwtissuers.forms import Anonymous, AnonymousCondition, JwtAuthenticator
from bridgehead.apiserver.access.jwtissuers.mapping import Mapper
from bridgehead.apiserver.http.user import InvalidCredentials

HEAD = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration"}
ISSUER: dict[str, Any] = {"url": "https://issuer.example.com", "audiences": ["cluster"]}
USERNAME = {"username": {"claim": "sub", "prefix": ""}}
OWN = "https://kubernetes.default.svc.cluster.local"


def file(*authenticators: dict[str, Any], **more: Any) -> bytes:
    return yaml.safe_dump({**HEAD, "jwt": list(authenticators), **more}).encode()


def one(issuer: dict[str, Any] = ISSUER, mappings: dict[str, Any] = USERNAME, **more: Any) -> dict[str, Any]:
    return {"issuer": issuer, "claimMappings": mappings, **more}


def test_a_complete_file_is_valid():
    text = file(
        one(
            {
                **ISSUER,
                "discoveryURL": "https://other.example.com/x",
                "audiences": ["a", "b"],
                "audienceMatchPolicy": "MatchAny",
            },
            {
                "username": {"expression": "claims.email"},
                "groups": {"claim": "groups", "prefix": "oidc:"},
                "uid": {"claim": "sub"},
                "extra": [{"key": "example.com/tenant", "valueExpression": "claims.tenant"}],
            },
            claimValidationRules=[
                {"claim": "hd", "requiredValue": "x"},
                {"expression": "claims.email_verified == true"},
            ],
            userValidationRules=[{"expression": "!user.username.startsWith('system:')", "message": "reserved"}],
        ),
        anonymous={"enabled": True, "conditions": [{"path": "/livez"}]},
    )
    configuration = parse(text, (OWN,))
    assert configuration.anonymous is not None
    assert [configuration.anonymous.allows(path) for path in ("/livez", "/api")] == [True, False]
    assert parse(file(), ()).jwt == ()


def test_anonymous_requests_are_allowed_for_all_or_some_paths():
    assert Anonymous(enabled=True).allows("/api")
    assert not Anonymous().allows("/livez")
    assert not Anonymous(enabled=True, conditions=(AnonymousCondition(path="/livez"),)).allows("/livez/ping")


P = "jwt[0].issuer"
M = "jwt[0].claimMappings"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"{", "did not find expected node content"),
        (b"a: [1", "expected"),
        (b"[]", "strict decoding error: Expected `object`, got `array`"),
        (file(x=1), "strict decoding error: Object contains unknown field `x`"),
        (
            b"{apiVersion: v1, kind: AuthenticationConfiguration}",
            "expected kind AuthenticationConfiguration of apiVersion",
        ),
        (file(one({"audiences": ["a"]})), f"{P}.url: Required value"),
        (
            file(one({**ISSUER, "url": "http://a?b#c"})),
            f'{P}.url: Invalid value: "http://a?b#c": URL scheme must be https',
        ),
        (file(one({**ISSUER, "url": "http://a?b#c"})), "URL must not contain a query"),
        (file(one({**ISSUER, "url": "http://a?b#c"})), "URL must not contain a fragment"),
        (file(one({**ISSUER, "url": "https://a:b@c"})), "URL must not contain a username or password"),
        (file(one({**ISSUER, "url": "https://[a"})), "Invalid IPv6 URL"),
        (file(one({**ISSUER, "url": OWN})), f"URL must not overlap with disallowed issuers: [{OWN}]"),
        (file(one({**ISSUER, "discoveryURL": ISSUER["url"] + "/"})), "discoveryURL must be different from URL"),
        (file(one({"url": "https://a"})), f"{P}.audiences: Required value: at least one {P}.audiences is required"),
        (
            file(one({**ISSUER, "audiences": ["", "a", "a"], "audienceMatchPolicy": "MatchAny"})),
            f'[{P}.audiences[0]: Required value, {P}.audiences[2]: Duplicate value: "a"]',
        ),
        (file(one({**ISSUER, "audiences": ["a", "b"]})), "audienceMatchPolicy must be MatchAny for multiple audiences"),
        (
            file(one({**ISSUER, "audienceMatchPolicy": "All"})),
            "audienceMatchPolicy must be empty or MatchAny for single audience",
        ),
        (file(one({**ISSUER, "certificateAuthority": "x"})), 'certificateAuthority: Invalid value: "<omitted>"'),
        (file(one({**ISSUER, "egressSelectorType": "etcd"})), "egress selector must be either controlplane or cluster"),
        (file(one(), one()), 'jwt[1].issuer.url: Duplicate value: "https://issuer.example.com"'),
        (file(*[one()] * 65), "jwt: Too many: 65: must have at most 64 items"),
        (file(one(mappings={})), f"{M}.username: Required value: claim or expression is required"),
        (
            file(one(mappings={"username": {"claim": "a"}})),
            f"{M}.username.prefix: Required value: prefix is required when claim is set",
        ),
        (
            file(one(mappings={"username": {"claim": "a", "expression": "claims.a"}})),
            "claim and expression can't both be set",
        ),
        (
            file(one(mappings={"username": {"expression": "claims.a", "prefix": "b"}})),
            "may not be specified when expression is set",
        ),
        (
            file(one(mappings={"username": {"expression": "claims."}})),
            f'{M}.username.expression: Invalid value: "claims."',
        ),
        (
            file(one(mappings={**USERNAME, "extra": [{"key": "a", "valueExpression": "'a'"}]})),
            "must be a domain-prefixed path",
        ),
        (file(one(mappings={**USERNAME, "extra": [{"valueExpression": "'a'"}]})), "extra[0].key: Required value"),
        (file(one(mappings={**USERNAME, "extra": [{"key": "a.io/B", "valueExpression": "'a'"}]})), "must be lowercase"),
        (
            file(one(mappings={**USERNAME, "extra": [{"key": "a.k8s.io/b", "valueExpression": "'a'"}]})),
            "are reserved for Kubernetes use",
        ),
        (file(one(mappings={**USERNAME, "extra": [{"key": "a.io/b"}]})), "extra[0].valueExpression: Required value"),
        (
            file(one(mappings={**USERNAME, "extra": [{"key": "a.io/b", "valueExpression": "'a'"}] * 2})),
            'extra[1].key: Duplicate value: "a.io/b"',
        ),
        (
            file(one(claimValidationRules=[{}])),
            "claimValidationRules[0]: Required value: claim or expression is required",
        ),
        (
            file(one(claimValidationRules=[{"claim": "a", "expression": "true"}])),
            "claim and expression can't both be set",
        ),
        (file(one(claimValidationRules=[{"claim": "a", "message": "b"}])), "may not be specified when claim is set"),
        (file(one(claimValidationRules=[{"claim": "a"}] * 2)), 'claimValidationRules[1].claim: Duplicate value: "a"'),
        (
            file(one(claimValidationRules=[{"expression": "true", "requiredValue": "b"}])),
            "may not be specified when expression is set",
        ),
        (
            file(one(claimValidationRules=[{"expression": "true"}] * 2)),
            'claimValidationRules[1].expression: Duplicate value: "true"',
        ),
        (file(one(claimValidationRules=[{"expression": "'a'"}])), "must evaluate to bool"),
        (file(one(userValidationRules=[{}])), "userValidationRules[0].expression: Required value"),
        (
            file(one(userValidationRules=[{"expression": "true"}] * 2)),
            'userValidationRules[1].expression: Duplicate value: "true"',
        ),
        (file(one(userValidationRules=[{"expression": "user.name == 'a'"}])), "undefined field 'name'"),
        (file(one(mappings={"username": {"expression": "claims.email"}})), "claims.email_verified must be used in"),
        (file(one(claimValidationRules=[{"expression": "claims.email"}])), "must evaluate to bool"),
        (file(anonymous={"conditions": [{"path": "/"}]}), "enabled should be set to true when conditions are defined"),
    ],
)
def test_invalid_files_are_refused(text, message):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the message is compared below
        parse(text, (OWN,))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value) or "ERROR: <input>" in str(caught.value)


def mapper(**authenticator: Any) -> Mapper:
    return Mapper(msgspec.convert({"issuer": ISSUER, **authenticator}, JwtAuthenticator))


CLAIMS = {
    "sub": "42",
    "email": "a@example.com",
    "email_verified": True,
    "groups": ["dev", "ops"],
    "role": "admin",
    "jti": "j",
    "n": 5,
    "hd": "x",
}


def test_claims_become_a_user():
    user = mapper(claimMappings={
        "username": {"claim": "sub", "prefix": "oidc:"}, "groups": {"claim": "groups", "prefix": "g:"}, "uid": {"claim": "sub"},
    }).user(CLAIMS)  # fmt: skip
    assert (user.name, user.uid) == ("oidc:42", "42")
    assert user.groups == ("g:dev", "g:ops", "system:authenticated")
    assert user.extra == {"authentication.kubernetes.io/credential-id": ("JTI=j",)}
    one_group = mapper(claimMappings={**USERNAME, "groups": {"claim": "role", "prefix": ""}}).user(CLAIMS)
    assert one_group.groups == ("admin", "system:authenticated")


def test_expressions_become_a_user():
    user = mapper(claimMappings={
        "username": {"expression": "claims.email.split('@')[0]"},
        "groups": {"expression": "claims.groups.map(g, 'x:' + g)"},
        "uid": {"expression": "'u' + claims.sub"},
        "extra": [
            {"key": "a.io/role", "valueExpression": "claims.role"},
            {"key": "a.io/none", "valueExpression": "has(claims.missing) ? claims.missing : ''"},
        ],
    }).user({key: value for key, value in CLAIMS.items() if key != "jti"})  # fmt: skip
    assert (user.name, user.uid, user.groups) == ("a", "u42", ("x:dev", "x:ops", "system:authenticated"))
    assert user.extra == {"a.io/role": ("admin",)}


RESERVED = {"expression": "!user.username.startsWith('4')", "message": "it is reserved"}
EMAIL = {"username": {"claim": "email", "prefix": ""}}


@pytest.mark.parametrize(
    ("authenticator", "claims", "message"),
    [
        ({"claimMappings": USERNAME}, {}, "oidc: the username is empty"),
        ({"claimMappings": {"username": {"claim": "n", "prefix": ""}}}, CLAIMS, "oidc: username is not a string"),
        ({"claimMappings": {"username": {"claim": "groups", "prefix": ""}}}, CLAIMS, "oidc: username is not a string"),
        ({"claimMappings": {**USERNAME, "groups": {"claim": "n", "prefix": ""}}}, CLAIMS, "oidc: groups is not a string or a list of strings"),
        ({"claimMappings": {**USERNAME, "groups": {"expression": "[1]"}}}, CLAIMS, "oidc: groups is not a string or a list of strings"),
        ({"claimMappings": {"username": {"expression": "claims.missing"}}}, CLAIMS, "no such key: missing"),
        ({"claimMappings": EMAIL}, {**CLAIMS, "email_verified": False}, "oidc: email not verified"),
        ({"claimMappings": USERNAME, "claimValidationRules": [{"claim": "x", "requiredValue": "y"}]}, CLAIMS, "oidc: required claim x not present in ID token"),
        ({"claimMappings": USERNAME, "claimValidationRules": [{"claim": "hd", "requiredValue": "y"}]}, CLAIMS, "oidc: required claim hd value does not match"),
        ({"claimMappings": USERNAME, "claimValidationRules": [{"expression": "claims.n > 5", "message": "too few"}]}, CLAIMS, "validation expression 'claims.n > 5' failed: too few"),
        ({"claimMappings": USERNAME, "userValidationRules": [RESERVED]}, CLAIMS, "failed: it is reserved"),
    ],
)  # fmt: skip
def test_users_that_break_a_rule_are_refused(authenticator, claims, message):
    with pytest.raises(InvalidCredentials) as caught:
        mapper(**authenticator).user(claims)
    assert message in str(caught.value)


def test_rules_that_hold_let_users_pass():
    rules = {
        "claimValidationRules": [
            {"claim": "hd", "requiredValue": "x"},
            {"expression": "claims.email_verified == true"},
        ],
        "userValidationRules": [{"expression": "user.groups.all(g, g != 'system:masters') && user.uid == ''"}],
    }
    assert mapper(claimMappings=EMAIL, **rules).user(CLAIMS).name == "a@example.com"
