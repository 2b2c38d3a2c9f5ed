"""Parsing of an AuthenticationConfiguration, its defaults and validation.

Source: Kubernetes apiserver/pkg/apis/apiserver/validation/validation.go.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import urlsplit

import msgspec

from bridgehead.apiserver.field import FieldError
from bridgehead.apiserver.resources.shared import field
from bridgehead.objects.names import check_dns1123_subdomain

from .forms import (
    ClaimMappings,
    ClaimRule,
    Configuration,
    Issuer,
    JwtAuthenticator,
    UserRule,
)
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
    if errors := validate(configuration, own_issuers):
        texts = [f"{error.field}: {error.message}" for error in errors]
        raise ValueError(texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]")
    return configuration


def validate(configuration: Configuration, own_issuers: Collection[str]) -> list[FieldError]:
    """Return the errors of a configuration. `own_issuers` are those of service account tokens."""
    if len(configuration.jwt) > _MAX_ISSUERS:
        return [field.too_many("jwt", len(configuration.jwt), _MAX_ISSUERS)]
    errors = []
    urls: set[str] = set()
    discovery_urls: set[str] = set()
    for index, one in enumerate(configuration.jwt):
        path = f"jwt[{index}]"
        errors += _validate_issuer(f"{path}.issuer", one.issuer, own_issuers)
        errors += _validate_claim_rules(f"{path}.claimValidationRules", one.claim_validation_rules)
        errors += _validate_mappings(f"{path}.claimMappings", one.claim_mappings)
        errors += _check_email(f"{path}.claimMappings", one)
        errors += _validate_user_rules(f"{path}.userValidationRules", one.user_validation_rules)
        for name, url, seen in (
            ("url", one.issuer.url, urls),
            ("discoveryURL", one.issuer.discovery_url, discovery_urls),
        ):
            if url and url in seen:
                errors.append(field.duplicate(f"{path}.issuer.{name}", url))
            seen.add(url)
    anonymous = configuration.anonymous
    if anonymous is not None and not anonymous.enabled and anonymous.conditions:
        given = [{"path": one.path} for one in anonymous.conditions]
        errors.append(
            field.invalid("anonymous.conditions", given, "enabled should be set to true when conditions are defined")
        )
    return errors


def _validate_issuer(path: str, issuer: Issuer, own_issuers: Collection[str]) -> list[FieldError]:
    errors = _validate_url(f"{path}.url", issuer.url, own_issuers) if issuer.url else [field.required(f"{path}.url")]
    if issuer.discovery_url:
        if issuer.url.rstrip("/") == issuer.discovery_url.rstrip("/"):
            why = "discoveryURL must be different from URL"
            errors.append(field.invalid(f"{path}.discoveryURL", issuer.discovery_url, why))
        errors += _validate_url(f"{path}.discoveryURL", issuer.discovery_url, ())
    audiences, policy = issuer.audiences, issuer.audience_match_policy
    if not audiences:
        return [*errors, field.required(f"{path}.audiences", f"at least one {path}.audiences is required")]
    for index, audience in enumerate(audiences):
        if not audience:
            errors.append(field.required(f"{path}.audiences[{index}]"))
        if audience in audiences[:index]:
            errors.append(field.duplicate(f"{path}.audiences[{index}]", audience))
    if len(audiences) > 1 and policy != "MatchAny":
        why = "audienceMatchPolicy must be MatchAny for multiple audiences"
        errors.append(field.invalid(f"{path}.audienceMatchPolicy", policy, why))
    elif policy not in ("", "MatchAny"):
        why = "audienceMatchPolicy must be empty or MatchAny for single audience"
        errors.append(field.invalid(f"{path}.audienceMatchPolicy", policy, why))
    if issuer.certificate_authority and "-----BEGIN CERTIFICATE-----" not in issuer.certificate_authority:
        why = "data does not contain any valid RSA or ECDSA certificates"
        errors.append(field.invalid(f"{path}.certificateAuthority", "<omitted>", why))
    if issuer.egress_selector_type not in ("", "controlplane", "cluster"):
        why = "egress selector must be either controlplane or cluster"
        errors.append(field.invalid(f"{path}.egressSelectorType", issuer.egress_selector_type, why))
    return errors


def _validate_url(path: str, url: str, disallowed: Collection[str]) -> list[FieldError]:
    errors = []
    if url in disallowed:
        why = f"URL must not overlap with disallowed issuers: [{' '.join(sorted(disallowed))}]"
        errors.append(field.invalid(path, url, why))
    try:
        parts = urlsplit(url)
    except ValueError as error:
        return [*errors, field.invalid(path, url, str(error))]
    for is_wrong, why in (
        (parts.scheme != "https", "URL scheme must be https"),
        (parts.username is not None, "URL must not contain a username or password"),
        (parts.query, "URL must not contain a query"),
        (parts.fragment, "URL must not contain a fragment"),
    ):
        if is_wrong:
            errors.append(field.invalid(path, url, why))
    return errors


def _validate_claim_rules(path: str, rules: tuple[ClaimRule, ...]) -> list[FieldError]:
    errors = []
    for index, rule in enumerate(rules):
        at, earlier = f"{path}[{index}]", rules[:index]
        if rule.claim and rule.expression:
            errors.append(field.invalid(at, rule.claim, "claim and expression can't both be set"))
        elif not rule.claim and not rule.expression:
            errors.append(field.required(at, "claim or expression is required"))
        elif rule.claim:
            if rule.message:
                errors.append(field.invalid(f"{at}.message", rule.message, "may not be specified when claim is set"))
            if any(one.claim == rule.claim for one in earlier):
                errors.append(field.duplicate(f"{at}.claim", rule.claim))
        else:
            if rule.required_value:
                why = "may not be specified when expression is set"
                errors.append(field.invalid(f"{at}.requiredValue", rule.required_value, why))
            if any(one.expression == rule.expression for one in earlier):
                errors.append(field.duplicate(f"{at}.expression", rule.expression))
            else:
                errors += _check_expression(f"{at}.expression", rule.expression, is_rule=True)
    return errors


def _validate_mappings(path: str, mappings: ClaimMappings) -> list[FieldError]:
    errors = []
    for name, mapping in (("username", mappings.username), ("groups", mappings.groups), ("uid", mappings.uid)):
        at = f"{path}.{name}"
        if mapping.claim and mapping.expression:
            errors.append(field.invalid(at, "", "claim and expression can't both be set"))
        elif mapping.expression:
            if mapping.prefix is not None:
                why = "may not be specified when expression is set"
                errors.append(field.invalid(f"{at}.prefix", mapping.prefix, why))
            errors += _check_expression(f"{at}.expression", mapping.expression)
        elif mapping.claim:
            if mapping.prefix is None and name != "uid":
                why = "prefix is required when claim is set. It can be set to an empty string to disable prefixing"
                errors.append(field.required(f"{at}.prefix", why))
        elif name == "username":
            errors.append(field.required(at, "claim or expression is required"))
    for index, extra in enumerate(mappings.extra):
        at = f"{path}.extra[{index}]"
        errors += _check_key(f"{at}.key", extra.key)
        if any(one.key == extra.key for one in mappings.extra[:index]):
            errors.append(field.duplicate(f"{at}.key", extra.key))
        elif not extra.value_expression:
            errors.append(field.required(f"{at}.valueExpression"))
        else:
            errors += _check_expression(f"{at}.valueExpression", extra.value_expression)
    return errors


def _check_email(path: str, authenticator: JwtAuthenticator) -> list[FieldError]:
    """Require a use of `claims.email_verified` where the name is made of `claims.email`."""
    mappings = authenticator.claim_mappings
    username = mappings.username.expression
    if not _EMAIL.search(username):
        return []
    others = [one.value_expression for one in mappings.extra]
    others += [rule.expression for rule in authenticator.claim_validation_rules]
    if any(_EMAIL_VERIFIED.search(text) for text in (username, *others)):
        return []
    why = (
        "claims.email_verified must be used in claimMappings.username.expression or "
        "claimMappings.extra[*].valueExpression or claimValidationRules[*].expression when claims.email is used in "
        "claimMappings.username.expression"
    )
    return [field.invalid(f"{path}.username.expression", username, why)]


def _check_key(path: str, key: str) -> list[FieldError]:
    if not key:
        return [field.required(path)]
    domain, slash, rest = key.partition("/")
    if not slash or not rest:
        return [field.invalid(path, key, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    errors = field.invalid_for(path, domain, check_dns1123_subdomain(domain))
    if key != key.lower():
        errors.append(field.invalid(path, key, "must be lowercase"))
    if any(f".{domain}".endswith(reserved) for reserved in (".kubernetes.io", ".k8s.io")):
        why = "k8s.io, kubernetes.io and their subdomains are reserved for Kubernetes use"
        errors.append(field.invalid(path, key, why))
    return errors


def _validate_user_rules(path: str, rules: tuple[UserRule, ...]) -> list[FieldError]:
    errors = []
    for index, rule in enumerate(rules):
        at = f"{path}[{index}].expression"
        if not rule.expression:
            errors.append(field.required(at))
        elif any(one.expression == rule.expression for one in rules[:index]):
            errors.append(field.duplicate(at, rule.expression))
        else:
            errors += _check_expression(at, rule.expression, is_rule=True, is_of_user=True)
    return errors


def _check_expression(path: str, text: str, *, is_rule: bool = False, is_of_user: bool = False) -> list[FieldError]:
    try:
        (compile_user if is_of_user else compile_claims)(text, is_rule=is_rule)
    except CompileError as error:
        return [field.invalid(path, text, str(error))]
    return []
