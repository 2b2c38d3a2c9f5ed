"""Attempts that need more than one program in one container: races between containers, kubectl's own ways into a pod,
and what the machine and other pods look like afterwards. Each answers what was seen."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import subprocess
import termios
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .conftest import PATIENCE, run, running
from .escape_table import OF_THE_MACHINE, Scenario, at, empty, host_path, pod, shell, sleeper
from .escape_world import SETTLE_SECONDS, EscapeLab

# Exchanges a directory with a link to the machine's, as fast as can be, in three directories of a volume.
_EXCHANGE = """
import ctypes, os, sys
libc = ctypes.CDLL(None)
pairs = []
for name in ("s", "m", "t"):
    os.makedirs(f"/v/{name}/d")
    os.symlink(sys.argv[1], f"/v/{name}/l")
    pairs.append((f"/v/{name}/d".encode(), f"/v/{name}/l".encode()))
open("/v/begun", "w").close()
while True:
    for first, second in pairs:
        libc.renameat2(-100, first, -100, second, 2)
"""
_RACERS = 16


def _racer() -> dict[str, Any]:
    """One container exchanges; the others have a subPath, a mount point and a termination message in what it
    exchanges."""
    racers = [
        shell(
            "cat /w/canary; ls -la /w; touch /w/escaped-sub-path-race; true",
            f"racer-{number}",
            volumeMounts=[
                at("/w", subPath="s/d"),
                at("/v"),
                at("/v/m/d/escaped-mount-point-race", "other"),
            ],
            terminationMessagePath="/v/t/d/escaped-message-race",
        )
        for number in range(_RACERS)
    ]
    makers = [
        shell("true", f"maker-{number}", volumeMounts=[at("/w", subPath="s/d/escaped-new-sub-path-race")])
        for number in range(_RACERS // 2)
    ]
    exchange = {
        "name": "exchange",
        "image": "busybox",
        "command": ["python3", "-c", _EXCHANGE, "@MACHINE@"],
        "volumeMounts": [at("/v")],
        "restartPolicy": "Always",
        "startupProbe": {"exec": {"command": ["test", "-e", "/v/begun"]}, "periodSeconds": 1},
    }
    return pod("racer", *racers, *makers, initContainers=[exchange], volumes=[empty(), empty("other")])


def race(world: EscapeLab) -> str:
    world.apply("attacker", [_racer()])
    world.settle({"racer"})
    status = world.pods("attacker")["racer"]["status"].get("containerStatuses", [])
    logs = [world.log("attacker", "racer", container["name"]) for container in status]
    # A container that cannot be created keeps the pod, and `exchange` would take a processor until the lab ends.
    world.kubectl("-n", "attacker", "delete", "pod", "racer", "--wait=false")
    return "\n".join([*logs, json.dumps(status)])


def catch_exec(world: EscapeLab) -> str:
    """A container that watches for the processes of exec and of probes while they are set up."""
    probe = {"exec": {"command": ["true"]}, "periodSeconds": 1}
    world.apply("attacker", [pod("watcher", sleeper(readinessProbe=probe, livenessProbe=probe))])
    world.wait_running("attacker", {"watcher"})
    with ThreadPoolExecutor(3) as pool:
        watching = pool.submit(world.run_program, "watcher", "watch_for_exec")

        def enter(_: int) -> None:
            while not watching.done():
                world.execute("watcher", "true")

        list(pool.map(enter, range(2)))
        return watching.result()


def copy_out(world: EscapeLab) -> str:
    """`kubectl cp` from a pod whose `tar` answers with an archive that leads out of the target directory."""
    target = world.machine.base / "copied" / "here"
    target.mkdir(parents=True)
    copied = world.lab.kubectl("-n", "attacker", "cp", "archive:/data", target)
    found = sorted(
        str(path.relative_to(target)) for path in target.rglob("*") if path.is_file() and not path.is_symlink()
    )
    outside = sorted(path.name for path in target.parent.iterdir() if path != target)
    return f"copied {found}, outside {outside}\n{copied.stdout}{copied.stderr}"


def copy_in(world: EscapeLab) -> str:
    """`kubectl cp` to a directory of a pod that is a link to the machine's by every name it could have there."""
    machine = world.machine.open_directory
    source = world.machine.base / "escaped-copied-in"
    source.write_text("in")
    links = {"a": machine, "b": f"../../../../..{machine}", "c": f"/proc/1/root{machine}", "d": "/proc/1/cwd"}
    made = "; ".join(f"ln -sfn {target} /volume/{name}" for name, target in links.items())
    world.lab.kubectl("-n", "attacker", "exec", "many-volumes", "--", "sh", "-c", made)
    lines = [
        world.lab.kubectl("-n", "attacker", "cp", source, f"many-volumes:/volume/{link}/escaped-copied-in").stderr
        for link in links
    ]
    source.unlink()
    return "\n".join(lines) or "copied into the pod"


