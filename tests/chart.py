"""The chart in deploy/chart, and its objects as the kustomize bases have them."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import yaml

from . import tools

DEPLOY = Path(__file__).parents[1] / "deploy"
CHART = DEPLOY / "chart"
BASES = ("proxy", "dns", "controller", "speaker", "definitions", "monitoring")
# scripts/install-helm puts Helm beside Python.
HELM_PATH = os.pathsep.join((os.environ["PATH"], os.path.dirname(sys.executable)))
RIGHTS = ("Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding")
WORKLOADS = ("DaemonSet", "Deployment")

Objects = list[dict[str, Any]]


def require_helm() -> str:
    """Return the path of Helm. A test without it is skipped, or fails where no program may be missing."""
    tools.require("helm", path=HELM_PATH)
    found = shutil.which("helm", path=HELM_PATH)
    assert found is not None
    return found


def objects(*bases: str, kinds: tuple[str, ...] = ()) -> Objects:
    """Return the objects of some kustomize bases; of these kinds only, if any is given."""
    found = [
        obj
        for base in bases
        for obj in yaml.safe_load_all((DEPLOY / "kustomize" / base / "objects.yaml").read_text("utf-8"))
    ]
    return [obj for obj in found if not kinds or obj["kind"] in kinds]


def identity(obj: dict[str, Any]) -> tuple[str, str, str]:
    """Return kind, namespace and name of an object."""
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
