"""Configurations of webhooks, and the reasons why they are refused."""

from __future__ import annotations

from typing import Any

MUTATING = "mutatingwebhookconfigurations.admissionregistration.k8s.io"
VALIDATING = "validatingwebhookconfigurations.admissionregistration.k8s.io"
RULE = {"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}
HOOK = {
    "name": "pods.example.com",
    "clientConfig": {"service": {"namespace": "default", "name": "hook", "path": "/pods"}},
    "rules": [RULE],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}


def config(*hooks: dict[str, Any]) -> dict[str, Any]:
    return {"webhooks": list(hooks)}


def hook(**changes: Any) -> dict[str, Any]:
    """Return a configuration of one webhook that is valid but for `changes`; None removes a field."""
    return config({key: value for key, value in {**HOOK, **changes}.items() if value is not None})


def rule(**changes: Any) -> dict[str, Any]:
    return hook(rules=[{**RULE, **changes}])


def client(**config: Any) -> dict[str, Any]:
    return hook(clientConfig=config)


def service(**changes: Any) -> dict[str, Any]:
    return client(service={**HOOK["clientConfig"]["service"], **changes})  # type: ignore[index]


FORM = "; desired format: https://host[/path]"
SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
DNS1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
H, R = "webhooks[0]", "webhooks[0].rules[0]"
CASES: list[tuple[dict[str, Any], list[str]]] = [
    (config(), []),
    (config(HOOK), []),
    (client(url="https://example.com:8443/a/b"), []),
    (rule(resources=["pods", "pods/status", "*/scale"], operations=["*"], scope="Namespaced"), []),
    (hook(name=""), [f"{H}.name: Required value"]),
    (hook(name="example.com"), [
        f'{H}.name: Invalid value: "example.com": should be a domain with at least three segments separated by dots']),
    (hook(name="A.b.c"), [f'{H}.name: Invalid value: "A.b.c": {SUBDOMAIN}']),
    (config(HOOK, HOOK), ['webhooks[1].name: Duplicate value: "pods.example.com"']),
    (rule(operations=[]), [f"{R}.operations: Required value"]),
    (rule(operations=["*", "CREATE"]), [
        f"{R}.operations: Invalid value: [\"*\",\"CREATE\"]: if '*' is present, must not specify other operations"]),
    (rule(operations=["GET"]), [
        f'{R}.operations[0]: Unsupported value: "GET": supported values: "*", "CONNECT", "CREATE", "DELETE", '
        '"UPDATE"']),
    (rule(apiGroups=[], apiVersions=[], resources=[]), [
        f"{R}.apiGroups: Required value", f"{R}.apiVersions: Required value", f"{R}.resources: Required value"]),
    (rule(apiGroups=["*", "a"], apiVersions=["*", "v1"]), [
        f"{R}.apiGroups: Invalid value: [\"*\",\"a\"]: if '*' is present, must not specify other API groups",
        f"{R}.apiVersions: Invalid value: [\"*\",\"v1\"]: if '*' is present, must not specify other API versions"]),
    (rule(apiVersions=["v1", ""]), [f"{R}.apiVersions[1]: Required value"]),
    (rule(resources=["a/*", "a/b", ""]), [
        f"{R}.resources[1]: Invalid value: \"a/b\": if 'a/*' is present, must not specify a/b",
        f"{R}.resources[2]: Required value"]),
    (rule(resources=["*/b", "a/b"]), [
        f"{R}.resources[1]: Invalid value: \"a/b\": if '*/b' is present, must not specify a/b"]),
    (rule(resources=["*/*", "b"]), [
        f"{R}.resources: Invalid value: [\"*/*\",\"b\"]: if '*/*' is present, must not specify other resources"]),
    (rule(resources=["*", "b"]), [
        f"{R}.resources: Invalid value: [\"*\",\"b\"]: if '*' is present, must not specify other resources without "
        "subresources"]),
    (rule(scope="All"), [
        f'{R}.scope: Unsupported value: "All": supported values: "*", "Cluster", "Namespaced"']),
    (hook(failurePolicy="Never", matchPolicy="Some"), [
        f'{H}.failurePolicy: Unsupported value: "Never": supported values: "Fail", "Ignore"',
        f'{H}.matchPolicy: Unsupported value: "Some": supported values: "Equivalent", "Exact"']),
    (hook(sideEffects=None), [f"{H}.sideEffects: Required value: must specify one of None, NoneOnDryRun"]),
    (hook(sideEffects="Some"), [
        f'{H}.sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"']),
    (hook(timeoutSeconds=31), [
        f"{H}.timeoutSeconds: Invalid value: 31: the timeout value must be between 1 and 30 seconds"]),
    (hook(timeoutSeconds=0), [
        f"{H}.timeoutSeconds: Invalid value: 0: the timeout value must be between 1 and 30 seconds"]),
    (hook(objectSelector={"matchExpressions": [{"key": "a", "operator": "Is"}]}), [
        f'{H}.objectSelector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator']),
    (client(), [f"{H}.clientConfig: Required value: exactly one of url or service is required"]),
    (client(url="https://a", service={}), [
        f"{H}.clientConfig: Required value: exactly one of url or service is required"]),
    (client(url="http://me:pw@a.b/c?d=e#f"), [
        f"{H}.clientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme{FORM}",
        f'{H}.clientConfig.url: Invalid value: "me:pw": user information is not permitted in the URL',
        f'{H}.clientConfig.url: Invalid value: "f": fragments are not permitted in the URL',
        f'{H}.clientConfig.url: Invalid value: "d=e": query parameters are not permitted in the URL']),
    (client(url="https:///a"), [f'{H}.clientConfig.url: Invalid value: "": host must be specified{FORM}']),
    (client(url="https://a:b/"), [
        f"{H}.clientConfig.url: Required value: url must be a valid URL: Port could not be cast to integer value as "
        f"'b'{FORM}"]),
    (client(service={}), [
        f"{H}.clientConfig.service.name: Required value",
        f"{H}.clientConfig.service.namespace: Required value"]),
    (service(port=0, path="a//B"), [
        f"{H}.clientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
        f"{H}.clientConfig.service.path: Invalid value: \"a//B\": must start with a '/'",
        f'{H}.clientConfig.service.path: Invalid value: "a//B": segment[0] may not be empty',
        f'{H}.clientConfig.service.path: Invalid value: "a//B": segment[1] may not be empty',
        f'{H}.clientConfig.service.path: Invalid value: "a//B": segment[2]: {SUBDOMAIN}']),
    (service(path="//"), [
        f'{H}.clientConfig.service.path: Invalid value: "//": segment[0] may not be empty']),
    (hook(admissionReviewVersions=[]), [
        f"{H}.admissionReviewVersions: Required value: must specify one of v1, v1beta1"]),
    (hook(admissionReviewVersions=["v2", "v2", "1"]), [
        f'{H}.admissionReviewVersions[1]: Invalid value: "v2": duplicate version',
        f'{H}.admissionReviewVersions[2]: Invalid value: "1": {DNS1035}',
        f'{H}.admissionReviewVersions: Invalid value: ["v2","v2","1"]: must include at least one of v1, v1beta1']),
    (hook(matchConditions=[{"name": "", "expression": " "}, {"name": "a b", "expression": "true"}]), [
        f"{H}.matchConditions[0].expression: Required value",
        f"{H}.matchConditions[0].name: Required value",
        f"{H}.matchConditions[1].name: Invalid value: \"a b\": name part must consist of alphanumeric characters, '-', "
        "'_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or "
        "'123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"]),
    (hook(matchConditions=[{"name": "a", "expression": "1"}]), [
        f'{H}.matchConditions[0].expression: Invalid value: "1": must evaluate to bool but got int']),
    (hook(matchConditions=[{"name": "a", "expression": "true"}] * 2), [
        f'{H}.matchConditions[1].name: Duplicate value: "a"']),
    (hook(matchConditions=[{"name": f"a{n}", "expression": "true"} for n in range(65)]), [
        f"{H}.matchConditions: Too many: 65: must have at most 64 items"]),
]  # fmt: skip
REFUSALS = {
    VALIDATING: CASES,
    MUTATING: [
        *CASES,
        (hook(reinvocationPolicy="IfNeeded"), []),
        (hook(reinvocationPolicy="Always"), [
            f'{H}.reinvocationPolicy: Unsupported value: "Always": supported values: "IfNeeded", "Never"']),
    ],
}  # fmt: skip
UPDATES = [
    (MUTATING, config(HOOK), hook(sideEffects="Some"), [
        f'{H}.sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun"']),
    (VALIDATING, config(HOOK), hook(timeoutSeconds=3), []),
]  # fmt: skip
