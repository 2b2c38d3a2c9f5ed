"""The plugin's options, hooks and fixtures. It imports nothing of Bridgehead until a fixture is used."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .cluster import Cluster
    from .fixture_types import Apply, Connect, Kill, Partition, Resolve, Wait
    from .kubectl import Kubectl
    from .labs import Lab

_WORKER_KEY = "bridgehead"  # of what a controller of pytest-xdist and its workers pass to each other
_NEEDS_LAB = "needs a lab of Bridgehead; this run uses the cluster of {}"
_RESOLVE_SECONDS = 10.0
_DELETE_SECONDS = 10.0

_name_key = pytest.StashKey[str]()
_has_lab_key = pytest.StashKey[bool]()
_test_key = pytest.StashKey[tuple["Cluster", str]]()  # the cluster and the namespace of a test


# --- Options ---------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("bridgehead", "Bridgehead: a Kubernetes cluster for tests")

    def add(name: str, text: str, default: str | None = None, **option: Any) -> None:
        group.addoption(f"--bridgehead-{name}", dest=_destination(name), default=None, help=text, **option)
        parser.addini(f"bridgehead_{name.replace('-', '_')}", f"{text} Option: --bridgehead-{name}.", default=default)

    add(
        "kubeconfig",
        "Run the tests on the cluster of this kubeconfig instead of a lab. Default: $BRIDGEHEAD_KUBECONFIG.",
        metavar="FILE",
    )
    add("nodes", "Number of nodes of the lab.", "2", metavar="N")
    add("ip-family", "IP families of the lab: ipv4, ipv6 or dual.", metavar="FAMILY")
    add("store", "Store of the lab: sqlite or etcd.", metavar="STORE")
    add("proxy-mode", "Mode of the lab's proxies: nftables, iptables, ipvs or userspace.", metavar="MODE")
    add("up", "Further options of `bridgehead up`, for example '--balancer --online'.", "", metavar="OPTIONS")
    text = "Give each worker of pytest-xdist a lab of its own. Default: all workers share one."
    group.addoption(
        "--bridgehead-lab-per-worker", dest=_destination("lab-per-worker"), action="store_true", default=None, help=text
    )
    parser.addini("bridgehead_lab_per_worker", f"{text} Option: --bridgehead-lab-per-worker.", "bool", default=False)


def _destination(name: str) -> str:
    return f"bridgehead_{name.replace('-', '_')}"


def _setting(config: pytest.Config, name: str) -> Any:
    value = config.getoption(_destination(name))
    return config.getini(_destination(name)) if value is None else value


def _kubeconfig_of_user(config: pytest.Config) -> Path | None:
    """Return the kubeconfig of the cluster that takes the lab's place, if there is one."""
    found = _setting(config, "kubeconfig") or os.environ.get("BRIDGEHEAD_KUBECONFIG")
    return Path(found).expanduser().absolute() if found else None


def _up_options(config: pytest.Config) -> list[str]:
    import shlex

    settings = {name: _setting(config, name) for name in ("nodes", "ip-family", "store")}
    options = [f"--{name}={value}" for name, value in settings.items() if value]
    return options + shlex.split(_setting(config, "up"))


# --- The lab of a session --------------------------------------------------------------------------------------------


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give a worker of pytest-xdist the name of the lab that all share, and the process with which the lab ends."""
    node.workerinput[_WORKER_KEY] = {"name": _lab_name(node.config), "controller": os.getpid()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    if error or getattr(node, "workeroutput", {}).get(_WORKER_KEY):
        node.config.stash[_has_lab_key] = True


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_WORKER_KEY] = session.config.stash.get(_has_lab_key, False)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Stop the lab that the workers shared. The lab's starter would do it as well, after this process has ended."""
    if config.stash.get(_has_lab_key, False) and not hasattr(config, "workerinput"):
        _stop_lab(_lab_name(config))


def _stop_lab(name: str) -> None:
    from bridgehead.lab import state_directories

    from .starter import stop

    stop(state_directories.find_files(name, None))


def _lab_name(config: pytest.Config) -> str:
    if _name_key not in config.stash:
        config.stash[_name_key] = f"pytest-{os.urandom(4).hex()}"
    return config.stash[_name_key]


@pytest.fixture(scope="session")
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab for the session. It ends with the session, also if pytest is killed."""
    config = request.config
    if (kubeconfig := _kubeconfig_of_user(config)) is not None:
        pytest.skip(_NEEDS_LAB.format(kubeconfig))
    from . import sessions

    name, tests, directory = _lab_name(config), os.getpid(), tmp_path_factory.getbasetemp()
    shared = None if _setting(config, "lab-per-worker") else getattr(config, "workerinput", {}).get(_WORKER_KEY)
    if shared is not None:
        name, directory = shared["name"], directory.parent
        # A worker on another machine has another parent, and its own lab.
        tests = shared["controller"] if os.getppid() == shared["controller"] else tests
    try:
        found = sessions.open_lab(
            name, _up_options(config), tests, directory / "bridgehead.lock", _setting(config, "proxy-mode")
        )
    except sessions.StartFailed as error:
        raise pytest.fail.Exception(f"the lab does not start: {error}", pytrace=False) from None
    config.stash[_has_lab_key] = shared is not None
    try:
        yield found
    finally:
        found.close()
        if shared is None:
            _stop_lab(name)


@pytest.fixture(scope="session")
def _bridgehead_lab(request: pytest.FixtureRequest) -> Lab | None:
    """The session's lab; None on another cluster. For fixtures that need none."""
    if _kubeconfig_of_user(request.config) is not None:
        return None
    found: Lab = request.getfixturevalue("lab")
    return found