def insert_input(world: EscapeLab) -> str:
    """TIOCSTI from a pod with a terminal; what then lies in the terminal of the user who ran kubectl."""
    master, slave = pty.openpty()
    try:
        program = "import fcntl; [fcntl.ioctl(0, 0x5412, c.encode()) for c in 'escaped']"
        argv = ["kubectl", "-n", "attacker", "exec", "-it", "terminal", "--", "python3", "-c", program]
        subprocess.run(argv, stdin=slave, stdout=slave, stderr=slave, env=world.lab.env, timeout=PATIENCE, check=False)
        attributes = termios.tcgetattr(slave)
        attributes[3] &= ~termios.ICANON
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
        pending = fcntl.ioctl(slave, termios.FIONREAD, b"\0\0\0\0")
        return f"{int.from_bytes(pending, 'little')} bytes of input"
    finally:
        os.close(master)
        os.close(slave)


def process_of_exec(world: EscapeLab) -> str:
    """A program that the user runs by `bridgehead exec`: what pods with the node's processes see through it."""
    with running(*world.lab.argv_inside("sh", "-c", "echo begun; sleep 30"), stdout=subprocess.PIPE) as inside:
        assert inside.stdout is not None
        begun = inside.stdout.readline()
        return begun + "".join(
            f"{program}: {world.run_program('node-shell', program)}"
            for program in ("canary_by_process", "enter_first_process")
        )


def interpreter_of_exec(world: EscapeLab) -> str:
    """A privileged pod registers an interpreter for programs of its user namespace; the user runs `bridgehead exec`."""
    registered = world.run_program("privileged", "register_interpreter")
    if "machine's own" in registered:
        return registered
    try:
        ran = run(*world.lab.argv_inside("env"))
    finally:
        removed = world.run_program("privileged", "remove_interpreter")
    return f"{registered} {removed}\nran: {ran.stdout[:100]} {ran.stderr}"


_TREES = """
import os
os.chdir("/v")
os.mkdir("closed")
open("closed/file", "w").close()
os.chmod("closed", 0)
for _ in range(2500):
    os.mkdir("d")
    os.chdir("d")
print("made")
"""


def deep_trees(world: EscapeLab) -> str:
    """A volume that is hard to remove; `EscapeLab.remove` tries it."""
    container = {"name": "c", "image": "busybox", "command": ["python3", "-c", _TREES], "volumeMounts": [at("/v")]}
    world.apply("attacker", [pod("trees", container, volumes=[empty()])])
    world.settle({"trees"})
    return world.log("attacker", "trees")


def debug_node(world: EscapeLab) -> str:
    """The access of `kubectl debug node/...`, with and without chroot."""
    machine, home = world.machine.open_directory, world.machine.home
    look = f"ls -la {{0}}/ {{0}}/root {{0}}/home; cat {{0}}{machine}/canary {{0}}{home}/canary; "
    look += f"touch {{0}}{machine}/escaped-debug"
    script = f"{look.format('/host')}; chroot /host sh -c '{look.format('')}'; echo looked"
    options = ("--image=busybox", "--profile=sysadmin", "--attach=false")
    result = world.lab.kubectl("-n", "attacker", "debug", "node/node1", *options, "--", "sh", "-c", script)
    name = next((word for word in result.stdout.replace("/", " ").split() if word.startswith("node-debugger-")), "")
    if not name:
        return f"no pod: {result.stdout}{result.stderr}"
    world.settle({name})
    return world.log("attacker", name, "debugger")


def log_through_link(world: EscapeLab) -> str:
    """A pod with the node's files makes another container's log a link to a file of the user's; `kubectl logs` reads
    it."""
    world.apply("attacker", [pod("talker", shell("echo log-of-the-talker; sleep 3600"))])
    world.wait_running("attacker", {"talker"})
    replaced = world.run_program("node-shell", "replace_logs")
    return f"{replaced}\n{world.log('attacker', 'talker')}"


