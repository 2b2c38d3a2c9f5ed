"""Tokens and certificates of users, with kubectl and the controllers."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import http.server
import json
import ssl
import threading
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import ClassVar

import jwt
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from bridgehead.client import ApiClient, load_config
from bridgehead.controllers.manager import Manager, Settings
from bridgehead.signing_keys import SigningKey

from .api_world import running
from .apiserver_process import DEADLINE, ServerProcess, write_files
from .certificates import Authority

pytestmark = [pytest.mark.integration, pytest.mark.needs("kubectl")]

ISSUER = "https://issuer.example.com"
REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
CONTROLLERS = (
    "serviceaccount-controller",
    "serviceaccount-token-controller",
    "certificatesigningrequest-approving-controller",
    "certificatesigningrequest-signing-controller",
    "certificatesigningrequest-cleaner-controller",
)


@pytest.fixture(scope="module")
def front_proxies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of front proxies' certificates."""
    directory = tmp_path_factory.mktemp("front-proxies")
    authority = Authority(directory, "front-proxy-ca")
    authority.issue("gateway", "gateway")
    authority.issue("other", "other", "system:masters")
    return directory


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, front_proxies: Path) -> Iterator[ServerProcess]:
    options = {
        "service-account-issuer": ISSUER,
        "requestheader-client-ca-file": front_proxies / "ca.crt",
        "requestheader-allowed-names": "gateway",
    }
    with ServerProcess(tmp_path_factory.mktemp("authentication"), options=options).running() as server:
        yield server


@pytest.fixture
async def controllers(server) -> AsyncIterator[None]:
    here = server.directory
    settings = Settings(
        root_ca=(here / "ca.crt").read_text(),
        service_account_private_key=here / "sa.key",
        cluster_signing_certificate=here / "ca.crt",
        cluster_signing_key=here / "ca.key",
    )
    async with (
        ApiClient(load_config(here / "kubeconfig")) as client,
        running(Manager(client, CONTROLLERS, settings).run()),
    ):
        yield


async def kubectl(server: ServerProcess, *arguments: str, stdin: str = "") -> str:
    """Return the output. kubectl runs beside the controllers, which are in this process."""
    result = await asyncio.to_thread(server.kubectl, *arguments, stdin=stdin)
    assert result.returncode == 0, result.stderr + result.stdout
    return result.stdout


SECRET = """
apiVersion: v1
kind: Secret
metadata: {name: ci-token, annotations: {kubernetes.io/service-account.name: ci}}
type: kubernetes.io/service-account-token
"""


async def test_a_secret_gets_a_token_that_works_until_the_account_is_deleted(server, controllers):
    await kubectl(server, "create", "serviceaccount", "ci")
    await kubectl(server, "create", "-f", "-", stdin=SECRET)
    await kubectl(server, "wait", "secret/ci-token", "--for=jsonpath={.data.token}", f"--timeout={DEADLINE}s")
    secret = json.loads(await kubectl(server, "get", "secret", "ci-token", "-o", "json"))
    data = {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}
    assert data.keys() == {"ca.crt", "namespace", "token"}
    assert (data["namespace"], data["ca.crt"]) == ("default", (server.directory / "ca.crt").read_text())
    uid = secret["metadata"]["annotations"]["kubernetes.io/service-account.uid"]
    assert "3      " in await kubectl(server, "get", "secret", "ci-token")
    assert f"kubernetes.io/service-account.uid: {uid}" in await kubectl(server, "describe", "secret", "ci-token")
    with_token = ("--token", data["token"], "--kubeconfig", without_user(server))
    who = await kubectl(server, "auth", "whoami", "-o", "json", *with_token)
    assert json.loads(who)["status"]["userInfo"]["username"] == "system:serviceaccount:default:ci"
    await kubectl(
        server,
        "wait",
        "secret/ci-token",
        r"--for=jsonpath={.metadata.labels.kubernetes\.io/legacy-token-last-used}",
        f"--timeout={DEADLINE}s",
    )
    deleted = asyncio.create_task(kubectl(server, "wait", "secret/ci-token", "--for=delete", f"--timeout={DEADLINE}s"))
    await kubectl(server, "delete", "serviceaccount", "ci")
    await deleted
    with pytest.raises(urllib.error.HTTPError, match="401"):
        await asyncio.to_thread(server.read, "/api", token=data["token"])


