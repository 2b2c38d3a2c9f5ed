"""Pod Security Standards with the real kubectl."""

from __future__ import annotations

import pytest

from .apiserver_process import DEPLOYMENT

pytestmark = [pytest.mark.integration, pytest.mark.needs("kubectl")]

LABEL = "pod-security.kubernetes.io"
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {hostNetwork: true, containers: [{name: a, image: b}]}
"""


def test_levels_are_enforced_and_warned_about(server):
    def k(*arguments: str, stdin: str = "") -> tuple[str, str]:
        result = server.kubectl("-n", "n", *arguments, stdin=stdin)
        return result.stdout, result.stderr

    k("create", "namespace", "n")
    k("create", "serviceaccount", "default")
    assert k("create", "-f", "-", stdin=POD) == ("pod/p created\n", "")
    labelled, warned = k("label", "namespace", "n", f"{LABEL}/enforce=baseline", f"{LABEL}/warn=restricted")
    assert labelled == "namespace/n labeled\n"
    assert warned == (
        'Warning: existing pods in namespace "n" violate the new PodSecurity enforce level "baseline:latest"\n'
        "Warning: p: host namespaces\n"
    )
    _, refused = k("create", "-f", "-", stdin=POD.replace("name: p", "name: q"))
    assert refused == (
        'Error from server (Forbidden): error when creating "STDIN": pods "q" is forbidden: violates PodSecurity '
        '"baseline:latest": host namespaces (hostNetwork=true)\n'
    )
    applied, warned = k("apply", "-f", "-", stdin=DEPLOYMENT)
    assert applied == "deployment.apps/web created\n"
    assert warned.startswith(
        'Warning: would violate PodSecurity "restricted:latest": allowPrivilegeEscalation != false (container "web" '
    )
    _, refused = k("label", "namespace", "n", "--overwrite", f"{LABEL}/enforce=high")
    assert "must be one of privileged, baseline, restricted" in refused
