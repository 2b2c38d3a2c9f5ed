"""Start a cluster in namespaces of its own: an API server, controllers and nodes that run real pods.

Without --detach or --wait the command keeps running, prints the parts' logs, and stops the cluster at Ctrl-C.

With --json, standard output has one JSON object on one line when the cluster is ready, or the error, and nothing else.
Exits 3 when this machine cannot run a cluster. Docs: docs/exit-codes.md.

Examples:

    bridgehead up --detach
    bridgehead up --wait --json | jq -r .kubeconfig
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import os
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TextIO

import msgspec

from bridgehead import cli
from bridgehead.forwarding.local_ports import PortUnusable, open_port
from bridgehead.forwarding.published import FORM, parse_all_published
from bridgehead.heap import no_collection
from bridgehead.lab import preflight, state_directories
from bridgehead.lab.addressing import MAX_API_SERVERS, MAX_NODES, IpFamily
from bridgehead.lab.directory_owner import check_owner, close_to_others
from bridgehead.lab.errors import AlreadyRunning, LabError, NotRunning
from bridgehead.lab.gateway import gateway_lock
from bridgehead.lab.gateway.addressing import GatewayPlan
from bridgehead.lab.gateway.description import describe_gateway
from bridgehead.lab.ids import IdMap, describe_missing_ids
from bridgehead.lab.packages import describe_missing_tools
from bridgehead.lab.plan import LabConfig, LabFiles, StoreKind
from bridgehead.lab.range_choice import Role, choose_ranges

from . import dashboard_process, logs_setup
from .cluster_access import Form
from .groups import OPTIONS
from .lab_options import DEFAULT_NAME, name_row, options_of, own_command, reporting_errors, state_dir_row
from .logs import follow
from .options import option
from .up_result import render_lab, reporting_errors_as_json, wait_running

# Modules that this process uses only after it has forked the lab's first process, where parts need what these import:
# the API client and cryptography. Loaded before the fork, they are loaded once.
_LOADED_FOR_ALL = ("bridgehead.lab.certificates", "bridgehead.lab.readiness")
_EVENT_SECONDS = 3600.0  # the API server's --event-ttl


def _range_row(whose: str, default: str) -> str | None:
    row: str | None = option(
        None,
        OPTIONS,
        f"Range of the addresses of {whose}, or two, one for each IP family. Default: as in the previous run, else"
        f" {default}, or others if the machine is in these.",
        metavar="CIDR[,CIDR]",
    )
    return row


@dataclass(frozen=True, kw_only=True)
class Options:
    name: str | None = name_row()
    nodes: int | None = option(
        None, OPTIONS, "Number of nodes. Default: as in the previous run, else 3.", min=1, max=MAX_NODES
    )
    detach: bool = option(False, OPTIONS, "Return when the cluster is ready.", "--detach", "-d")
    wait: bool = option(
        False,
        OPTIONS,
        "As --detach, and if the cluster runs already, or is starting, wait until it is ready; options must then be as"
        " it was started with.",
    )
    output: Form = option("text", OPTIONS, "Form of the result.", "--output", "-o")
    json: bool = option(False, OPTIONS, "As --output json.")
    ephemeral: bool = option(False, OPTIONS, "Delete the state at `bridgehead down`.")
    port: int | None = option(
        None, OPTIONS, "Port of the API server on 127.0.0.1. Default: the first free port from 6443.", min=1, max=65535
    )
    ip_family: IpFamily | None = option(
        None,
        OPTIONS,
        "IP families of pods and Services. Default: as in the previous run, else dual if the kernel has IPv6.",
    )
    fabric_cidr: str | None = _range_row("the nodes, the API servers and load balancers", "10.0.0.0/24,fd00:10::/64")
    pod_cidr: str | None = _range_row("pods", "10.244.0.0/16,fd00:10:244::/56")
    service_cidr: str | None = _range_row("Services", "10.96.0.0/12,fd00:10:96::/112")
    store: StoreKind | None = option(
        None,
        OPTIONS,
        "Store of the objects: sqlite, or etcd (Debian: etcd-server). Default: as in the previous run, else sqlite.",
    )
    api_servers: int | None = option(
        None,
        OPTIONS,
        "Number of API servers, each with controllers and a member of etcd; more than one needs --store etcd."
        " Default: as in the previous run, else 1.",
        min=1,
        max=MAX_API_SERVERS,
    )
    restore: Path | None = option(
        None,
        OPTIONS,
        "Begin with the objects of a backup, whose store may be of the other kind; the lab's former store is kept.",
        metavar="FILE",
    )
    node_dns: bool | None = option(
        None,
        OPTIONS,
        "Run a DNS server on each node, beside the cluster's two. Default: as in the previous run, else only"
        " where the kernel is older than 5.7 and loses simultaneous queries.",
        "--node-dns/--no-node-dns",
    )
    balancer: bool | None = option(
        None,
        OPTIONS,
        "Give Services of type LoadBalancer addresses on the cluster's network. Default: as in the previous"
        " run, else yes.",
        "--balancer/--no-balancer",
    )
    host_access: bool | None = option(
        None,
        OPTIONS,
        "Let hostPath volumes reach this machine's files. Default: as in the previous run, else no.",
        "--host-access/--no-host-access",
    )
    offline: bool | None = option(
        None,
        OPTIONS,
        "Pull images only from registries on this machine's loopback; tutorials' images are then played by"
        " stand-ins. Default: as in the previous run, else online.",
        "--offline/--online",
        envvar="BRIDGEHEAD_OFFLINE",
    )
    publish: list[str] | None = option(
        None,
        OPTIONS,
        f"Lead a port of 127.0.0.1 to a Service, or to a node port: {FORM}. May be repeated. Default: as in the"
        " previous run; '' for none.",
    )
    host_routes: bool | None = option(
        None,
        OPTIONS,
        "Give this machine routes to the lab's nodes, pods and Services, until the lab ends; only root can. Default: as"
        " in the previous run, else no.",
        "--host-routes/--no-host-routes",
    )
    outside: bool | None = option(
        None,
        OPTIONS,
        "Let pods reach and resolve what is outside of this machine, but not the machine itself (needs slirp4netns)."
        " Default: as in the previous run, else no.",
        "--outside/--no-outside",
    )
    dashboard: bool = option(False, OPTIONS, "Show the cluster in the browser, too; the closing text has the address.")
    state_dir: Path | None = state_dir_row()

    @property
    def is_json(self) -> bool:
        return self.json or self.output == "json"

    @property
    def wanted_ranges(self) -> Mapping[Role, str | None]:
        return {"fabric": self.fabric_cidr, "pods": self.pod_cidr, "services": self.service_cidr}


class _Notes(NamedTuple):
    """Texts for the end of `up`: lines about the lab's gateway, and sentences about its addresses."""

    gateway: str
    addresses: tuple[str, ...]


