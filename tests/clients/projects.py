"""The projects, their releases, how their tests run, and which of these fail for reasons that are not the lab's.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# Fixtures of the projects' own repositories that start or find a cluster, which source distributions lack or which are
# tied to kind. Each stand-in takes the lab's kubeconfig from KUBECONFIG. Path in the source -> file in stand_ins/.
_BASE = "e2e_base.py"


@dataclass(frozen=True)
class Project:
    """A release on PyPI. `tests` is empty for a source distribution without tests that need a cluster."""

    name: str
    version: str
    sha256: str  # of the source distribution
    tests: tuple[str, ...] = ()  # arguments of pytest, relative to the source
    requirements: tuple[str, ...] = ()  # what its tests import
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    images: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # image -> programs of this machine in it
    path: tuple[str, ...] = ()  # directories in stand_ins/ for PYTHONPATH
    known: Mapping[str, str] = field(default_factory=dict)  # a part of a test's name -> why it fails
    remark: str = ""

    @property
    def archive(self) -> str:
        return f"{self.name}-{self.version}.tar.gz"

    @property
    def directory(self) -> str:
        return f"{self.name}-{self.version}"

    def why_known(self, test: str) -> str:
        """Return why this test fails, or "" if it should pass."""
        return next((why for name, why in self.known.items() if name in test), "")


# For sources without settings of pytest, in whose place it would take those of this repository.
_NO_SETTINGS = ("--rootdir=.", "-c", "/dev/null")
_UNRAISABLE = "pytest.PytestUnraisableExceptionWarning"
_BETA = "creates a CustomResourceDefinition of v1beta1, which Kubernetes removed in 1.22"
_IN_A_GROUP = "expects the error itself, which the installed httpx-ws raises inside an ExceptionGroup"
_OTHER_KIND = "applies a Deployment at the path of a Pod, which Kubernetes refuses: the patch has another version"

PROJECTS = (
    Project(
        "kr8s",
        "0.20.15",
        "484d5206bbebd48f8cc00dd3ed749d4419294d2f08cd50c6232114cf62ed6d3a",
        tests=("kr8s/tests", "-o", "addopts=", "-p", "pytest_kind.plugin"),
        requirements=(
            "pytest",
            "pytest-asyncio",
            "pytest-timeout",
            "pytest-rerunfailures",
            "trio",
            "lightkube",
            "kubernetes<36",  # later ones have no kubernetes.client.models.v1_pod, which a test imports
            "pykube-ng",
            "kubernetes-asyncio",
            "kubernetes-validate",
        ),
        images={"docker.io/library/ubuntu:latest": ("/bin/cat", "/bin/date", "/bin/sleep")},
        path=("kind",),
        known={"test_objects.test_pod_exec_error": _IN_A_GROUP, "test_objects.test_pod_exec_to_file": _IN_A_GROUP},
    ),
    Project(
        "lightkube",
        "1.0.1",
        "5f1577487be7d44c847f88a656574154e8f5dec0045d959b8328b88d7adb518a",
        remark="the source distribution has no tests",
    ),
    Project(
        "kopf",
        "1.45.2",
        "5baa180cfdebe1c5095d2a0a96d7d91825b6920541a0825c55719c36abb0054f",
        # Its suite makes errors of warnings, and connections that an operator leaves open are one in whatever test runs
        # when garbage is collected.
        tests=("--only-e2e", "--timeout=60", "-W", f"default::{_UNRAISABLE}", "tests/e2e", "examples"),
        requirements=(
            "pytest>=9",
            "pytest-aiohttp",
            "pytest-asyncio",
            "pytest-cov",
            "pytest-mock",
            "pytest-timeout",
            "certbuilder",
            "certvalidator",
            "freezegun",
            "kmock>=0.5",
            "looptime>=0.8",
            "pyngrok",
            "pykube-ng",
            "pyyaml",
            "kubernetes",
        ),
        known={
            "[17-admission]": "its certificates need an oscrypto that is not released: the one on PyPI cannot read the "
            "version of OpenSSL 3.0.10 and later",
        },
    ),
    Project(
        "kubernetes",
        "37.0.2",
        "6967599ef976d0bb9c663c3621e690db0e26fbab7cf5c5e3ccf7e11b790d2de9",
        tests=(
            "kubernetes/dynamic/test_client.py",
            "kubernetes/dynamic/test_discovery.py",
            "kubernetes/aio/dynamic/client_test.py",
            "kubernetes/aio/dynamic/discovery_test.py",
            *_NO_SETTINGS,
        ),
        requirements=("pytest", "aiohttp", "aiohttp-retry"),
        stand_ins={"kubernetes/e2e_test/base.py": _BASE, "kubernetes/aio/e2e_test/base.py": _BASE},
        known={
            "kubernetes.dynamic.test_client.TestDynamicClient.test_cluster_custom_resources": _BETA,
            "kubernetes.dynamic.test_client.TestDynamicClient.test_namespaced_custom_resources": _BETA,
            "kubernetes.dynamic.test_client.TestDynamicClient.test_async_namespaced_custom_resources": _BETA,
            "kubernetes.dynamic.test_discovery.TestDiscoverer.test_cache_decoder_resource_and_subresource": (
                "compares objects of a class that has no `__eq__`"
            ),
            "kubernetes.aio.dynamic.client_test.TestDynamicClient.test_server_side_apply_api": _OTHER_KIND,
        },
    ),
    Project(
        "kubernetes_asyncio",
        "36.1.0",
        "6d979d82e5ebe490bea298e7843732a2336173236bae28e200434889443d4443",
        tests=(
            "kubernetes_asyncio/dynamic/client_test.py",
            "kubernetes_asyncio/dynamic/discovery_test.py",
            *_NO_SETTINGS,
        ),
        requirements=("pytest", "pytest-asyncio"),
        stand_ins={"kubernetes_asyncio/e2e_test/base.py": _BASE},
        known={"kubernetes_asyncio.dynamic.client_test.TestDynamicClient.test_server_side_apply_api": _OTHER_KIND},
    ),
)