async def test_a_secret_of_an_account_that_does_not_exist_is_deleted(server, controllers):
    other = SECRET.replace("ci", "missing")
    name = "secret/missing-token"
    await kubectl(server, "create", "-f", "-", stdin=other)
    await kubectl(server, "wait", name, "--for=delete", f"--timeout={DEADLINE}s")


REQUEST = """
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: %s}
spec: {request: %s, signerName: %s, usages: [digital signature, client auth], expirationSeconds: 3600}
"""


def make_request(
    name: str, signer: str, key: ec.EllipticCurvePrivateKey, *subject: tuple[x509.ObjectIdentifier, str]
) -> str:
    builder = x509.CertificateSigningRequestBuilder()
    builder = builder.subject_name(x509.Name([x509.NameAttribute(oid, value) for oid, value in subject]))
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return REQUEST % (name, base64.b64encode(pem).decode(), signer)


async def test_an_approved_request_becomes_a_certificate_that_identifies_its_user(server, controllers):
    key, here = ec.generate_private_key(ec.SECP256R1()), server.directory
    signer = "kubernetes.io/kube-apiserver-client"
    made = make_request("alice", signer, key, (NameOID.ORGANIZATION_NAME, "dev"), (NameOID.COMMON_NAME, "alice"))
    await kubectl(server, "create", "-f", "-", stdin=made)
    row = (await kubectl(server, "get", "csr")).splitlines()
    assert row[0].split() == ["NAME", "AGE", "SIGNERNAME", "REQUESTOR", "REQUESTEDDURATION", "CONDITION"]
    assert row[1].split()[2:] == [signer, "kubernetes-admin", "60m", "Pending"]
    assert await kubectl(server, "certificate", "approve", "alice") == (
        "certificatesigningrequest.certificates.k8s.io/alice approved\n"
    )
    await kubectl(server, "wait", "csr/alice", "--for=jsonpath={.status.certificate}", f"--timeout={DEADLINE}s")
    assert "Approved,Issued" in await kubectl(server, "get", "csr", "alice")
    assert "Common Name:    alice" in await kubectl(server, "describe", "csr", "alice")
    certificate = await kubectl(server, "get", "csr", "alice", "-o", "jsonpath={.status.certificate}")
    (here / "alice.crt").write_bytes(base64.b64decode(certificate))
    pem, pkcs8, plain = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (here / "alice.key").write_bytes(key.private_bytes(pem, pkcs8, plain))
    as_alice = ("--client-certificate", str(here / "alice.crt"), "--client-key", str(here / "alice.key"))
    who = json.loads(
        await kubectl(server, "auth", "whoami", "-o", "json", *as_alice, "--kubeconfig", without_user(server))
    )
    user = who["status"]["userInfo"]
    assert (user["username"], user["groups"]) == ("alice", ["dev", "system:authenticated"])


