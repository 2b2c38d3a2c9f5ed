"""Audit policies: parsing of a Policy, and the level at which a request is audited.

Pure: no I/O, no clock, no randomness.
Source: apiserver/pkg/audit/policy/checker.go, apiserver/pkg/apis/audit/validation.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import msgspec

from bridgehead.apiserver.http.request_info import RequestInfo
from bridgehead.apiserver.http.user import User
from bridgehead.objects.names import check_dns1123_subdomain

REQUEST_RECEIVED, RESPONSE_STARTED, RESPONSE_COMPLETE, PANIC = STAGES = (
    "RequestReceived",
    "ResponseStarted",
    "ResponseComplete",
    "Panic",
)


class Level(IntEnum):
    NONE = 0
    METADATA = 1
    REQUEST = 2
    REQUEST_RESPONSE = 3


LEVELS = {
    "None": Level.NONE,
    "Metadata": Level.METADATA,
    "Request": Level.REQUEST,
    "RequestResponse": Level.REQUEST_RESPONSE,
}


class InvalidPolicy(ValueError):
    """A policy that is refused; the text is one line."""


class _GroupResources(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    group: str = ""
    resources: list[str] = []
    resource_names: list[str] = []


class _Rule(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    level: str = ""
    users: list[str] = []
    user_groups: list[str] = []
    verbs: list[str] = []
    resources: list[_GroupResources] = []
    namespaces: list[str] = []
    non_resource_urls: list[str] = msgspec.field(default_factory=list, name="nonResourceURLs")
    omit_stages: list[str] = []
    omit_managed_fields: bool | None = None


class _Policy(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    metadata: dict[str, Any] = {}
    rules: list[_Rule] = []
    omit_stages: list[str] = []
    omit_managed_fields: bool = False


@dataclass(frozen=True, slots=True)
class Auditing:
    """Level and omissions of a request's events."""

    level: Level
    omit_stages: frozenset[str] = frozenset()
    omit_managed_fields: bool = False


_NOT_AT_ALL = Auditing(Level.NONE)


class AuditPolicy:
    """The rules of a policy. The first one that matches a request counts."""

    def __init__(self, document: Any) -> None:
        """Parse a decoded file. Raises `InvalidPolicy`."""
        policy = _convert(document)
        self._rules = [(rule, _auditing(policy, rule)) for rule in policy.rules]

    def evaluate(self, info: RequestInfo, user: User | None) -> Auditing:
        return next((auditing for rule, auditing in self._rules if _matches(rule, info, user)), _NOT_AT_ALL)


def _auditing(policy: _Policy, rule: _Rule) -> Auditing:
    omits = policy.omit_managed_fields if rule.omit_managed_fields is None else rule.omit_managed_fields
    return Auditing(LEVELS[rule.level], frozenset((*policy.omit_stages, *rule.omit_stages)), omits)


def _matches(rule: _Rule, info: RequestInfo, user: User | None) -> bool:
    if rule.users and (user is None or user.name not in rule.users):
        return False
    if rule.user_groups and (user is None or not set(user.groups).intersection(rule.user_groups)):
        return False
    if rule.verbs and info.verb not in rule.verbs:
        return False
    if rule.namespaces or rule.resources:
        if not info.is_resource or (rule.namespaces and info.namespace not in rule.namespaces):
            return False
        return not rule.resources or any(_covers(resources, info) for resources in rule.resources)
    if rule.non_resource_urls:
        return not info.is_resource and any(_is_below(info.path, url) for url in rule.non_resource_urls)
    return True


def _covers(given: _GroupResources, info: RequestInfo) -> bool:
    if given.group != info.group:
        return False
    if not given.resources:
        return True
    if given.resource_names and info.name not in given.resource_names:
        return False
    names = {"*", info.rule_resource, f"{info.resource}/*"}
    if info.subresource:
        names.add(f"*/{info.subresource}")
    return not names.isdisjoint(given.resources)


def _is_below(path: str, url: str) -> bool:
    return url in ("*", path) or (url.endswith("*") and path.startswith(url.rstrip("*")))


def _convert(document: Any) -> _Policy:
    try:
        policy = msgspec.convert(document, _Policy)
    except msgspec.ValidationError as error:
        raise InvalidPolicy(f"failed decoding: {error}") from error
    if (policy.api_version, policy.kind) != ("audit.k8s.io/v1", "Policy"):
        raise InvalidPolicy(
            "must be of kind Policy and apiVersion audit.k8s.io/v1, "
            f"not {json.dumps(policy.kind)} and {json.dumps(policy.api_version)}"
        )
    problems = [problem for index, rule in enumerate(policy.rules) for problem in _problems(f"rules[{index}]", rule)]
    problems += _stage_problems("omitStages", policy.omit_stages)
    if problems:
        raise InvalidPolicy(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    if not policy.rules:
        raise InvalidPolicy("loaded illegal policy with 0 rules")
    return policy


def _problems(path: str, rule: _Rule) -> Iterator[str]:
    if not rule.level:
        yield f"{path}.level: Required value"
    elif rule.level not in LEVELS:
        known = ", ".join(f'"{level}"' for level in LEVELS)
        yield f"{path}.level: Unsupported value: {json.dumps(rule.level)}: supported values: {known}"
    for index, url in enumerate(rule.non_resource_urls):
        where = f"{path}.nonResourceURLs[{index}]"
        if url != "*" and not url.startswith("/"):
            yield _invalid(where, url, "non-resource URL rules must begin with a '/' character")
        if "*" in url[:-1]:
            yield _invalid(where, url, "non-resource URL wildcards '*' must be the final character of the rule")
    for resources in rule.resources:
        if resources.group and (reasons := list(check_dns1123_subdomain(resources.group))):
            yield _invalid(f"{path}.resources.group", resources.group, ",".join(reasons))
        if resources.resource_names and not resources.resources:
            why = "using resourceNames requires at least one resource"
            yield _invalid(f"{path}.resources.resourceNames", resources.resource_names, why)
    yield from _stage_problems(f"{path}.omitStages", rule.omit_stages)
    if rule.non_resource_urls and (rule.resources or rule.namespaces):
        why = "rules cannot apply to both regular resources and non-resource URLs"
        yield _invalid(f"{path}.nonResourceURLs", rule.non_resource_urls, why)


def _stage_problems(path: str, stages: list[str]) -> Iterator[str]:
    for index, stage in enumerate(stages):
        if stage not in STAGES:
            yield _invalid(f"{path}[{index}]", stage, f"allowed stages are {','.join(STAGES)}")


def _invalid(path: str, value: Any, why: str) -> str:
    return f"{path}: Invalid value: {json.dumps(value, separators=(',', ':'))}: {why}"
