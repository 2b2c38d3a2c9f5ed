"""The lab's keys: made once, repaired where that is possible, otherwise refused in one line."""

from __future__ import annotations

import contextlib
import shutil
import ssl
from base64 import b64decode
from pathlib import Path

import msgspec
import pytest
from cryptography import x509

from bridgehead.client import load_kubeconfig
from bridgehead.lab.certificates import make_certificates
from bridgehead.lab.errors import LabError
from bridgehead.lab.plan import LabConfig, LabFiles

CONFIG = LabConfig(name="lab", nodes=1, port=7443)


@pytest.fixture(scope="module")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("lab")
    make_certificates(CONFIG, LabFiles(directory))
    return directory


@pytest.fixture
def files(tmp_path: Path, made_once: Path) -> LabFiles:
    """A copy, since an RSA key takes a quarter of a second."""
    shutil.copytree(made_once, tmp_path, symlinks=True, dirs_exist_ok=True)
    return LabFiles(tmp_path)


def contents(files: LabFiles) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in files.pki.iterdir()}


def test_a_second_run_changes_nothing(files: LabFiles) -> None:
    before = contents(files)
    make_certificates(CONFIG, files)
    assert contents(files) == before


def test_keys_are_readable_by_their_owner_only(files: LabFiles) -> None:
    secrets = [files.kubeconfig, files.inside_kubeconfig, *files.pki.glob("*.key"), *files.pki.glob("*.kubeconfig")]
    assert [path.name for path in secrets if path.stat().st_mode & 0o077] == []


def test_kubeconfigs_have_server_and_credentials(files: LabFiles) -> None:
    for path, server in (
        (files.kubeconfig, "https://127.0.0.1:7443"),
        (files.inside_kubeconfig, "https://10.0.0.1:6443"),
        (files.part_kubeconfig("node1"), "https://10.0.0.1:6443"),
    ):
        kubeconfig = msgspec.yaml.decode(path.read_bytes())
        assert kubeconfig["clusters"][0]["cluster"]["server"] == server
        certificate = x509.load_pem_x509_certificate(
            b64decode(kubeconfig["users"][0]["user"]["client-certificate-data"])
        )
        certificate.verify_directly_issued_by(x509.load_pem_x509_certificate((files.pki / "ca.crt").read_bytes()))


def test_kubeconfigs_of_parts_are_json(files: LabFiles) -> None:
    for part in ("controllers", "node1"):
        assert msgspec.json.decode(files.part_kubeconfig(part).read_bytes())["kind"] == "Config"


def test_aggregated_apis_have_an_authority_of_their_own(files: LabFiles) -> None:
    client = x509.load_pem_x509_certificate((files.pki / "front-proxy-client.crt").read_bytes())
    client.verify_directly_issued_by(x509.load_pem_x509_certificate((files.pki / "front-proxy-ca.crt").read_bytes()))
    assert client.subject.rfc4514_string() == "CN=front-proxy-client"
    read = {path.name for pattern in files.read_inside for path in files.pki.glob(pattern)}
    assert {"front-proxy-ca.crt", "front-proxy-client.key"} <= read
    assert not read & {"front-proxy-ca.key", "ca.key", "admin.key"}


