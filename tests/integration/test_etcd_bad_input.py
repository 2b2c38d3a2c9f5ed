"""The API server on an etcd that it cannot use, or whose content it cannot use: one line, or it serves the rest."""

from __future__ import annotations

import base64
import contextlib
import datetime
import http.client
import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.forks import run_bridgehead

from .api_world import hold_port
from .apiserver_process import ServerProcess, write_files
from .certificates import Authority
from .etcd_server import EtcdCluster

DEADLINE = 100.0


@pytest.fixture(scope="module")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    options: dict[str, object] = {"max-request-bytes": 2**24}
    with EtcdCluster(tmp_path_factory.mktemp("etcd"), options=options).running() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdCluster]:
    with EtcdCluster(tmp_path_factory.mktemp("secure"), tls=True).running() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("files")
    write_files(directory)
    return directory


@pytest.fixture
def prefix(request: pytest.FixtureRequest) -> str:
    return "/" + re.sub(r"[^a-z_]", "-", request.node.name)


def refusal(files: Path, *urls: str, **options: object) -> str:
    """Return the reason for which an API server does not start: one line after its log, and exit code 1."""
    chosen = {
        "listen": "127.0.0.1:0",
        "tls-cert-file": files / "server.crt",
        "tls-private-key-file": files / "server.key",
        "service-account-key-file": files / "sa.key",
        "etcd-servers": ",".join(urls),
        **{name.replace("_", "-"): value for name, value in options.items()},
    }
    result = run_bridgehead("apiserver", *(f"--{name}={value}" for name, value in chosen.items()), timeout=DEADLINE)
    assert result.returncode == 1, result.stderr
    assert "Traceback" not in result.stderr
    *_, last = result.stderr.splitlines()
    assert last.startswith("bridgehead apiserver: "), result.stderr
    return last


def server(directory: Path, etcd: EtcdCluster, prefix: str, **options: object) -> ServerProcess:
    """Return a server on etcd, which has its files and its log in `directory`."""
    write_files(directory)
    urls = ",".join(etcd.client_urls)
    return ServerProcess(directory, store="", options={"etcd-servers": urls, "etcd-prefix": prefix, **options})


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


# --- Others behind the address --------------------------------------------------------------------------------------


class _WebPage(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)

    def log_message(self, format: str, *args: object) -> None: ...


def test_nobody_listens(files: Path) -> None:
    with contextlib.closing(hold_port()) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        line = refusal(files, url)
    assert f"etcd at {url} is not reachable" in line
    assert "Connection refused" in line


def test_an_http_server_is_no_etcd(files: Path) -> None:
    with HTTPServer(("127.0.0.1", 0), _WebPage) as web:
        thread = threading.Thread(target=web.serve_forever)
        thread.start()
        try:
            assert "is no etcd" in refusal(files, f"http://127.0.0.1:{web.server_port}")
        finally:
            web.shutdown()
            thread.join()


def test_endpoints_of_two_clusters(files: Path, etcd: EtcdCluster, tmp_path: Path, prefix: str) -> None:
    with EtcdCluster(tmp_path).running() as other:
        line = refusal(files, *etcd.client_urls, *other.client_urls, etcd_prefix=prefix)
    assert "belongs to the cluster" in line
    assert etcd.etcdctl("get", "--prefix", "--keys-only", prefix).split() == []


# --- Certificates and passwords -------------------------------------------------------------------------------------


def test_certificates(files: Path, secure: EtcdCluster, tmp_path: Path) -> None:
    (url,), here = secure.client_urls, secure.directory
    own = {"etcd_cafile": here / "ca.crt", "etcd_certfile": here / "client.crt", "etcd_keyfile": here / "client.key"}
    expired = {"etcd_certfile": here / "expired.crt", "etcd_keyfile": here / "expired.key"}
    assert "client certificate" in (line := refusal(files, url, **own | expired))
    assert "expired at" in line
    assert "give certificate and key file" in refusal(files, url, etcd_cafile=here / "ca.crt")
    Authority(tmp_path, "another-ca")
    assert "unknown authority" in refusal(files, url, **own | {"etcd_cafile": tmp_path / "ca.crt"})
    assert "both its certificate file and its key file" in refusal(files, url, etcd_certfile=here / "client.crt")


