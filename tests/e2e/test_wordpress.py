"""WordPress and MySQL as tutorials deploy them: images of a registry, two Services, a site whose posts stay."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image_files import push
from tests.integration.registries import PASSWORD, USER, docker_registry
from tests.token_server import Account, TokenServer

from .conftest import EXAMPLES, Lab, Namespace, eventually
from .test_balancer import address_of
from .wordpress import images
from .wordpress.site import Site

pytestmark = pytest.mark.needs("docker-registry", "umoci", "apt-get", "dpkg-deb")

REGISTRY = "registry.cn-beijing.aliyuncs.com"
NAMES = {"mysql": "wangxiaochun/mysql:8.0.29-oracle", "wordpress": "wangxiaochun/wordpress:php8.2-apache"}
MANIFESTS = EXAMPLES / "wordpress"


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenServer]:
    accounts = {
        USER: Account(PASSWORD, frozenset({"pull"})),
        "publisher": Account("another secret", frozenset({"pull", "push"})),
    }
    with TokenServer(tmp_path_factory.mktemp("tokens"), accounts).serving() as server:
        yield server


@pytest.fixture(scope="module")
def registry(
    tmp_path_factory: pytest.TempPathFactory, tokens: TokenServer, pytestconfig: pytest.Config
) -> Iterator[str]:
    """The address of a registry on loopback that has the images, for those who bring a token."""
    downloads = Path(pytestconfig.cache.mkdir("debian-packages"))
    built = images.build(tmp_path_factory.mktemp("images"), downloads)
    configuration = tokens.registry_configuration
    with docker_registry(tmp_path_factory.mktemp("registry"), authentication=configuration) as address:
        for image, name in NAMES.items():
            repository, _, tag = name.partition(":")
            token = tokens.token("publisher", f"repository:{repository}:pull,push")
            push(f"http://{address}", repository, tag, built[image], token)
        yield address


@pytest.fixture
def stopped_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registry: str) -> Iterator[Lab]:
    """A lab with a mirror of the tutorial's registry, and with the user's credentials for that registry."""
    lab = Lab("wordpress", tmp_path / "lab")
    mirror = lab.state_dir / "registries" / REGISTRY
    mirror.mkdir(parents=True)
    (mirror / "hosts.toml").write_text(f'[host."http://{registry}"]\ncapabilities = ["pull", "resolve"]\n')
    auth = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {REGISTRY: {"auth": auth}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    yield lab
    lab.stop("--delete")


def apply(demo: Namespace, file: str) -> None:
    demo.kubectl("apply", "-f", MANIFESTS / file)
    demo.rolled_out("deployment/mysql", "deployment/wordpress")


def test_w22_wordpress_and_mysql_with_images_of_a_registry(
    stopped_lab: Lab, tokens: TokenServer, tmp_path: Path
) -> None:
    lab, demo = stopped_lab, Namespace(stopped_lab, "demo")
    lab.start("--offline")
    apply(demo, "wordpress-mysql.yaml")
    assert {scope for name, scope in tokens.granted if name == USER} == {
        f"repository:{name.partition(':')[0]}:pull" for name in NAMES.values()
    }
    service = demo.get("services", "wordpress")
    assert service["spec"]["externalTrafficPolicy"] == "Local"
    address = eventually(lambda: address_of(demo, "wordpress"))
    site = Site(lab, f"http://{address}", tmp_path)
    eventually(site.is_to_be_installed)

    # The volumes of the images are gone with the pods, so a site with claims begins anew.
    apply(demo, "with-volumes.yaml")
    eventually(site.is_to_be_installed)
    site.install("A site of the lab")
    site.log_in()
    post = site.write("Written once", "A text that stays.")

    def is_there() -> bool:
        status, page = site.read(f"/?p={post}")
        return status == 200 and "A text that stays." in page and "A site of the lab" in page

    assert is_there()
    demo.kubectl("delete", "pod", "--all")
    eventually(is_there)
    lab.stop()
    lab.start("--offline")
    eventually(is_there)
