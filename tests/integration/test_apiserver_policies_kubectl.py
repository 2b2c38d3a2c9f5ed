"""Admission policies with the real kubectl: what users see of policies, refusals, warnings and changes."""

from __future__ import annotations

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.needs("kubectl")]

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: demo-policy.example.com}
spec:
  failurePolicy: Fail
  paramKind: {apiVersion: v1, kind: ConfigMap}
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  validations:
  - expression: object.spec.replicas <= int(params.data.maxReplicas)
    messageExpression: "'object.spec.replicas must be no greater than ' + params.data.maxReplicas"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: demo-binding.example.com}
spec:
  policyName: demo-policy.example.com
  validationActions: [Deny]
  paramRef: {name: limits, namespace: default, parameterNotFoundAction: Allow}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: warning.example.com}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}
  validations: [{expression: "object.spec.replicas > 1", message: "one replica is not available"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: warning.example.com}
spec: {policyName: warning.example.com, validationActions: [Warn, Audit]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: labels.example.com}
spec:
  reinvocationPolicy: IfNeeded
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{labels: {"checked": "yes"}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: labels.example.com}
spec: {policyName: labels.example.com}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: limits, namespace: default}
data: {maxReplicas: "3"}
"""


def test_policies_refuse_warn_and_change(server):
    applied = server.kubectl("apply", "-f", "-", stdin=POLICY)
    assert applied.returncode == 0, applied.stderr
    shown = server.kubectl("get", "validatingadmissionpolicies", "--no-headers").stdout.splitlines()
    assert [line.split()[:3] for line in shown] == [
        ["demo-policy.example.com", "1", "v1/ConfigMap"],
        ["warning.example.com", "1", "<unset>"],
    ]
    shown = server.kubectl("get", "validatingadmissionpolicybindings", "demo-binding.example.com", "--no-headers")
    assert shown.stdout.split()[:3] == ["demo-binding.example.com", "demo-policy.example.com", "default/limits"]

    refused = server.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=4")
    assert refused.returncode == 1
    assert refused.stderr.strip() == (
        'error: failed to create deployment: deployments.apps "web" is forbidden: '
        "ValidatingAdmissionPolicy 'demo-policy.example.com' with binding 'demo-binding.example.com' denied request: "
        "object.spec.replicas must be no greater than 3"
    )
    created = server.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=1")
    assert created.returncode == 0, created.stderr
    assert created.stderr.strip() == (
        "Warning: Validation failed for ValidatingAdmissionPolicy 'warning.example.com' with binding "
        "'warning.example.com': one replica is not available"
    )
    labels = server.kubectl("get", "deployment", "web", "-o", "jsonpath={.metadata.labels}").stdout
    assert labels == '{"app":"web","checked":"yes"}'
    scaled = server.kubectl("patch", "deployment", "web", "-p", '{"spec":{"replicas":5}}')
    assert "object.spec.replicas must be no greater than 3" in scaled.stderr
    # The server checks expressions against the schemas soon.
    waited = server.kubectl(
        "wait", "--for=jsonpath={.status.observedGeneration}=1", "validatingadmissionpolicy/warning.example.com"
    )
    assert waited.returncode == 0, waited.stderr
    explained = server.kubectl("explain", "mutatingadmissionpolicy.spec.mutations").stdout
    assert "applyConfiguration" in explained