def test_an_expired_certificate_of_etcd(files: Path, tmp_path: Path) -> None:
    yesterday = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=1)
    with EtcdCluster(tmp_path, tls=True, certificate_until=yesterday).running() as cluster:
        line = refusal(
            files,
            *cluster.client_urls,
            etcd_cafile=tmp_path / "ca.crt",
            etcd_certfile=tmp_path / "client.crt",
            etcd_keyfile=tmp_path / "client.key",
        )
    assert "the server's certificate has expired; renew it" in line


def test_a_wrong_password(files: Path, tmp_path: Path) -> None:
    (tmp_path / "password").write_text("wrong\n")
    with EtcdCluster(tmp_path).running() as cluster:
        cluster.enable_authentication("right")
        wrong = {"etcd_username": "root", "etcd_password_file": tmp_path / "password"}
        assert "check user and password" in refusal(files, *cluster.client_urls, **wrong)
        assert "give a user and password" in refusal(files, *cluster.client_urls)


# --- Options --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"etcd-servers": "10.0.0.1:2379"}, "is no endpoint of etcd; give a URL such as"),
        ({"etcd-servers": "ftp://10.0.0.1"}, "is no endpoint of etcd; give a URL such as"),
        ({"etcd-servers": ","}, "--etcd-servers names no server"),
        ({"etcd-servers": "http://10.0.0.1,https://10.0.0.2"}, "must be all http:// or all https://"),
        ({"store": "memory"}, "--store and --etcd-servers exclude each other"),
        ({"storage-media-type": "application/yaml"}, "--storage-media-type 'application/yaml' is not one of"),
        ({"etcd-prefix": ""}, "--etcd-prefix '' is no prefix"),
        ({"etcd-prefix": "/a b"}, "--etcd-prefix '/a b' is no prefix"),
        ({"etcd-prefix": "/a/../b"}, "is no prefix"),
        ({"etcd-compaction-interval": "-5m"}, "--etcd-compaction-interval: '-5m' is not a duration"),
        ({"etcd-compaction-interval": "1ms"}, "--etcd-compaction-interval 1ms is too short"),
        ({"event-ttl": "0"}, "--event-ttl 0 is too short"),
        ({"etcd-password-file": "/none"}, "/none: No such file"),
    ],
)
def test_options(files: Path, options: dict[str, object], reason: str) -> None:
    assert reason in refusal(files, **{"etcd-servers": "http://127.0.0.1:1", **options})


# --- The content of etcd --------------------------------------------------------------------------------------------


def test_a_newer_layout_and_an_unfinished_restore(files: Path, etcd: EtcdCluster, prefix: str) -> None:
    (url,) = etcd.client_urls
    etcd.etcdctl("put", f"{prefix}/bridgehead/layout", "2")
    line = refusal(files, url, etcd_prefix=prefix)
    assert f"the objects below {prefix} in etcd have layout '2', this bridgehead knows 1" in line
    etcd.etcdctl("del", f"{prefix}/bridgehead/layout")
    etcd.etcdctl("put", f"{prefix}/bridgehead/restoring", "x")
    assert "has not finished" in refusal(files, url, etcd_prefix=prefix)
    found = etcd.etcdctl("get", "--prefix", "--keys-only", f"{prefix}/").split()
    assert found == [f"{prefix}/bridgehead/restoring"], "nothing is written"