async def test_requests_may_be_denied_and_those_of_nodes_are_approved(server, controllers):
    key = ec.generate_private_key(ec.SECP256R1())
    denied = make_request("bob", "example.com/signer", key, (NameOID.COMMON_NAME, "bob"))
    await kubectl(server, "create", "-f", "-", stdin=denied)
    await kubectl(server, "certificate", "deny", "bob")
    assert "Denied" in await kubectl(server, "get", "csr", "bob")
    again = await asyncio.to_thread(server.kubectl, "certificate", "approve", "bob")
    assert again.stderr == 'error: certificate signing request "bob" is already Denied\n'
    node = ((NameOID.ORGANIZATION_NAME, "system:nodes"), (NameOID.COMMON_NAME, "system:node:node1"))
    made = make_request("node1", "kubernetes.io/kube-apiserver-client-kubelet", key, *node)
    files = [str(server.directory / f"node1.{suffix}") for suffix in ("crt", "key")]
    as_node = ("--client-certificate", files[0], "--client-key", files[1], "--kubeconfig", without_user(server))
    await kubectl(server, "create", "-f", "-", *as_node, stdin=made)
    await kubectl(server, "wait", "csr/node1", "--for=jsonpath={.status.certificate}", f"--timeout={DEADLINE}s")
    described = json.loads(await kubectl(server, "get", "csr", "node1", "-o", "json"))
    (condition,) = described["status"]["conditions"]
    assert condition["message"] == "Auto approving self kubelet client certificate after SubjectAccessReview."
    wrong = make_request("wrong", "kubernetes.io/kubelet-serving", key, *node)
    await kubectl(server, "create", "-f", "-", stdin=wrong)
    await kubectl(server, "certificate", "approve", "wrong")
    await kubectl(server, "wait", "csr/wrong", "--for=condition=Failed", f"--timeout={DEADLINE}s")
    assert "Approved,Failed" in await kubectl(server, "get", "csr", "wrong")


def without_user(server: ServerProcess) -> str:
    """Return a kubeconfig without a certificate, which would win over a token."""
    path = server.directory / "anonymous"
    lines = (server.directory / "kubeconfig").read_text().splitlines()
    path.write_text("\n".join(line for line in lines if not line.startswith("users:")).replace(", user: u", ""))
    return str(path)


def test_tokens_have_the_chosen_issuer_whose_keys_are_published(server):
    server.kubectl("create", "serviceaccount", "bound")
    ask = ("create", "token", "bound", "--audience=vault", "--duration=20m", "--bound-object-kind=Secret")
    refused = server.kubectl(*ask, "--bound-object-name=x").stderr
    assert refused == 'error: failed to create token: secrets "x" not found\n'
    server.kubectl("create", "secret", "generic", "x")
    token = server.kubectl(*ask, "--bound-object-name=x").stdout.strip()
    configuration = json.loads(server.kubectl("get", "--raw", "/.well-known/openid-configuration").stdout)
    assert configuration["issuer"] == ISSUER
    assert configuration["jwks_uri"] == "https://10.0.0.1:6443/openid/v1/jwks"
    keys = jwt.PyJWKSet.from_dict(json.loads(server.kubectl("get", "--raw", "/openid/v1/jwks").stdout))
    key = keys[jwt.get_unverified_header(token)["kid"]]
    claims = jwt.decode(token, key.key, algorithms=["RS256"], audience="vault", issuer=ISSUER)
    assert claims["exp"] - claims["iat"] == 1200
    assert claims["kubernetes.io"]["secret"]["name"] == "x"


def test_front_proxies_name_users_in_headers(server, front_proxies):
    def status(directory: Path, holder: str, path: str = "/version", **headers: str) -> tuple[int, dict[str, object]]:
        context = server.context()
        if holder:
            context.load_cert_chain(directory / f"{holder}.crt", directory / f"{holder}.key")
        body = b"{}" if path == REVIEWS else None
        given = {f"X-Remote-{name}": value for name, value in headers.items()} | {"Content-Type": "application/json"}
        request = urllib.request.Request(server.url + path, body, given)
        try:
            with urllib.request.urlopen(request, context=context, timeout=DEADLINE) as response:
                return response.status, json.loads(response.read())
        except urllib.error.HTTPError as error:
            error.close()
            return error.code, {}

    alice = {"User": "alice", "Group": "dev", "Uid": "42", "Extra-Scopes": "a"}
    code, review = status(front_proxies, "gateway", REVIEWS, **alice)
    assert (code, review["status"]) == (
        201,
        {
            "userInfo": {
                "username": "alice",
                "uid": "42",
                "groups": ["dev", "system:authenticated"],
                "extra": {"scopes": ["a"]},
            }
        },
    )
    # The certificate alone names nobody, also one that names a group of users.
    assert status(front_proxies, "gateway")[0] == status(front_proxies, "other")[0] == 401
    assert status(front_proxies, "other", **alice)[0] == 401
    # With a user's certificate or none, the headers do not count.
    assert status(server.directory, "", REVIEWS, **alice)[0] == 403
    assert "alice" not in str(status(server.directory, "admin", REVIEWS, **alice)[1])