def volume_through_link(world: EscapeLab) -> str:
    """A pod with the node's files replaces a pod's volume by a link to the machine's directory; then its container
    starts again."""
    script = "ls -la /v; cat /v/canary /v/file; echo volume-of-the-starter >/v/mark; "
    script += "until [ -e /etc/go ]; do sleep 0.1; done; exit 1"
    world.apply(
        "attacker",
        [pod("starter", shell(script, volumeMounts=[at("/v")]), volumes=[empty()], restartPolicy="Always")],
    )
    world.wait_running("attacker", {"starter"})
    replaced = world.run_program("node-shell", "replace_volumes")
    world.lab.kubectl("-n", "attacker", "exec", "starter", "--", "touch", "/etc/go")
    end = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < end:
        status = world.pods("attacker")["starter"]["status"]["containerStatuses"][0]
        if status["restartCount"] and "running" in status["state"]:
            break
        time.sleep(0.2)
    text = world.log("attacker", "starter")
    world.kubectl("-n", "attacker", "delete", "pod", "starter", "--wait=false")
    return f"{replaced}\n{text}"


def memory_bomb(world: EscapeLab) -> str:
    """256 MiB with a limit of 64; where the limit cannot be set, an Event reports it."""
    script = "x = bytearray(1)\nfor n in range(256): x += bytes(1 << 20)\nprint('got', len(x) >> 20)"
    container = {
        "name": "c",
        "image": "busybox",
        "command": ["python3", "-c", script],
        "resources": {"limits": {"memory": "64Mi"}},
    }
    world.apply("attacker", [pod("memory-bomb", container)])
    pods = world.settle({"memory-bomb"})
    events = [
        event["message"] for event in world.get("/api/v1/events")["items"] if "imits of containers" in event["message"]
    ]
    return f"{json.dumps(pods['memory-bomb']['status'].get('containerStatuses'))}\n{events}"


def fork_bomb(world: EscapeLab) -> str:
    """300 processes in a pod; meanwhile another pod answers."""
    bomb = "import os, time\nfor n in range(300):\n  if os.fork() == 0: time.sleep(20); os._exit(0)\ntime.sleep(20)"
    world.apply("attacker", [pod("fork-bomb", {"name": "c", "image": "busybox", "command": ["python3", "-c", bomb]})])
    world.wait_running("attacker", {"fork-bomb"})
    answer = world.lab.kubectl("-n", "attacker", "exec", "plain", "--", "echo", "alive").stdout
    world.kubectl("-n", "attacker", "delete", "pod", "fork-bomb", "--grace-period=0", "--force")
    return answer


def foreign_sources(world: EscapeLab) -> str:
    """Packets in a neighbour's, the node's, the DNS's name; what the victim received."""
    sent = world.run_program("plain", "send_as_others")
    end = time.monotonic() + SETTLE_SECONDS
    while time.monotonic() < end:
        received = world.log("victim", "victim")
        if "genuine" in received:
            break
        time.sleep(0.2)
    time.sleep(0.5)  # silence is tested: forged packets would come in this time
    return f"{sent}\nreceived:\n{world.log('victim', 'victim')}"


def neighbours(world: EscapeLab) -> str:
    """The victim's own log: signals that reached it."""
    return "log: " + world.log("victim", "victim")


