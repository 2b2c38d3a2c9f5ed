"""Tokens and certificates of users, with kubectl and the controllers."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import urllib.error
from collections.abc import AsyncIterator, Iterator

import jwt
import pytest

from bridgehead.client import ApiClient, load_config
from bridgehead.controllers.manager import Manager, Settings

from .api_world import running
from .apiserver_process import DEADLINE, ServerProcess, write_files

pytestmark = [pytest.mark.integration, pytest.mark.needs("kubectl")]

ISSUER = "https://issuer.example.com"
CONTROLLERS = ("serviceaccount-controller", "serviceaccount-token-controller")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with contextlib.closing(ServerProcess(tmp_path_factory.mktemp("authentication"))) as server:
        write_files(server.directory)
        server.more_options["service-account-issuer"] = ISSUER
        server.start()
        server.write_kubeconfig()
        yield server
        assert server.stop() == 0


@pytest.fixture
async def controllers(server) -> AsyncIterator[None]:
    here = server.directory
    settings = Settings(root_ca=(here / "ca.crt").read_text(), service_account_private_key=here / "sa.key")
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