def test_clients_that_verify_strictly_accept_the_server(files: LabFiles) -> None:
    """Python's own contexts have this flag since 3.13."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files.pki / "apiserver.crt", files.pki / "apiserver.key")
    client = ssl.create_default_context(cafile=str(files.pki / "ca.crt"))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname="127.0.0.1"),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for end in (*ends, *ends):
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    assert [end.version() for end in ends] == ["TLSv1.3", "TLSv1.3"]


def test_user_entries_of_the_kubeconfig_are_kept(files: LabFiles) -> None:
    made = msgspec.yaml.decode(files.kubeconfig.read_bytes())
    changed = msgspec.yaml.decode(files.kubeconfig.read_bytes())
    changed["contexts"][0]["context"]["namespace"] = "demo"
    changed["contexts"].append({"name": "mine", "context": {"cluster": "other", "user": "other"}})
    changed["clusters"].insert(0, {"name": "other", "cluster": {"server": "https://example.com"}})
    changed["users"].append({"name": "other", "user": {"token": "secret"}})
    changed["current-context"] = "mine"
    files.kubeconfig.write_bytes(msgspec.yaml.encode(changed))
    moved = LabConfig(name="lab", nodes=1, port=7444)
    for _ in range(2):
        make_certificates(moved, files)
        now = msgspec.yaml.decode(files.kubeconfig.read_bytes())
        assert now["current-context"] == "bridgehead-lab"
        assert [entry["name"] for entry in now["clusters"]] == ["bridgehead-lab", "other"]
        assert now["clusters"][0]["cluster"]["server"] == "https://127.0.0.1:7444"
        assert now["contexts"] == changed["contexts"]
        assert now["users"] == changed["users"]
    inside = msgspec.yaml.decode(files.inside_kubeconfig.read_bytes())
    assert inside["contexts"] == made["contexts"]


@pytest.mark.parametrize(
    "damage", [b"", b"\xff", b"{", b"[]", b"users: 3", b"contexts: [{name: a}]", b"clusters: [a]", b"users: null"]
)
def test_a_damaged_kubeconfig_is_recreated(files: LabFiles, damage: bytes) -> None:
    made = files.kubeconfig.read_bytes()
    files.kubeconfig.write_bytes(damage)
    make_certificates(CONFIG, files)
    assert files.kubeconfig.read_bytes() == made


@pytest.mark.parametrize(
    ("family", "server", "serves", "node"),
    [
        ("ipv4", "https://10.0.0.1:6443", {"127.0.0.1", "10.0.0.1", "10.96.0.1"}, {"127.0.0.1", "10.0.0.201"}),
        ("ipv6", "https://[fd00:10::1]:6443", {"127.0.0.1", "fd00:10::1", "fd00:10:96::1"},
         {"127.0.0.1", "fd00:10::201"}),
        ("dual", "https://10.0.0.1:6443", {"127.0.0.1", "10.0.0.1", "fd00:10::1", "10.96.0.1"},
         {"127.0.0.1", "10.0.0.201", "fd00:10::201"}),
    ],
)  # fmt: skip
def test_certificates_contain_the_addresses_of_the_labs_families(tmp_path, family, server, serves, node) -> None:
    files = LabFiles(tmp_path)
    make_certificates(LabConfig(name="lab", nodes=1, port=7443, ip_family=family), files)
    assert msgspec.yaml.decode(files.inside_kubeconfig.read_bytes())["clusters"][0]["cluster"]["server"] == server
    for name, addresses in (("apiserver", serves), ("node1", node)):
        certificate = x509.load_pem_x509_certificate((files.pki / f"{name}.crt").read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert set(map(str, names.get_values_for_type(x509.IPAddress))) == addresses


def test_several_api_servers_and_etcd(tmp_path: Path) -> None:
    files = LabFiles(tmp_path)
    config = LabConfig(name="lab", nodes=1, port=7443, store="etcd", api_servers=3)
    make_certificates(config, files)
    servers = tuple(f"https://10.0.0.{number}:6443" for number in (1, 2, 3))
    for path in (files.inside_kubeconfig, files.part_kubeconfig("controllers"), files.part_kubeconfig("node1")):
        assert load_kubeconfig(path).servers == servers
    assert load_kubeconfig(files.kubeconfig).servers == ("https://127.0.0.1:7443",)
    authority = x509.load_pem_x509_certificate((files.pki / "etcd-ca.crt").read_bytes())
    for name in ("apiserver", "etcd-server", "etcd-peer"):
        certificate = x509.load_pem_x509_certificate((files.pki / f"{name}.crt").read_bytes())
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        addresses = set(map(str, names.get_values_for_type(x509.IPAddress)))
        assert {"127.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.3"} <= addresses
    for name in ("etcd-server", "etcd-peer", "apiserver-etcd-client"):
        x509.load_pem_x509_certificate((files.pki / f"{name}.crt").read_bytes()).verify_directly_issued_by(authority)
    read = {path.name for pattern in files.read_inside for path in files.pki.glob(pattern)}
    assert {"etcd-ca.crt", "etcd-server.key", "etcd-peer.key", "apiserver-etcd-client.key"} <= read
    assert "etcd-ca.key" not in read


@pytest.mark.parametrize("name", ["apiserver.crt", "apiserver.key", "node1.crt"])
@pytest.mark.parametrize("damage", ["gone", "empty", "junk", "another's"])
def test_a_damaged_certificate_is_recreated(files: LabFiles, name: str, damage: str) -> None:
    before = contents(files)
    path = files.pki / name
    if damage == "gone":
        path.unlink()
    else:
        another = files.pki / f"admin{path.suffix}"
        path.write_bytes({"empty": b"", "junk": b"-----BEGIN JUNK-----", "another's": another.read_bytes()}[damage])
    make_certificates(CONFIG, files)
    after = contents(files)
    assert {other for other in after if after[other] != before[other]} >= {f"{path.stem}.crt", f"{path.stem}.key"}
    assert after["ca.crt"] == before["ca.crt"]
    assert after["admin.key"] == before["admin.key"]


def test_a_new_authority_issues_all_certificates_again(files: LabFiles) -> None:
    before = contents(files)
    (files.pki / "ca.crt").unlink()
    make_certificates(CONFIG, files)
    after = contents(files)
    front_proxy = {f"front-proxy-{name}" for name in ("ca.crt", "ca.key", "client.crt", "client.key")}
    assert {name for name in after if after[name] == before[name]} == {
        "sa.key",
        "signer-ca.crt",
        "signer-ca.key",
        *front_proxy,
    }


@pytest.mark.parametrize(("name", "text"), [("ca.key", None), ("ca.key", b"junk"), ("ca.crt", b"junk")])
def test_a_damaged_authority_is_reported(files: LabFiles, name: str, text: bytes | None) -> None:
    if text is None:
        (files.pki / name).unlink()
    else:
        (files.pki / name).write_bytes(text)
    with pytest.raises(LabError, match="remove it, `up` makes new ones") as caught:
        make_certificates(CONFIG, files)
    assert "\n" not in str(caught.value)