CONFIGURATION = """
apiVersion: apiserver.config.k8s.io/v1
kind: AuthenticationConfiguration
anonymous: {enabled: true, conditions: [{path: /livez}]}
jwt:
- issuer: {url: "https://127.0.0.1:%d", audiences: [cluster], certificateAuthority: %s}
  claimMappings:
    username: {expression: "'oidc:' + claims.sub"}
    groups: {claim: groups, prefix: "oidc:"}
  userValidationRules: [{expression: "user.username != 'oidc:mallory'", message: mallory may not}]
"""


class IssuerHandler(http.server.BaseHTTPRequestHandler):
    """Serves the documents of an issuer: `documents` by path."""

    documents: ClassVar[dict[str, object]] = {}

    def do_GET(self) -> None:
        body = json.dumps(self.documents[self.path]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments: object) -> None: ...


@contextlib.contextmanager
def running_issuer(directory: Path, key: SigningKey) -> Iterator[int]:
    """Serve an issuer over HTTPS on loopback; yields its port."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), IssuerHandler) as issuer:
        port: int = issuer.server_address[1]
        url = f"https://127.0.0.1:{port}"
        IssuerHandler.documents = {
            "/.well-known/openid-configuration": {"issuer": url, "jwks_uri": f"{url}/keys"},
            "/keys": {"keys": [key.verification.jwk()]},
        }
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(directory / "server.crt", directory / "server.key")
        issuer.socket = context.wrap_socket(issuer.socket, server_side=True)
        thread = threading.Thread(target=issuer.serve_forever)
        thread.start()
        try:
            yield port
        finally:
            issuer.shutdown()
            thread.join()


def test_an_issuers_tokens_are_accepted_by_the_configuration(tmp_path):
    write_files(tmp_path)
    key = SigningKey(ec.generate_private_key(ec.SECP256R1()))
    file = tmp_path / "authentication.yaml"
    with running_issuer(tmp_path, key) as port, contextlib.closing(ServerProcess(tmp_path)) as server:
        text = CONFIGURATION % (port, json.dumps((tmp_path / "ca.crt").read_text()))
        file.write_text(text)
        server.options["authentication-config"] = file
        server.probe = "/livez"
        server.start()
        server.write_kubeconfig()
        claims = {"iss": f"https://127.0.0.1:{port}", "aud": "cluster", "exp": time.time() + 600, "groups": ["dev"]}
        ask = ("auth", "whoami", "-o", "json", "--kubeconfig", without_user(server), "--token")
        user = json.loads(server.kubectl(*ask, key.sign({**claims, "sub": "alice"})).stdout)["status"]["userInfo"]
        assert user == {"username": "oidc:alice", "groups": ["oidc:dev", "system:authenticated"]}
        assert "Unauthorized" in server.kubectl(*ask, key.sign({**claims, "sub": "mallory"})).stderr
        assert "Unauthorized" in server.kubectl(*ask, key.sign({**claims, "sub": "alice", "aud": "x"})).stderr
        with pytest.raises(urllib.error.HTTPError, match="401"):
            server.read("/version")
        file.write_text(text.replace("{path: /livez}", "{path: /livez}, {path: /version}"))
        assert json.loads(server.read("/version"))["major"] == "1"
        assert server.stop() == 0
