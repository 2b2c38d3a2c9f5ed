"""The kubelet's options that make no sense end it with one line."""

from __future__ import annotations

import pytest

from bridgehead.cli import main

NEEDED = {
    "--node-name": "node1",
    "--kubeconfig": "/nonexistent",
    "--runtime-socket": "/nonexistent",
    "--pod-cidr": "10.244.1.0/24,fd00:10:244:1::/64",
    "--node-ip": "10.0.0.201,fd00:10::201",
}


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--node-ip", "10.0.0.1,10.0.0.2", "--node-ip: '10.0.0.1,10.0.0.2' is not one, or one of each IP family"),
        ("--node-ip", "", "'' does not appear to be an IPv4 or IPv6 address"),
        ("--node-ip", "10.0.0.1,fd00::1,fd00::2", "is not one, or one of each IP family"),
        ("--pod-cidr", "10.244.1.0/24,10.244.2.0/24", "--pod-cidr: '10.244.1.0/24,10.244.2.0/24' is not one"),
        ("--pod-cidr", "fd00::/64,banana", "'banana' does not appear to be an IPv4 or IPv6 network"),
        ("--cluster-dns", "10.96.0.10,dns", "'dns' does not appear to be an IPv4 or IPv6 address"),
        ("--tls-cert-file", "c.pem", "--tls-cert-file, --tls-private-key-file and --client-ca-file go together"),
        ("--node-labels", "a", "--node-labels: 'a' is not key=value"),
        (
            "--node-labels",
            "tier=a,node-role.kubernetes.io/worker=,topology.kubernetes.io/zone=z",
            "unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: node-role.kubernetes.io/worker",
        ),
    ],
)
def test_inconsistent_options_are_refused(option, value, message, capsys, monkeypatch):
    monkeypatch.setattr("bridgehead.cli.kubelet.configure", lambda verbosity: None)
    with pytest.raises(SystemExit) as end:
        main(["kubelet", *(f"{name}={text}" for name, text in (NEEDED | {option: value}).items())])
    assert end.value.code == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 1
    assert message in errors
