"""The plug-in PodSecurity: admission of pods, of workloads' templates and of namespaces' labels.

The labels of a namespace name the levels that are enforced, audited and warned about. A pod in a namespace without such
labels costs a look at the labels. Source: Kubernetes pod-security-admission/admission/admission.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import msgspec

from bridgehead.apiserver.admission.attributes import CREATE, UPDATE, Attributes, shown_name
from bridgehead.apiserver.admission.chain import Plugin
from bridgehead.apiserver.errors import forbidden, invalid
from bridgehead.apiserver.http.worker import run_long
from bridgehead.apiserver.resource import JsonObject
from bridgehead.storage import Key, Record, Store

from .levels import DEFAULT, PREFIX, PRIVILEGED, LevelVersion, has_policy, is_relaxed, parse_policy

_MAX_PODS = 3000  # of a namespace, which are checked when its label changes

_PODS, _NAMESPACES = "pods", "namespaces"
# Path of the pod template in each workload.
_TEMPLATES: Mapping[str, tuple[str, ...]] = {
    "replicationcontrollers": ("spec", "template"),
    "podtemplates": ("template",),
    "replicasets.apps": ("spec", "template"),
    "deployments.apps": ("spec", "template"),
    "statefulsets.apps": ("spec", "template"),
    "daemonsets.apps": ("spec", "template"),
    "jobs.batch": ("spec", "template"),
    "cronjobs.batch": ("spec", "jobTemplate", "spec", "template"),
}
_IGNORED_SUBRESOURCES = frozenset({"exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status"})
_SECCOMP_POD = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER = "container.seccomp.security.alpha.kubernetes.io/"


@dataclass(frozen=True, slots=True)
class Exemptions:
    """Names of users, namespaces and runtime classes to which no policy applies."""

    users: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()


class PodSecurity(Plugin):
    def __init__(self, store: Store, exemptions: Exemptions | None = None) -> None:
        self._store = store
        self._exemptions = exemptions or Exemptions()

    def handles(self, attributes: Attributes) -> bool:
        resource, subresource = attributes.resource.id, attributes.subresource
        if attributes.operation not in (CREATE, UPDATE):
            return False
        if resource == _PODS:
            return subresource not in _IGNORED_SUBRESOURCES and has_policy(self._labels(attributes.namespace))
        if subresource:
            return False
        return resource == _NAMESPACES or (resource in _TEMPLATES and has_policy(self._labels(attributes.namespace)))

    async def validate(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        if attributes.resource.id == _NAMESPACES:
            await self._validate_namespace(attributes, obj, old)
            return
        if attributes.user.name in self._exemptions.users:
            attributes.annotations[f"{PREFIX}exempt"] = "user"
        elif attributes.namespace in self._exemptions.namespaces:
            attributes.annotations[f"{PREFIX}exempt"] = "namespace"
        elif attributes.resource.id == _PODS:
            if not old or _is_significant(obj, old):
                self._validate_pod(attributes, obj.get("metadata", {}), obj.get("spec", {}), is_enforced=True)
        else:
            template = obj
            for key in _TEMPLATES[attributes.resource.id]:
                template = template.get(key, {})
            if template:
                spec = template.get("spec", {})
                self._validate_pod(attributes, template.get("metadata", {}), spec, is_enforced=False)

    def _validate_pod(
        self, attributes: Attributes, metadata: JsonObject, spec: JsonObject, *, is_enforced: bool
    ) -> None:
        """Refuse a pod, or warn about it. Templates are not refused (`is_enforced` False): their pods will be."""
        from .evaluation import describe, evaluate

        annotations = attributes.annotations
        if spec.get("runtimeClassName") in self._exemptions.runtime_classes:
            annotations[f"{PREFIX}exempt"] = "runtimeClass"
            return
        policy = parse_policy(self._labels(attributes.namespace))
        if policy.errors:
            texts = [f"{error.field}: {error.message}" for error in policy.errors]
            shown = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
            annotations[f"{PREFIX}error"] = f"Failed to parse policy: {shown}"
        results = {wanted: evaluate(wanted, metadata, spec) for wanted in {policy.audit, policy.warn}}
        if policy.audit.level != PRIVILEGED and results[policy.audit]:
            annotations[f"{PREFIX}audit-violations"] = (
                f'would violate PodSecurity "{policy.audit}": {describe(results[policy.audit])}'
            )
        if is_enforced:
            annotations[f"{PREFIX}enforce-policy"] = str(policy.enforce)
            violations = results.get(policy.enforce) or evaluate(policy.enforce, metadata, spec)
            if violations:
                why = f'violates PodSecurity "{policy.enforce}": {describe(violations)}'
                raise forbidden(attributes.resource, attributes.name or shown_name({"metadata": metadata}), why)
        if results[policy.warn]:
            text = f'would violate PodSecurity "{policy.warn}": {describe(results[policy.warn])}'
            attributes.warnings.append(text)

    async def _validate_namespace(self, attributes: Attributes, obj: JsonObject, old: JsonObject) -> None:
        """Check the labels of a namespace, and warn about its pods that a new level would refuse."""
        labels, before = ((one.get("metadata", {}).get("labels") or {}) for one in (obj, old))
        if not has_policy(labels) and not has_policy(before):
            return
        policy, old_policy = parse_policy(labels), parse_policy(before) if old else DEFAULT
        if policy.errors and policy.errors != old_policy.errors:
            raise invalid("", "Namespace", obj["metadata"].get("name", ""), policy.errors)
        if not old:
            return
        name = obj["metadata"]["name"]
        if policy.enforce != old_policy.enforce and not is_relaxed(policy.enforce, old_policy.enforce):
            if name in self._exemptions.namespaces:
                return
            attributes.warnings += await self._warnings_about_pods(name, policy.enforce)

    async def _warnings_about_pods(self, namespace: str, wanted: LevelVersion) -> list[str]:
        records = self._store.list(_PODS, namespace)
        checked = records[:_MAX_PODS]
        size = sum(len(record.value) for record in checked)
        groups = await run_long(size, partial(_group_violations, checked, wanted, self._exemptions.runtime_classes))
        warnings = []
        if len(checked) < len(records):
            warnings.append(
                "new PodSecurity enforce level only checked against the first "
                f"{len(checked)} of {len(records)} existing pods"
            )
        if groups:
            warnings.append(
                f'existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{wanted}"'
            )
        return warnings + sorted(_describe_group(pods, reasons) for reasons, pods in groups.items())

    def _labels(self, namespace: str) -> Mapping[str, str]:
        record = self._store.get(Key(_NAMESPACES, "", namespace))
        return {} if record is None else record.facts.labels


def _group_violations(
    records: Sequence[Record], wanted: LevelVersion, exempt_classes: frozenset[str]
) -> dict[str, list[str]]:
    """Return the names of violating pods, by what they violate."""
    from .evaluation import evaluate, summarize

    groups: dict[str, list[str]] = {}
    for record in records:
        pod = msgspec.json.decode(record.value)
        spec = pod.get("spec", {})
        if spec.get("runtimeClassName") in exempt_classes:
            continue
        violations = evaluate(wanted, pod["metadata"], spec)
        if violations:
            groups.setdefault(summarize(violations), []).append(record.key.name)
    return groups


def _describe_group(pods: list[str], reasons: str) -> str:
    others = len(pods) - 1
    if not others:
        return f"{pods[0]}: {reasons}"
    return f"{min(pods)} (and {others} other {'pod' if others == 1 else 'pods'}): {reasons}"


def _is_significant(pod: JsonObject, old: JsonObject) -> bool:
    """Whether an update changes something that the checks look at: images, seccomp annotations, new containers."""
    annotations, before = (one["metadata"].get("annotations") or {} for one in (pod, old))
    if annotations.get(_SECCOMP_POD) != before.get(_SECCOMP_POD):
        return True
    for kind in ("containers", "initContainers"):
        if len(pod["spec"].get(kind, ())) != len(old["spec"].get(kind, ())):
            return True
    known = {container.get("name"): container for container in _all_containers(old)}
    for container in _all_containers(pod):
        previous = known.get(container.get("name"))
        key = _SECCOMP_CONTAINER + str(container.get("name", ""))
        if previous is None or container.get("image") != previous.get("image"):
            return True
        if annotations.get(key) != before.get(key):
            return True
    return False


def _all_containers(pod: JsonObject) -> Iterator[JsonObject]:
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        yield from pod["spec"].get(kind, ())
