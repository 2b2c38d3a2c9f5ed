"""The sandbox of one pod: made, noticed as lost, removed.

Called by the pod worker. Source: kubelet's `createPodSandbox`.
"""

from __future__ import annotations

import time
from typing import Final

from bridgehead.client.errors import NotFound
from bridgehead.kubelet.containers.context import PodContext
from bridgehead.kubelet.containers.host_names import kernel_host_name
from bridgehead.kubelet.containers.pod_containers import PodContainers
from bridgehead.kubelet.containers.resource_limits import plan_pod_limits
from bridgehead.kubelet.node.last_addresses import write_last_addresses
from bridgehead.kubelet.runtimes.runtime import RuntimeFailure, SandboxSpec
from bridgehead.kubelet.uninterrupted import uninterrupted
from bridgehead.objects.kinds import RUNTIME_CLASSES

from .unsupported_fields import has_host_ports, pod_sysctls, unsupported_fields

# Handlers of RuntimeClasses that this node has: the one that containerd configures by default.
HANDLERS: Final = ("runc",)


class PodSandbox:
    """Makes and removes the sandbox, which is `context.sandbox` while it is there."""

    def __init__(self, context: PodContext, containers: PodContainers) -> None:
        self._context = context
        self._containers = containers
        status = context.pod.status
        self._had_one = bool(status.pod_ip and status.container_statuses)

    async def create(self) -> None:
        """Raises `AddressesExhausted`, `RuntimeFailure`."""
        context, node = self._context, self._context.node
        pod, meta = context.pod, context.pod.metadata
        await self._check_runtime_class()
        if self._had_one:
            context.record("Normal", "SandboxChanged", "Pod sandbox changed, it will be killed and re-created.")
            self._containers.begin_sandbox([c.name for c in pod.spec.init_containers])
        else:
            for reason, message in unsupported_fields(pod):
                context.record("Warning", reason, message)
        hostname = node.settings.name
        if not pod.spec.host_network:
            try:
                hostname = kernel_host_name(pod, node.settings.cluster_domain)
            except ValueError as error:
                raise RuntimeFailure(str(error)) from error
        spec = SandboxSpec(
            pod_uid=meta.uid,
            namespace=meta.namespace,
            name=meta.name,
            hostname=hostname,
            host_network=pod.spec.host_network,
            host_pid=pod.spec.host_pid,
            host_ipc=pod.spec.host_ipc,
            share_processes=pod.spec.share_process_namespace,
            sysctls=pod_sysctls(pod),
            has_host_ports=has_host_ports(pod),
            ips=() if pod.spec.host_network else self._allocate_addresses(),
            limits=plan_pod_limits(pod, node.settings.pod_max_pids),
            id_base=context.id_base,
        )

        async def run() -> None:
            context.sandbox = await node.runtime.run_sandbox(spec)
            self._had_one = True

        await uninterrupted(run())

    async def _check_runtime_class(self) -> None:
        """Raise `RuntimeFailure` for a RuntimeClass that does not exist or whose handler this node does not have."""
        name = self._context.pod.spec.runtime_class_name
        if not name:
            return
        try:
            found = await self._context.node.client.get(RUNTIME_CLASSES, name)
        except NotFound as error:
            raise RuntimeFailure(str(error)) from error
        if found.handler not in HANDLERS:
            raise RuntimeFailure(
                "rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for"
                f' "{found.handler}" is configured'
            )

    def _allocate_addresses(self) -> tuple[str, ...]:
        """Return the pod's addresses. Raises `AddressesExhausted`."""
        node, uid = self._context.node, self._context.pod.metadata.uid
        before = node.addresses.last
        ips = node.addresses.allocate(uid)
        if node.addresses.last != before:
            write_last_addresses(node.settings.root, node.addresses.last)
        return ips

    def lose(self) -> None:
        """The runtime has lost the sandbox, and with it every process of the pod."""
        self._context.sandbox = None
        self._had_one = True
        self._containers.lose_sandbox(time.time())

    async def remove(self) -> None:
        """Remove the sandbox and give back the pod's addresses. Raises `RuntimeFailure`."""
        node, uid = self._context.node, self._context.pod.metadata.uid
        await node.runtime.remove_sandbox(uid)
        self._context.sandbox = None
        node.addresses.release(uid)
