"""Injectors: one for each kind of fault, which injects it into a lab and removes it."""

from chaos.faults import FaultKind

from . import processes
from .disk import full_disk
from .network import drop, slow_link
from .processes import kill, kill_backend, part, part_of_node, stop
from .rollouts import replace_pods
from .rules import flush_rules, second_proxy
from .target import Injector, NotPossible, Target, World

__all__ = ["INJECTORS", "NotPossible", "Target", "World"]

INJECTORS: dict[FaultKind, Injector] = {
    FaultKind.KILL_API_SERVER: kill(part("apiserver")),
    FaultKind.STOP_API_SERVER: stop(part("apiserver")),
    FaultKind.KILL_CONTROLLERS: kill(part("controllers")),
    FaultKind.STOP_CONTROLLERS: stop(part("controllers")),
    FaultKind.KILL_KUBELET: kill(part_of_node("kubelet")),
    FaultKind.STOP_KUBELET: stop(part_of_node("kubelet")),
    FaultKind.KILL_RUNTIME: kill(part_of_node("runtime")),
    FaultKind.STOP_RUNTIME: stop(part_of_node("runtime")),
    FaultKind.KILL_PROXY: kill(processes.find_proxy),
    FaultKind.STOP_PROXY: stop(processes.find_proxy),
    FaultKind.KILL_DNS: kill(processes.find_dns),
    FaultKind.STOP_DNS: stop(processes.find_dns),
    FaultKind.KILL_BACKEND: kill_backend,
    FaultKind.REPLACE_PODS: replace_pods,
    FaultKind.PARTITION: drop("drop"),
    FaultKind.PACKET_LOSS: drop("numgen random mod 100 < 20 drop"),
    FaultKind.SLOW_LINK: slow_link,
    FaultKind.FULL_DISK: full_disk,
    FaultKind.FLUSH_RULES: flush_rules,
    FaultKind.SECOND_PROXY: second_proxy,
}