@pytest.fixture(scope="session")
def _bridgehead_cluster(request: pytest.FixtureRequest, _bridgehead_lab: Lab | None) -> Iterator[Cluster]:
    """The cluster under test: the lab, or that of the user's kubeconfig."""
    from bridgehead.client.errors import ClientError

    from .cluster import Cluster

    kubeconfig = _kubeconfig_of_user(request.config)
    try:
        if _bridgehead_lab is not None:
            found = Cluster(_bridgehead_lab.kubeconfig, _bridgehead_lab.context)
        else:
            assert kubeconfig is not None  # noqa: S101 - else there would be a lab
            found = Cluster(kubeconfig)
    except ClientError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None
    with contextlib.closing(found):
        yield found


# --- Fixtures of each test -------------------------------------------------------------------------------------------


@pytest.fixture
def namespace(request: pytest.FixtureRequest, _bridgehead_cluster: Cluster) -> Iterator[str]:
    """The name of a new namespace, which is deleted after the test."""
    from . import namespaces

    cluster, test = _bridgehead_cluster, request.node.name
    name = cluster.call(lambda client: namespaces.create(client, test))
    request.node.stash[_test_key] = cluster, name
    try:
        yield name
    finally:
        del request.node.stash[_test_key]
        with contextlib.suppress(TimeoutError):
            cluster.call(lambda client: namespaces.delete(client, name), _DELETE_SECONDS)


@pytest.fixture
def kubeconfig(namespace: str, tmp_path: Path, _bridgehead_cluster: Cluster) -> Path:
    """A kubeconfig whose current context has the test's namespace, for any client and program."""
    import json

    from bridgehead.yaml_loader import load

    from .kubeconfigs import UnusableKubeconfig, for_namespace

    source = _bridgehead_cluster.kubeconfig
    try:
        content = for_namespace(load(source.read_bytes()), source.parent, _bridgehead_cluster.context, namespace)
    except UnusableKubeconfig as error:
        raise pytest.fail.Exception(f"{source}: {error}", pytrace=False) from None
    path = tmp_path / "kubeconfig"
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(content, file)
    return path


@pytest.fixture
def kubectl(kubeconfig: Path) -> Kubectl:
    """`kubectl("get", "pods")` runs kubectl in the test's namespace and returns its output."""
    from .kubectl import Kubectl

    return Kubectl(kubeconfig)


@pytest.fixture
def apply(request: pytest.FixtureRequest, namespace: str, _bridgehead_cluster: Cluster) -> Apply:
    """`apply(manifests)` applies texts, files, directories or values in the test's namespace."""
    from .fixture_types import Apply

    return Apply(_bridgehead_cluster, namespace, request.path.parent, {})


@pytest.fixture
def wait_programmed(namespace: str, _bridgehead_cluster: Cluster) -> Wait:
    """`wait_programmed(service)` waits until the Service has an endpoint, and every node's kernel has it."""
    from .fixture_types import Wait

    return Wait(_bridgehead_cluster, namespace)


@pytest.fixture
def resolve(namespace: str, _bridgehead_cluster: Cluster, _bridgehead_lab: Lab | None) -> Resolve:
    """`resolve(name)` returns the addresses that a pod of the test's namespace gets from the cluster's DNS."""
    from . import resolving

    cluster, lab = _bridgehead_cluster, _bridgehead_lab

    def ask(names: tuple[str, ...]) -> Any:
        if lab is not None:
            return resolving.ask_inside(cluster, lab.inside(), names)
        return cluster.call(lambda client: resolving.ask_by_port_forward(client, names))

    def resolve(name: str, seconds: float = _RESOLVE_SECONDS) -> tuple[str, ...]:
        return resolving.resolve(name, namespace, ask, seconds)

    return resolve


@pytest.fixture
def connect(lab: Lab, resolve: Resolve) -> Connect:
    """`connect("web:80")` returns a socket, connected from beside the nodes; `connect.http(url)` returns a response."""
    from .fixture_types import Connect

    return Connect(lab, resolve)


@pytest.fixture(scope="session")
def partition(lab: Lab) -> Partition:
    """`with partition("node2"):` cuts a node from the others."""
    return lab.partition


@pytest.fixture(scope="session")
def kill(lab: Lab) -> Kill:
    """`kill("kubelet-node1")` kills a part of the lab, and waits until it runs again."""
    return lab.kill


@pytest.fixture
def api(kubeconfig: Path) -> Iterator[Any]:
    """An ApiClient of the official client, the package `kubernetes`."""
    config = pytest.importorskip("kubernetes.config", reason="the package kubernetes is not installed")
    with config.new_client_from_config(str(kubeconfig), persist_config=False) as client:
        yield client


@pytest.fixture
def kr8s(kubeconfig: Path, namespace: str) -> Any:
    """A client of the package kr8s, for the test's namespace."""
    module = pytest.importorskip("kr8s", reason="the package kr8s is not installed")
    return module.api(kubeconfig=str(kubeconfig), namespace=namespace)


# --- Reports of failures ---------------------------------------------------------------------------------------------


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add Events, pods and logs of the test's namespace to the report of a failure."""
    report = yield
    test = item.stash.get(_test_key, None)
    if report.failed and test is not None:
        report.sections.append((f"Bridgehead: namespace {test[1]}", _describe(*test)))
    return report


def _describe(cluster: Cluster, namespace: str) -> str:
    from . import failure_report

    try:
        return cluster.call(lambda client: failure_report.collect(client, namespace), failure_report.SECONDS)
    except TimeoutError:
        return f"Events and logs could not be read within {failure_report.SECONDS:g} s"
