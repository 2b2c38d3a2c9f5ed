"""A test of an operator, which runs beside the test as it runs in development."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.fixture
def operator(kubeconfig, namespace, tmp_path):
    """The operator, for the test's namespace."""
    argv = [
        sys.executable,
        "-m",
        "kopf",
        "run",
        "--standalone",
        "--namespace",
        namespace,
        HERE / "operator_of_pages.py",
    ]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(argv, env={**os.environ, "KUBECONFIG": str(kubeconfig)}, stdout=log, stderr=log)
    yield process
    process.terminate()
    process.wait()
    print((tmp_path / "log").read_text())  # pytest shows it if the test fails


def test_a_page_becomes_a_config_map(apply, kubectl, operator):
    apply("pages.yaml")
    kubectl("wait", "page/home", "--for=jsonpath={.status.publish.title}=Hello", "--timeout=60s")
    assert kubectl("get", "configmap", "home", "-o", "jsonpath={.data.index\\.html}") == "<h1>Hello</h1>"
    kubectl("patch", "page", "home", "--type=merge", "-p", '{"spec": {"title": "Goodbye"}}')
    kubectl("wait", "configmap/home", "--for=jsonpath={.data.index\\.html}=<h1>Goodbye</h1>", "--timeout=60s")