def refusals(world: EscapeLab) -> str:
    """Manifests whose paths lead out of where they belong; what the API accepts of them."""
    plain = {"name": "c", "image": "busybox"}
    config_map = {"name": "v", "configMap": {"name": "x", "items": [{"key": "k", "path": "../../escaped"}]}}
    downward = {
        "name": "v",
        "downwardAPI": {"items": [{"path": "../escaped", "fieldRef": {"fieldPath": "metadata.name"}}]},
    }
    projected = {"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "../../escaped"}}]}}
    manifests: dict[str, dict[str, Any]] = {
        "hostPath with ..": pod("r", plain, volumes=[host_path("/tmp/../../escaped")]),
        "subPath with ..": pod("r", {**plain, "volumeMounts": [at("/v", subPath="../escaped")]}, volumes=[empty()]),
        "absolute subPath": pod("r", {**plain, "volumeMounts": [at("/v", subPath="/escaped")]}, volumes=[empty()]),
        "subPathExpr with ..": pod("r", {**plain, "volumeMounts": [at("/v", subPathExpr="../x")]}, volumes=[empty()]),
        "seccomp profile outside": pod(
            "r",
            plain,
            securityContext={"seccompProfile": {"type": "Localhost", "localhostProfile": "../../escaped"}},
        ),
        "items over the writer's own": pod(
            "r", plain, volumes=[{"name": "v", "configMap": {"name": "x", "items": [{"key": "k", "path": "..data"}]}}]
        ),
        "volume named ..": pod("r", plain, volumes=[empty("../escaped")]),
        "container named ..": pod("r", {**plain, "name": "../escaped"}),
        "items outside": pod("r", plain, volumes=[config_map]),
        "downward items outside": pod("r", plain, volumes=[downward]),
        "token outside": pod("r", plain, volumes=[projected]),
        "pod named ..": pod("..", plain),
        "host name with /": pod("r", plain, hostname="../escaped"),
        "key with ..": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "r"},
            "data": {"../escaped": "x"},
        },
        "key ..data": {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "r"},
            "data": {"..data": "x"},
        },
        "key ..": {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "r"}, "stringData": {"..": "x"}},
        "namespace with ..": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "../escaped"}},
    }

    resources = {"Pod": "pods", "ConfigMap": "configmaps", "Secret": "secrets"}
    lines = []
    for name, manifest in manifests.items():
        kind = manifest["kind"]
        path = f"/api/v1/namespaces/attacker/{resources[kind]}" if kind in resources else "/api/v1/namespaces"
        code, answer = world.request(path, manifest)
        lines.append(f"{name}: {'accepted' if code < 300 else 'refused'} {code} {answer[:200]}")
    return "\n".join(lines)


def chosen_uid(world: EscapeLab) -> str:
    """A pod that brings its own UID, of which directories on the node are named."""
    manifest = pod("uid", shell("true"), volumes=[empty()])
    manifest["metadata"]["uid"] = "../../../../../../../escaped-uid"
    code, answer = world.request("/api/v1/namespaces/attacker/pods", manifest)
    return f"refused {answer}" if code >= 300 else f"uid {json.loads(answer)['metadata']['uid']}"


SCENARIOS: dict[str, tuple[Callable[[EscapeLab], str], Scenario]] = {
    scenario.name: (function, scenario)
    for function, scenario in (
        (race, Scenario(name="race: subPath, mount points, termination messages")),
        (
            catch_exec,
            Scenario(name="an exec that is being set up", expect="caught 1[5-9]", forbid=r"\bOPEN\b|descriptor"),
        ),
        (copy_out, Scenario(name="kubectl cp out of a pod", expect="copied .*good", forbid="outside \\['")),
        (copy_in, Scenario(name="kubectl cp into a pod")),
        (insert_input, Scenario(name="input for the terminal of kubectl exec", expect=r"\A0 bytes")),
        (
            interpreter_of_exec,
            Scenario(name="interpreter for bridgehead exec", is_alone=True, expect="ran", hidden=OF_THE_MACHINE),
        ),
        (process_of_exec, Scenario(name="a process of bridgehead exec", expect="begun", hidden=OF_THE_MACHINE)),
        (deep_trees, Scenario(name="a volume that is hard to remove", expect="made")),
        (debug_node, Scenario(name="kubectl debug node", expect="looked", hidden=OF_THE_MACHINE)),
        (log_through_link, Scenario(name="kubectl logs through a link", hidden=OF_THE_MACHINE)),
        (volume_through_link, Scenario(name="volume replaced by a link", hidden=OF_THE_MACHINE)),
        (memory_bomb, Scenario(name="memory bomb", expect="OOMKilled|are not enforced")),
        (fork_bomb, Scenario(name="fork bomb", expect="alive")),
        (foreign_sources, Scenario(name="foreign source addresses", expect="(?s)received:.*genuine", forbid="spoofed")),
        (neighbours, Scenario(name="signals that reached the victim", forbid="signalled")),
        (refusals, Scenario(name="paths that the API refuses", forbid="accepted")),
        (chosen_uid, Scenario(name="pod with a chosen UID", expect=r"\Auid [0-9a-f-]{36}\Z|refused")),
    )
}
