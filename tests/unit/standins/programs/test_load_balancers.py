"""Stand-ins of MetalLB and OpenELB: their ports, what they write into the log, and the Secret of MetalLB's speakers."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from bridgehead.standins.programs import load_balancers
from bridgehead.standins.programs.cluster_access import AccessFailed
from bridgehead.standins.programs.http_session import HttpRequest, HttpResponse
from bridgehead.standins.programs.stream_server import Peer
from bridgehead.standins.standin import Launch, Setup


class Server:
    """A double of `StreamServer`. `taken` are ports of others."""

    taken: frozenset[int] = frozenset()

    def __init__(self) -> None:
        self.ports: list[int] = []

    def listen(self, port: int, factory: object) -> None:
        if port in self.taken:
            raise OSError(98, "Address already in use")
        self.ports.append(port)

    def watch(self, fd: int, readable: object) -> None:
        raise AssertionError("these stand-ins read no configuration")

    def serve(self, started: object) -> int:
        return 0


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> list[Server]:
    """The servers that are made; webhooks listen on no real port."""
    made: list[Server] = []

    def make() -> Server:
        made.append(Server())
        return made[-1]

    monkeypatch.setattr(load_balancers, "StreamServer", make)
    monkeypatch.setattr(load_balancers, "listen", lambda port: made[-1].ports.append(port))
    monkeypatch.setattr(load_balancers, "Relay", lambda listener, host, port: Server())
    monkeypatch.setattr(Server, "run", lambda self: None, raising=False)
    return made


def launch(*argv: str, ports: tuple[str, ...] = (), **environment: str) -> Launch:
    setup = Setup(image="quay.io/metallb/controller:v0.15.2", ports=ports, variables=tuple(environment))
    return Launch(argv=argv, tag="v0.15.2", hostname="pod", setup=setup, environment=environment)


def test_metallbs_controller(servers: list[Server], capsys: pytest.CaptureFixture[str]) -> None:
    variables = {"METALLB_ML_SECRET_NAME": "memberlist", "METALLB_DEPLOYMENT": "controller", "METALLB_BGP_TYPE": "frr"}
    ports = ("7000/TCP", "9443/TCP")
    assert load_balancers.serve_metallb_controller(launch("controller", "--port=7000", ports=ports, **variables)) == 0
    assert servers[0].ports == [7000, 17472, 9443]
    log = capsys.readouterr().err
    assert "The lab's own balancer (kube-system) serves MetalLB's objects" in log
    assert "environment variables have no effect: METALLB_BGP_TYPE\n" in log
    assert "nothing listens" not in log


def test_a_controller_without_webhooks(servers: list[Server]) -> None:
    load_balancers.serve_metallb_controller(launch("controller"))
    assert servers[0].ports == [7472, 17472]


def test_a_speaker_leaves_the_port_to_the_labs(
    servers: list[Server], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Server, "taken", frozenset({7472}))
    assert load_balancers.serve_metallb_speaker(launch("speaker", "--port", "7472")) == 0
    assert "port 7472 is left to its owner: Address already in use" in capsys.readouterr().err


def test_openelbs_controller(servers: list[Server], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(load_balancers, "_OPENELB_READY", str(tmp_path / "ready"))
    load_balancers.serve_openelb_controller(
        launch("openelb-controller", "--metrics-addr=:50060", "--webhook-port=9443")
    )
    load_balancers.serve_openelb_controller(launch("openelb-manager", "--metrics-addr=no"))
    assert [server.ports for server in servers] == [[50060, 9443], [50052, 443]]
    assert (tmp_path / "ready").exists()


def test_frr_and_openelbs_speaker(servers: list[Server], capsys: pytest.CaptureFixture[str]) -> None:
    load_balancers.serve_openelb_speaker(launch("openelb-speaker", "--api-hosts=:50051"))
    load_balancers.serve_frr_metrics(launch("frr-metrics", "--metrics-port=7473"))
    load_balancers.serve_frr_reloader(launch("frr-reloader.sh"))
    assert [server.ports for server in servers] == [[], [7473], []]
    assert load_balancers.answer_gobgp(launch("gobgp", "-p", "50051", "global")) == 0
    assert "stand-in" in capsys.readouterr().out


def test_probes_are_answered() -> None:
    handler = load_balancers._answer_probe("a program")
    peer = Peer("10.0.0.1", 4321)

    def status(path: str) -> int:
        response = handler(HttpRequest("GET", path, b"", b"", peer))
        assert isinstance(response, HttpResponse)
        return response.status

    assert [status(path) for path in ("/metrics", "/healthz", "/readyz", "/livez", "/")] == [200, 200, 200, 200, 404]


def test_the_secret_belongs_to_the_deployment(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, str, Any]] = []

    class Access:
        namespace = "metallb-system"

        def __init__(self, environment: object) -> None:
            pass

        def call(self, method: str, path: str, body: Any = None) -> Any:
            calls.append((method, path, body))
            if method == "POST" and len(calls) > 2:
                raise AccessFailed("exists", 409)
            return {"metadata": {"uid": "u"}}

    monkeypatch.setattr(load_balancers, "ClusterAccess", Access)
    of = launch("controller", METALLB_ML_SECRET_NAME="memberlist", METALLB_DEPLOYMENT="controller")
    load_balancers._make_secret(of)
    load_balancers._make_secret(of)  # another replica was faster
    _, (method, path, body), *_ = calls
    assert (method, path) == ("POST", "/api/v1/namespaces/metallb-system/secrets")
    assert body["metadata"]["ownerReferences"] == [
        {"apiVersion": "apps/v1", "kind": "Deployment", "name": "controller", "uid": "u"}
    ]
    assert len(base64.b64decode(base64.b64decode(body["data"]["secretkey"]))) == 128


def test_files_are_copied(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = tmp_path / "a"
    source.write_text("x")
    assert load_balancers.copy_file(launch("cp-tool", str(source), str(tmp_path / "b"))) == 0
    assert (tmp_path / "b").read_text() == "x"
    assert load_balancers.copy_file(launch("cp-tool", str(source))) == 1
    assert load_balancers.copy_file(launch("cp-tool", str(tmp_path / "none"), str(tmp_path / "b"))) == 1
    assert "cp-tool: " in capsys.readouterr().err
