"""Access of the commands that diagnose a cluster to its API and to its network namespaces.

def command(kubeconfig: Kubeconfig = None, name: Name = None, state_dir: StateDir = None) -> None:
    cluster = choose_cluster("doctor", kubeconfig, name, state_dir)
    run_reporting("doctor", diagnose(cluster))

async def diagnose(cluster: Cluster) -> None:
    async with cluster.connect("bridgehead-doctor") as (client, namespaces): ...
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import typer

from bridgehead.lab import state_directories
from bridgehead.lab.errors import LabError
from bridgehead.lab.plan import LabFiles, RunningLab

from .cluster_choice import find_kubeconfig
from .exit_codes import reporting_failures
from .lab_options import Name, StateDir, reporting_errors
from .parsing import path

if TYPE_CHECKING:
    from bridgehead.client import ApiClient, ClientConfig
    from bridgehead.insight.network_namespaces import NetworkNamespaces

__all__ = [
    "AllNamespaces",
    "Cluster",
    "Form",
    "Kubeconfig",
    "Name",
    "Namespace",
    "Node",
    "Output",
    "StateDir",
    "choose_cluster",
    "run_reporting",
]

T = TypeVar("T")

# Types of options, as those of `lab_options`.
Kubeconfig = Annotated[
    Path | None, typer.Option(envvar="KUBECONFIG", parser=path, help="Kubeconfig file. Default: the lab's.")
]
Namespace = Annotated[
    str | None,
    typer.Option("--namespace", "-n", show_default=False, help="Namespace. Default: that of the kubeconfig's context."),
]
AllNamespaces = Annotated[
    bool, typer.Option("--all-namespaces", "-A", help="All namespaces, the default without a name.")
]
Node = Annotated[str | None, typer.Option("--node", show_default=False, help="Node. Default: the first one.")]
Form = Literal["text", "json"]
Output = Annotated[Form, typer.Option("--output", "-o", help="Form of the result.")]


@dataclass(frozen=True)
class Cluster:
    """The cluster that a command is for. `lab`, `files`: None unless the cluster is a lab that runs on this machine.

    `config.namespace` is the namespace of the kubeconfig's context.
    """

    config: ClientConfig
    lab: RunningLab | None = None
    files: LabFiles | None = None

    def namespace(self, chosen: str | None) -> str:
        """Return the chosen namespace; without one, that of the kubeconfig's context."""
        return chosen or self.config.namespace

    @contextlib.asynccontextmanager
    async def connect(self, user_agent: str) -> AsyncIterator[tuple[ApiClient, NetworkNamespaces]]:
        """Yield a client of the API and the cluster's network namespaces. Sends nothing by itself.

        Raises Unreachable when the lab has ended.
        """
        from bridgehead.client import ApiClient

        async with ApiClient(self.config, user_agent) as client:
            yield client, self._namespaces(client)

    def _namespaces(self, client: ApiClient) -> NetworkNamespaces:
        if self.lab is not None and self.files is not None:
            from bridgehead.client.errors import Unreachable

            from .lab_network_namespaces import LabNamespaces

            try:
                return LabNamespaces(self.lab, self.files)
            except OSError:
                raise Unreachable("the lab has ended") from None
        from bridgehead.insight.remote_namespaces import RemoteNamespaces

        return RemoteNamespaces(client)


def choose_cluster(command: str, kubeconfig: Path | None, name: str | None, state_dir: Path | None) -> Cluster:
    """Return the cluster of the options; prints a line and exits with code 1 for an invalid choice.

    `command` is the name of the command, for errors.
    """
    from bridgehead.client import load_kubeconfig
    from bridgehead.client.errors import ConfigError

    with reporting_errors():
        file, context = find_kubeconfig(kubeconfig, name, state_dir)
    with reporting_failures(command, ConfigError):
        config = load_kubeconfig(file, context)
    return _find_cluster(config, file)


def run_reporting(command: str, work: Coroutine[Any, Any, T], *failures: type[Exception]) -> T:
    """Run the work of a command. Errors of the API, and those of `exit_codes`, are one line and exit code 1."""
    from bridgehead.client.errors import ClientError

    with reporting_failures(command, ClientError, *failures):
        try:
            return asyncio.run(work)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None
    raise AssertionError("reporting_failures exits")


def _find_cluster(config: ClientConfig, kubeconfig: Path) -> Cluster:
    """Return the cluster of a configuration, with the running lab whose API server it names. `kubeconfig`: its file.

    Labs outside of the default directory are found if the file is the lab's own.
    """
    from bridgehead.client import load_kubeconfig
    from bridgehead.client.errors import ConfigError

    candidates = [LabFiles(kubeconfig.resolve().parent)]
    with contextlib.suppress(LabError):
        candidates += state_directories.list_running().values()
    for files in candidates:
        with contextlib.suppress(LabError, ConfigError, OSError):
            lab = state_directories.read_running(files)
            own = load_kubeconfig(files.kubeconfig, lab.config.context)
            if (own.server, own.ca) == (config.server, config.ca):
                return Cluster(config, lab, files)
    return Cluster(config)
