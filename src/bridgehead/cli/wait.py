"""Wait until a Service, in its current state, is programmed on every ready node.

A Service is programmed when its EndpointSlices match the pods that it selects, and every node's kernel has these
endpoints and the Service. The number of ready pods does not matter: `kubectl rollout status` waits for pods. The
command works in any cluster whose nodes run `bridgehead proxy`. After --timeout the command names the missing nodes and
exits 1.

Example:

    kubectl apply -f web.yaml
    bridgehead wait service/web && curl http://...
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from typing import Annotated, Self

import typer

from bridgehead.client import ApiClient, ClientConfig, load_kubeconfig
from bridgehead.client.errors import ClientError, NotFound
from bridgehead.insight.waiting import NotProgrammed, wait_programmed
from bridgehead.objects.meta import ObjectKey
from bridgehead.objects.times import parse_duration

from .cluster_access import Kubeconfig, Name, Namespace, StateDir
from .cluster_choice import find_kubeconfig
from .exit_codes import fail, reporting_failures
from .lab_options import reporting_errors
from .service_targets import check_scope, parse_service


def command(
    target: Annotated[str, typer.Argument(metavar="service/NAME", show_default=False, help="Name of the Service.")],
    namespace: Namespace = None,
    timeout: Annotated[str, typer.Option(help="Maximum time to wait, for example 30s or 1m. 0: check once.")] = "30s",
    kubeconfig: Kubeconfig = None,
    name: Name = None,
    state_dir: StateDir = None,
) -> None:
    try:
        service, seconds = parse_service(target), parse_duration(timeout)
        check_scope(namespace, all_namespaces=False)
    except ValueError as error:
        fail("wait", error, 2)
    with reporting_errors():
        file, context = find_kubeconfig(kubeconfig, name, state_dir)
    with reporting_failures("wait", NotProgrammed, ClientError):
        config = load_kubeconfig(file, context)
        key = ObjectKey(namespace or config.namespace, service)
        try:
            sys.stdout.write(f"{asyncio.run(_wait(config, key, seconds))}\n")
        except NotFound:
            fail("wait", f'service/{service} not found in namespace "{key.namespace}"; -n chooses another namespace')
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


async def _wait(config: ClientConfig, key: ObjectKey, seconds: float) -> str:
    with _Progress() as progress:
        async with ApiClient(config, "bridgehead-wait") as client:
            return await wait_programmed(client, key, seconds, progress.show)


class _Progress:
    """The progress line on a terminal; writes nothing when standard error is no terminal."""

    def __enter__(self) -> Self:
        self._shown = ""
        return self

    def show(self, missing: str) -> None:
        if sys.stderr.isatty() and missing != self._shown:
            width = shutil.get_terminal_size().columns
            sys.stderr.write(f"\r\x1b[K{f'waiting: {missing}'[: width - 1]}")
            sys.stderr.flush()
            self._shown = missing

    def __exit__(self, *_: object) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
