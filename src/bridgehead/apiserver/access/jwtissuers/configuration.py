"""Parsing of an AuthenticationConfiguration, its defaults and validation.

Source: Kubernetes apiserver/pkg/apis/apiserver/validation/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import urlsplit

import msgspec

from bridgehead.apiserver.field import Field
from bridgehead.objects.names import check_dns1123_subdomain

from .forms import Configuration
from .mapping import CompileError, compile_claims, compile_user

_KIND = "AuthenticationConfiguration"
_VERSIONS = tuple(f"apiserver.config.k8s.io/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
_MAX_ISSUERS = 64
_EMAIL = re.compile(r"\bclaims\s*\.\s*\??\s*email\b")
_EMAIL_VERIFIED = re.compile(r"\bclaims\s*\.\s*\??\s*email_verified\b")


def parse(text: bytes, own_issuers: Collection[str]) -> Configuration:
    """Parse and validate a file. Raises ValueError with a one-line message."""
    from bridgehead.yaml_loader import load

    try:
        configuration = msgspec.convert(load(text), Configuration)
    except msgspec.ValidationError as error:
        raise ValueError(f"strict decoding error: {error}") from error
    if configuration.kind != _KIND or configuration.api_version not in _VERSIONS:
        raise ValueError(f"expected kind {_KIND} of apiVersion {_VERSIONS[0]}")
    root = Field(msgspec.to_builtins(configuration))
    _validate(root, own_issuers)
    if root.errors:
        texts = [f"{error.field}: {error.message}" for error in root.errors]
        raise ValueError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return configuration


def _validate(configuration: Field, own_issuers: Collection[str]) -> None:
    issuers, anonymous = configuration.at("jwt"), configuration.at("anonymous")
    if not issuers.must_have_at_most(_MAX_ISSUERS):
        return
    urls: set[str] = set()
    discovery_urls: set[str] = set()
    for one in issuers.each():
        issuer = one.at("issuer")
        _validate_issuer(issuer, own_issuers)
        _validate_claim_rules(one.at("claimValidationRules"))
        _validate_mappings(one.at("claimMappings"))
        _validate_email(one)
        _validate_user_rules(one.at("userValidationRules"))
        if url := issuer.at("url"):
            url.must_not_repeat(urls)
        if discovery_url := issuer.at("discoveryURL"):
            discovery_url.must_not_repeat(discovery_urls)
    conditions = anonymous.at("conditions")
    if conditions and not anonymous.get("enabled"):
        conditions.invalid("enabled should be set to true when conditions are defined")


def _validate_issuer(issuer: Field, own_issuers: Collection[str]) -> None:
    url, discovery_url, audiences = issuer.at("url"), issuer.at("discoveryURL"), issuer.at("audiences")
    if url.must_be_set():
        _validate_url(url, own_issuers)
    if discovery_url:
        if url.value.rstrip("/") == discovery_url.value.rstrip("/"):
            discovery_url.invalid("discoveryURL must be different from URL")
        _validate_url(discovery_url, ())
    if not audiences.must_be_set(f"at least one {audiences.path} is required"):
        return
    seen: set[str] = set()
    for audience in audiences.each():
        audience.must_be_set()
        audience.must_not_repeat(seen)
    policy = issuer.at("audienceMatchPolicy")
    if len(audiences.value) > 1 and policy.value != "MatchAny":
        policy.invalid("audienceMatchPolicy must be MatchAny for multiple audiences")
    elif policy.value not in ("", "MatchAny"):
        policy.invalid("audienceMatchPolicy must be empty or MatchAny for single audience")
    authority, selector = issuer.at("certificateAuthority"), issuer.at("egressSelectorType")
    if authority and "-----BEGIN CERTIFICATE-----" not in authority.value:
        authority.showing("<omitted>").invalid("data does not contain any valid RSA or ECDSA certificates")
    if selector.value not in ("", "controlplane", "cluster"):
        selector.invalid("egress selector must be either controlplane or cluster")


def _validate_url(url: Field, disallowed: Collection[str]) -> None:
    url.must_not_be_in(disallowed, f"URL must not overlap with disallowed issuers: [{' '.join(sorted(disallowed))}]")
    try:
        parts = urlsplit(url.value)
    except ValueError as error:
        url.invalid(str(error))
        return
    for is_wrong, why in (
        (parts.scheme != "https", "URL scheme must be https"),
        (parts.username is not None, "URL must not contain a username or password"),
        (parts.query, "URL must not contain a query"),
        (parts.fragment, "URL must not contain a fragment"),
    ):
        if is_wrong:
            url.invalid(why)


def _validate_claim_rules(rules: Field) -> None:
    claims: set[str] = set()
    expressions: set[str] = set()
    for rule in rules.each():
        claim, expression = rule.at("claim"), rule.at("expression")
        message, required_value = rule.at("message"), rule.at("requiredValue")
        if claim and expression:
            rule.showing(claim.value).invalid("claim and expression can't both be set")
        elif claim:
            if message:
                message.invalid("may not be specified when claim is set")
            if claim.value in claims:
                claim.duplicate()
        elif expression:
            if required_value:
                required_value.invalid("may not be specified when expression is set")
            if expression.value in expressions:
                expression.duplicate()
            else:
                _validate_expression(expression, is_rule=True)
        else:
            rule.required("claim or expression is required")
        claims.add(claim.value)
        expressions.add(expression.value)


def _validate_mappings(mappings: Field) -> None:
    for name in ("username", "groups", "uid"):
        mapping = mappings.at(name)
        claim, expression, prefix = mapping.at("claim"), mapping.at("expression"), mapping.at("prefix")
        if claim and expression:
            mapping.showing("").invalid("claim and expression can't both be set")
        elif expression:
            if prefix.value is not None:
                prefix.invalid("may not be specified when expression is set")
            _validate_expression(expression)
        elif claim:
            if prefix.value is None and name != "uid":
                prefix.required(
                    "prefix is required when claim is set. It can be set to an empty string to disable prefixing"
                )
        elif name == "username":
            mapping.required("claim or expression is required")
    keys: set[str] = set()
    for extra in mappings.at("extra").each():
        key, expression = extra.at("key"), extra.at("valueExpression")
        _validate_key(key)
        if key.must_not_repeat(keys) and expression.must_be_set():
            _validate_expression(expression)


def _validate_email(issuer: Field) -> None:
    """Require a use of `claims.email_verified` where the name is made of `claims.email`."""
    mappings = issuer.at("claimMappings")
    username = mappings.at("username").at("expression")
    if not _EMAIL.search(username.value):
        return
    others = [one["valueExpression"] for one in mappings.get("extra")]
    others += [rule["expression"] for rule in issuer.get("claimValidationRules")]
    if not any(_EMAIL_VERIFIED.search(text) for text in (username.value, *others)):
        username.invalid(
            "claims.email_verified must be used in claimMappings.username.expression or "
            "claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in "
            "claimMappings.username.expression"
        )


def _validate_key(key: Field) -> None:
    if not key.must_be_set():
        return
    domain, slash, rest = key.value.partition("/")
    if not slash or not rest:
        key.invalid('must be a domain-prefixed path (such as "acme.io/foo")')
        return
    key.showing(domain).must_pass(check_dns1123_subdomain)
    if key.value != key.value.lower():
        key.invalid("must be lowercase")
    if f".{domain}".endswith((".kubernetes.io", ".k8s.io")):
        key.invalid("k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use")


def _validate_user_rules(rules: Field) -> None:
    expressions: set[str] = set()
    for rule in rules.each():
        expression = rule.at("expression")
        if expression.must_be_set() and expression.must_not_repeat(expressions):
            _validate_expression(expression, is_rule=True, is_of_user=True)


def _validate_expression(expression: Field, *, is_rule: bool = False, is_of_user: bool = False) -> None:
    try:
        (compile_user if is_of_user else compile_claims)(expression.value, is_rule=is_rule)
    except CompileError as error:
        expression.invalid(str(error))
