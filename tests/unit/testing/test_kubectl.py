import pytest

from bridgehead.testing.kubectl import Kubectl, KubectlFailed, NoKubectl


@pytest.fixture
def program(tmp_path, monkeypatch):
    """A kubectl that prints its arguments, its kubeconfig and its input, and fails for `fail`."""
    path = tmp_path / "kubectl"
    path.write_text('#!/bin/sh\necho "$* $KUBECONFIG $(cat)"\n[ "$1" != fail ] || { echo "no luck" >&2; exit 3; }\n')
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


@pytest.mark.usefixtures("program")
def test_the_output_is_returned(tmp_path):
    kubectl = Kubectl(tmp_path / "config")
    assert kubectl("get", "pod", 5, stdin="text") == f"get pod 5 {tmp_path}/config text\n"


@pytest.mark.usefixtures("program")
def test_a_failure_has_the_errors(tmp_path):
    with pytest.raises(KubectlFailed, match="kubectl fail now: exit code 3\nno luck") as failure:
        Kubectl(tmp_path / "config")("fail", "now")
    assert (failure.value.returncode, failure.value.stderr) == (3, "no luck\n")


def test_without_kubectl(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoKubectl, match="kubernetes-client"):
        Kubectl(tmp_path / "config")("get", "pods")