def command(options: Options) -> None:
    with reporting_errors(), reporting_errors_as_json(options.is_json):
        began = time.monotonic()
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` ignores SIGHUP
                signal.signal(number, signal.default_int_handler)
        name = options.name or DEFAULT_NAME
        files = state_directories.find_files(name, options.state_dir)
        again = options_of(name, options.state_dir)
        # No other user may write to the lab's files, whatever the shell's umask allows.
        os.umask(os.umask(0o077) | 0o022)
        check_owner(files.root)
        state_directories.check_directory(files)
        try:
            lock = state_directories.lock(files)
        except AlreadyRunning as error:
            if not options.wait:
                raise AlreadyRunning(_already_running(name, files, again)) from error
            config = wait_running(files, options, options.wanted_ranges, again, partial(_wait_ready, files=files))
            _report(config, files, options, began)
            return
        try:
            try:
                _claim(files)
                config, id_map, notes = _start(name, options, files, lock)
            finally:
                if not files.config.exists():
                    state_directories.remove_unused(files)
                os.close(lock)  # the lab's first process has it, too
            _wait_ready(config, files)
        except AlreadyRunning:
            raise  # an earlier lab, which this command has not started
        except BaseException:
            with contextlib.suppress(NotRunning):
                state_directories.stop(files)
            raise
        lacks = [*notes.addresses, describe_missing_tools(preflight.missing_pod_tools()), describe_missing_ids(id_map)]
        page = dashboard_process.start(files) if options.dashboard else None
        report = partial(_report, config, files, options, began, lacks=lacks, page=page, gateway=notes.gateway)
        if options.detach or options.wait:
            report()
        else:
            _stay(files, report, has_logs=not options.is_json)


def _report(
    config: LabConfig,
    files: LabFiles,
    options: Options,
    began: float,
    *,
    lacks: Iterable[str] = (),
    page: dashboard_process.Dashboard | None = None,
    gateway: str = "",
) -> None:
    """Print the result when the lab is ready. `began`: monotonic. For `lacks` see `_closing_screen`.

    `gateway`: lines about the lab's gateway, or "".
    """
    seconds = time.monotonic() - began
    if options.is_json:
        text = render_lab(config, files, seconds, page.address if page else "")
    else:
        is_detached = options.detach or options.wait
        notes = "\n".join(filter(None, (page.sentence if page else "", gateway)))
        again = options_of(options.name or DEFAULT_NAME, options.state_dir)
        text = _closing_screen(config, again, seconds, is_detached, lacks, notes) + ("" if is_detached else "\n")
    sys.stdout.write(text)
    sys.stdout.flush()


def _claim(files: LabFiles) -> None:
    """Close the state directory to others, and wait for the end of an earlier lab in it. Raises `LabError`."""
    close_to_others(files.root)
    gateway_lock.wait_ended(files)
    if not files.config.exists():
        state_directories.await_orphan(files)


def _start(name: str, options: Options, files: LabFiles, lock: int) -> tuple[LabConfig, IdMap | None, _Notes]:
    """Check the machine and start the lab's first process. The caller must have no other threads.

    Returns the lab's configuration, the map of its user namespace, None without one, and texts for the end of `up`.
    """
    with no_collection():
        from bridgehead.lab import launch, machine_networks, roots, user_namespace
        from bridgehead.lab.gateway import machine

        for module in _LOADED_FOR_ALL:
            importlib.import_module(module)
    gc.freeze()  # the processes that are forked now share these objects, which a collection would write to
    preflight.extend_path()
    before = state_directories.read_config(files)
    if before and before.ephemeral:
        state_directories.empty(files)
        before = None
    has_host_access = preflight.choose_host_access(options.host_access, before)
    lack_of_ipv6 = preflight.check_host(files.root, has_host_access=has_host_access)
    if options.restore is not None:
        _check_backup(options.restore)
    store, api_servers = preflight.choose_store(
        options.store, options.api_servers, before, is_restored=options.restore is not None
    )
    preflight.check_space(files.root, api_servers if store == "etcd" and before is None else 0)
    id_map, id_base = None, None
    if not (has_host_access and user_namespace.is_full_root()):
        id_map, id_base = user_namespace.choose_id_map(str(files.root), before.id_base if before else None)
    owner = id_map.root if id_map and id_base is not None else None
    family = preflight.choose_ip_family(options.ip_family, before, lack_of_ipv6)
    ranges, avoided = choose_ranges(options.wanted_ranges, family, before, machine_networks.read_networks())
    publish = _choose_published(options.publish, before)
    with (
        preflight.open_api_socket(options.port, before.port if before else None) as api_socket,
        _open_ports(publish) as published,
    ):
        config = LabConfig(
            name=before.name if before else name,
            nodes=options.nodes or (before.nodes if before else 3),
            port=api_socket.getsockname()[1],
            ephemeral=options.ephemeral,
            ip_family=family,
            node_dns=preflight.choose_node_dns(options.node_dns, before, os.uname().release),
            balancer=options.balancer if options.balancer is not None else (before is None or before.balancer),
            host_access=has_host_access,
            offline=options.offline if options.offline is not None else (before is not None and before.offline),
            has_hosts=any(files.registries.glob("*/hosts.toml")),
            store=store,
            api_servers=api_servers,
            publish=publish,
            chosen_ranges=ranges,
            host_routes=_choose(options.host_routes, before.host_routes if before else False),
            outside=_choose(options.outside, before.outside if before else False),
            id_base=id_base,
        )
        gateway = machine.plan_gateway(config, id_map)
        with _writing(files):
            roots.make_state_directories(files, owner)
            state_directories.keep_previous_logs(files)
            files.parts.unlink(missing_ok=True)
            if options.restore is not None:
                _prepare(config, files, owner)
                # With --json, standard output is for the result only.
                _restore(config, files, options.restore, sys.stderr if options.is_json else sys.stdout)
            files.config.write_bytes(msgspec.json.encode(config))
        logs_setup.configure()
        launch.launch(
            config,
            files,
            id_map=id_map,
            api_socket=api_socket,
            published=published,
            lock_fd=lock,
            run_part=cli.main,
            preload=cli.preload,
            puller=puller_program(),
            prepare=partial(_prepare, config, files, owner),
        )
        machine_side = _start_gateway(gateway, config, files, id_map) if gateway else ""
    return config, id_map, _Notes(machine_side, avoided)


def _choose(wanted: bool | None, before: bool) -> bool:
    """Return what is wanted, else as in the previous run, else no."""
    return before if wanted is None else wanted


def _start_gateway(gateway: GatewayPlan, config: LabConfig, files: LabFiles, id_map: IdMap | None) -> str:
    """Start the gateway of a lab that runs, and return lines about it. Raises `LabError`."""
    from bridgehead.lab.gateway import process

    lock_fd = gateway_lock.lock(files)
    try:
        lack = process.start(gateway, files, state_directories.read_running(files), id_map, lock_fd)
    finally:
        os.close(lock_fd)
    return "\n".join(describe_gateway(gateway, config.ranges[0].cluster_dns, lack, own_command()))


def _choose_published(wanted: list[str] | None, before: LabConfig | None) -> tuple[str, ...]:
    """Return the texts of the ports to publish. Raises `LabError`."""
    if wanted is None:
        return before.publish if before else ()
    texts = tuple(text for text in wanted if text)
    try:
        parse_all_published(texts)
    except ValueError as error:
        raise LabError(f"--publish: {error}") from None
    return texts


@contextlib.contextmanager
def _open_ports(publish: tuple[str, ...]) -> Iterator[list[socket.socket]]:
    """Bind the published ports. Raises `LabError`."""
    with contextlib.ExitStack() as stack:
        try:
            opened = [open_port(each.protocol, each.local) for each in parse_all_published(publish)]
        except PortUnusable as error:
            raise LabError(f"{error}; --publish LOCAL:... chooses another port, and --publish '' none") from None
        for each in opened:
            stack.enter_context(each)
        yield opened


def puller_program() -> tuple[str, ...]:
    """Return the first arguments of the puller's program. The program finds the modules of this process, and none in
    its working directory, which is the lab's."""
    paths = [os.path.abspath(path) for path in sys.path if path]
    run = f"sys.path[:] = {paths!r}; runpy.run_module('bridgehead.cli.puller', run_name='__main__')"
    return sys.executable, "-I", "-c", f"import runpy, sys; {run}"


def _prepare(config: LabConfig, files: LabFiles, owner: tuple[int, int] | None) -> None:
    """Write the certificates of the parts, while the lab's first process loads their code."""
    from bridgehead.lab import certificates, roots

    with _writing(files):
        certificates.make_certificates(config, files)
        roots.give_credentials(files, owner)


def _check_backup(backup: Path) -> None:
    """Raise `LabError` for a file that is no backup."""
    from bridgehead.storage import StorageError
    from bridgehead.storage.backups import check_copy

    try:
        check_copy(backup)
    except StorageError as error:
        raise LabError(str(error)) from None


def _restore(config: LabConfig, files: LabFiles, backup: Path, output: TextIO) -> None:
    """Restore the lab's objects in another process, which enters the network of a new etcd; print a line to `output`.

    Raises `LabError`.
    """
    sys.stdout.flush()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(reader)
            from .lab_restoration import restore_lab

            answer = f"+{restore_lab(config, files, backup, _EVENT_SECONDS)}"
        except BaseException as error:  # noqa: BLE001 - forked: must not return into the command's stack
            answer = f"-{error or type(error).__name__}"
        try:
            os.write(writer, answer.encode())
        finally:
            os._exit(0)
    os.close(writer)
    with open(reader, encoding="utf-8") as answers:
        answer = answers.read()
    os.waitpid(pid, 0)
    if not answer.startswith("+"):
        raise LabError(answer.removeprefix("-") or "the restoration ended without an error message")
    output.write(f"{answer[1:]}\n")
    output.flush()


@contextlib.contextmanager
def _writing(files: LabFiles) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LabError(f"cannot write to {files.root}: {error.strerror}") from error


def _wait_ready(config: LabConfig, files: LabFiles) -> None:
    from rich.console import Console

    from bridgehead.lab import readiness

    console = Console(stderr=True, highlight=False)
    with asyncio.Runner() as runner:
        runner.get_loop()  # first, so that a Ctrl-C leaves no coroutine that was never awaited
        if not console.is_terminal or console.is_dumb_terminal:
            runner.run(readiness.bring_up(config, files, _print_progress))
            return
        with console.status("starting", spinner="dots" if console.encoding.startswith("utf") else "line") as spinner:
            runner.run(readiness.bring_up(config, files, lambda what: spinner.update(f"waiting for {what}")))


def _print_progress(what: str) -> None:
    """Print a line to standard error, which is no terminal; without a reader (`2>&1 | head`) the lab starts, too."""
    with contextlib.suppress(OSError):
        os.write(2, f"waiting for {what}\n".encode())


def _closing_screen(
    config: LabConfig, options: str, seconds: float, detached: bool, lacks: Iterable[str], notes: str
) -> str:
    """Return what `up` prints at its end.

    `lacks`: sentences about what pods lack, and about addresses; "" for nothing. `notes`: lines about the dashboard and
    the gateway, or "".
    """
    me = own_command()
    nodes = "1 node" if config.nodes == 1 else f"{config.nodes} nodes"
    servers = f", {config.api_servers} API servers" if config.api_servers > 1 else ""
    lacking = "" if shutil.which("kubectl") else " (with a kubectl, which is missing here; Debian: kubernetes-client)"
    address = "$(kubectl get service web -o jsonpath={.spec.clusterIP})"
    url = f'"http://[{address}]"' if config.ip_family == "ipv6" else f"http://{address}"
    return f"""\
The lab "{config.name}" is ready after {seconds:.1f} s: {nodes}{servers}, the API at https://127.0.0.1:{config.port}.
{f"{notes}{chr(10)}" if notes else ""}{_published(config)}
Try next{lacking}:
  eval "$({me} env{options})"
  kubectl create deployment web --image=nginx --replicas=3 && kubectl expose deployment web --port=80
  kubectl rollout status deployment web
  {me} exec{options} -- curl -s {url}
To learn how it works: {me} tour{options}
If a Service does not work: {me} doctor{options}

{f"Stop it with: {me} down{options}" if detached else "Ctrl-C stops it."}
{"".join(f"{lack}{chr(10)}" for lack in lacks if lack)}"""


def _published(config: LabConfig) -> str:
    """Return a line for each published port."""
    return "".join(f"Published on this machine: {each}\n" for each in parse_all_published(config.publish))


def _already_running(name: str, files: LabFiles, options: str) -> str:
    return (
        f"the lab {state_directories.find_name(files, name)!r} is already running: KUBECONFIG={files.kubeconfig};"
        f" `{own_command()} down{options}` stops it, `up --name OTHER` starts another beside it"
    )


def _stay(files: LabFiles, report: Callable[[], None], *, has_logs: bool) -> None:
    """Call `report` and print the parts' logs until Ctrl-C, SIGTERM, the lab's end, or the end of the reader of
    standard output."""
    logs = sorted(files.log("init").parent.glob("*.log")) if has_logs else []
    try:
        # An interrupt between a write and its end would have the text written again, at the end of the process.
        held = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT, signal.SIGTERM, signal.SIGHUP))
        try:
            report()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        follow(logs, until=lambda: not state_directories.is_running(files))
    except KeyboardInterrupt:
        sys.stderr.write("\nstopping\n")
    finally:
        with contextlib.suppress(NotRunning):
            state_directories.stop(files)