def config_map(name: str, **data: str) -> str:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return json.dumps({"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data})


def test_keys_that_were_written_by_hand(etcd: EtcdCluster, tmp_path: Path, prefix: str) -> None:
    written = {
        "/configmaps/default/good": config_map("good"),
        "/configmaps/default/broken": "{",
        "/configmaps/default/renamed": config_map("other"),
        "/configmaps/default/large": config_map("large", text="x" * 2_000_000),
        "/unheard/of": "1",
        "/unheard/also": "2",
        "/ranges/serviceips": "kube-apiserver's own",
    }
    for path, value in written.items():
        _put(etcd, prefix + path, value)
    with server(tmp_path, etcd, prefix).running() as api:
        items = json.loads(api.read("/api/v1/namespaces/default/configmaps", token="admin-token"))["items"]
        names = {item["metadata"]["name"] for item in items}
        assert {"good", "large"} <= names
        assert not {"broken", "other", "renamed"} & names
    log = (tmp_path / "log").read_text()
    for key in ("/configmaps/default/broken", "/configmaps/default/renamed", "/unheard/of"):
        assert log.count(f"{prefix}{key} in etcd") == 1, log
    assert "it is the object 'default/other' by its metadata" in log
    assert "/unheard/also" not in log
    assert "/ranges/" not in log


def _put(etcd: EtcdCluster, key: str, value: str) -> None:
    """Write a key of etcd, also with a value that is too large for a command line."""
    (url,) = etcd.client_urls
    body = {name: base64.b64encode(text.encode()).decode() for name, text in (("key", key), ("value", value))}
    with urllib.request.urlopen(f"{url}/v3/kv/put", json.dumps(body).encode(), timeout=DEADLINE):
        pass


# --- A full database ------------------------------------------------------------------------------------------------


def test_a_full_database(tmp_path: Path) -> None:
    etcd_directory = tmp_path / "etcd"
    etcd_directory.mkdir()
    with EtcdCluster(etcd_directory, options={"quota-backend-bytes": 2**24}).running() as small:
        api = server(tmp_path, small, "/registry")
        with api.running():
            api.read("/readyz")
            _fill(api)
            assert _status(api, _create, "later") == (500, "etcdctl alarm disarm")
            wait_until(lambda: _failed_check(api))
            _delete_and_watch(api, "filling-0")
            # A server that starts now serves what is there.
            assert api.stop() == 0
            api.probe = "/version"
            api.start()
            assert json.loads(api.read("/api/v1/namespaces", token="admin-token"))["items"]
            _free(small)
            wait_until(lambda: not _failed_check(api))
            _create(api, "afterwards")


def _create(api: ServerProcess, name: str, text: str = "") -> None:
    body = {"metadata": {"name": name}, "data": {"text": text}}
    request = urllib.request.Request(
        f"{api.url}/api/v1/namespaces/default/configmaps",
        json.dumps(body).encode(),
        {"Authorization": "Bearer admin-token", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, context=api.context(), timeout=DEADLINE):
        pass


def _delete_and_watch(api: ServerProcess, name: str) -> None:
    """Delete an object, which a full etcd allows: reads and watches show it."""
    path = "/api/v1/namespaces/default/configmaps"
    before = json.loads(api.read(f"{path}?limit=1", token="admin-token"))["metadata"]["resourceVersion"]
    headers = {"Authorization": "Bearer admin-token"}
    request = urllib.request.Request(f"{api.url}{path}/{name}", headers=headers, method="DELETE")
    with urllib.request.urlopen(request, context=api.context(), timeout=DEADLINE):
        pass
    seen = api.read(f"{path}?watch=1&resourceVersion={before}&timeoutSeconds=1", token="admin-token")
    assert [json.loads(line)["type"] for line in seen.splitlines()] == ["DELETED"]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        api.read(f"{path}/{name}", token="admin-token")


def _fill(api: ServerProcess) -> None:
    for number in range(200):
        try:
            _create(api, f"filling-{number}", "x" * 500_000)
        except urllib.error.HTTPError as error:
            error.close()
            return
    raise AssertionError("the database does not become full")


def _status(api: ServerProcess, request: Callable[..., None], *arguments: Any) -> tuple[int, str]:
    with pytest.raises(urllib.error.HTTPError) as caught:
        request(api, *arguments)
    with caught.value as error:
        text = json.loads(error.read())["message"]
    return error.code, "etcdctl alarm disarm" if "etcdctl alarm disarm" in text else text


def _failed_check(api: ServerProcess) -> bool:
    """Whether the check of etcd fails."""
    try:
        api.read("/readyz/etcd", token="admin-token")
    except urllib.error.HTTPError:
        return True
    except (OSError, http.client.HTTPException):
        return False
    return False


def _free(etcd: EtcdCluster) -> None:
    etcd.etcdctl("del", "--prefix", "/registry/configmaps/default/filling-")
    revision = json.loads(etcd.etcdctl("get", "-w", "json", "x"))["header"]["revision"]
    etcd.etcdctl("compact", "--physical", str(revision))
    etcd.etcdctl("defrag")
    etcd.etcdctl("alarm", "disarm")
