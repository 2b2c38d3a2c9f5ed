"""The lab itself: up, down, what survives, what is left behind, and what it says when it cannot."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bridgehead.lab import registry
from bridgehead.lab.plan import LabFiles, RunningLab

from .conftest import BRIDGEHEAD, PATIENCE, Lab, Namespace, curl, eventually, run, running

# As a user without privileges: no capabilities, an id other than 0, and files that are still readable.
ORDINARY_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000")


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab("other", tmp_path / "state")
    yield lab
    lab.command("down")


def running_lab(lab: Lab) -> RunningLab:
    return msgspec.json.decode(LabFiles(lab.state_dir).running.read_bytes(), type=RunningLab)


def init_of(lab: Lab) -> int:
    return running_lab(lab).init_pid


def nodes_without_limits(lab: Lab) -> list[str]:
    """The nodes whose kubelets say so, once for each time they do."""
    events = lab.kubectl("get", "events", "-n", "default", "--field-selector=reason=LimitsNotEnforced", "-o", "json")
    found = json.loads(events.stdout)["items"]
    assert all("Limits of containers are not enforced on this node: " in event["message"] for event in found)
    return sorted(event["involvedObject"]["name"] for event in found for _ in range(event["count"]))


def test_second_up_says_so(lab: Lab) -> None:
    result = lab.command("up", "--detach")
    assert result.returncode == 1
    assert "is running already" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_status_kubeconfig_logs(lab: Lab) -> None:
    status = lab.command("status")
    assert status.returncode == 0, status.stderr
    for word in ("node1", "Ready", "apiserver", "kubelet-node3"):
        assert word in status.stdout
    path = lab.command("kubeconfig", "--path").stdout.strip()
    assert Path(path).read_text() == lab.command("kubeconfig").stdout
    assert "lab e2e with 3 nodes" in lab.command("logs", "init").stdout
    wrong = lab.command("logs", "nobody")
    assert wrong.returncode == 1
    assert "apiserver" in wrong.stderr


def test_exec_gives_the_exit_code(lab: Lab) -> None:
    assert lab.inside("sh", "-c", "exit 42").returncode == 42
    assert lab.inside("no-such-command").returncode == 127
    assert lab.inside("hostname", node="node2").stdout.strip() == "node2"
    wrong = lab.inside("true", node="node9")
    assert wrong.returncode == 1
    assert "node1 to node3" in wrong.stderr


def test_exec_has_the_clusters_kubeconfig(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's own names the host's loopback, which is not the lab's; nor is the user's HTTP proxy."""
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    nodes = lab.inside("kubectl", "get", "nodes", "-o", "name", node="node1")
    assert nodes.stdout.split() == ["node/node1", "node/node2", "node/node3"], nodes.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_exec_takes_its_command_along(lab: Lab, number: int, code: int) -> None:
    def sleepers() -> str:
        return lab.inside("pgrep", "--full", "--runstates", "S", "^sleep 98765$").stdout

    with running(*lab.argv_inside("sleep", "98765")) as inside:
        eventually(sleepers)
        inside.send_signal(number)
        assert inside.wait(PATIENCE) == code
    eventually(lambda: not sleepers(), message="the command outlives `exec`")


def test_exec_starts_programs_with_ordinary_signals(lab: Lab) -> None:
    assert "Broken pipe" not in lab.inside("sh", "-c", "yes | head -n 1").stderr


def test_no_way_out(lab: Lab) -> None:
    """The lab and its nodes see only what the lab made."""
    links = lab.inside("ip", "-o", "link").stdout.splitlines()
    assert {line.split(": ")[1].split("@")[0] for line in links} == {"lo", "fabric", "node1", "node2", "node3"}
    assert "default" not in lab.inside("ip", "route").stdout


def test_two_labs_state_and_kill(lab: Lab, other: Lab) -> None:
    """A lab beside another keeps its state over down and up, and leaves nothing when it is killed."""
    links = link_names()
    up = other.command("up", "--detach", "--nodes=2", "--node-dns")
    assert up.returncode == 0, up.stderr
    without_limits = [] if running_lab(other).cgroup else ["node1", "node2"]
    eventually(lambda: nodes_without_limits(other) == without_limits, message="events of limits")
    assert other.command("down").returncode == 0
    up = run(BRIDGEHEAD, "up", "--detach", "--nodes=1", "--state-dir", other.state_dir)
    assert up.returncode == 0, up.stderr
    assert 'The lab "other" is ready' in up.stdout, "it has the name that it was made with"
    kubeconfig = LabFiles(other.state_dir).kubeconfig
    made = kubeconfig.read_text()
    assert other.kubectl("config", "set", "current-context", "nowhere").returncode == 0
    status = other.command("status").stdout
    waited = other.command("wait", "service/kube-dns", "--namespace=kube-system", f"--timeout={PATIENCE}s")
    kubeconfig.write_text(made)
    assert "a DNS on each node" in status, "as before"
    assert "node1  Ready" in status, "whichever cluster the user has made the current one"
    assert waited.returncode == 0, waited.stderr
    assert "10.96.0.10" in other.inside("ip", "route", "show", "table", "local", node="node1").stdout
    assert lab.kubectl("get", "nodes", "-o", "name").stdout.count("node/") == 3
    assert other.kubectl("get", "nodes", "-o", "name").stdout.split() == ["node/node1"]
    assert other.kubectl("create", "deployment", "web", "--image=nginx").returncode == 0
    Namespace(other, "default").rolled_out("deployment/web")

    assert other.command("down").returncode == 0
    down = other.command("exec", "--", "true")
    assert down.returncode == 1
    assert "bridgehead up" in down.stderr
    assert other.command("up", "--detach", "--no-node-dns").returncode == 0
    assert other.kubectl("get", "daemonsets", "-A", "-o", "name").stdout.split() == ["daemonset.apps/kube-proxy"]
    Namespace(other, "default").rolled_out("deployment/web")

    init = init_of(other)
    with open(f"/proc/{init}/ns/pid", "rb") as held:  # while it is open, no other namespace gets its number
        pid_namespace = f"pid:[{os.fstat(held.fileno()).st_ino}]"
        assert pid_namespace in pid_namespaces()
        os.kill(init, signal.SIGKILL)
        eventually(lambda: pid_namespace not in pid_namespaces(), message="processes outlive the lab")
    eventually(lambda: link_names() <= links, message="links outlive the lab")
    assert other.command("exec", "--", "true").returncode == 1
    assert other.command("up", "--detach").returncode == 0
    Namespace(other, "default").rolled_out("deployment/web")
    assert other.command("down", "--delete").returncode == 0
    assert not other.state_dir.exists()


def test_the_state_is_nobody_elses_business(other: Lab) -> None:
    """Whatever the directory and the shell allow; and without its directory the lab ends."""
    files = LabFiles(other.state_dir)
    files.root.mkdir()
    files.root.chmod(0o777)
    up = subprocess.run(
        [str(arg) for arg in other.argv("up", "--detach", "--nodes=1")], umask=0, capture_output=True, text=True
    )
    assert up.returncode == 0, up.stderr
    for path in (
        files.root,
        files.pki,
        files.kubeconfig,
        files.store,
        *files.pki.glob("*.key"),
        *files.pki.glob("*.kubeconfig"),
    ):
        assert path.stat().st_mode & 0o027 == 0, path
    for path in files.root.glob("*"):
        assert path.stat().st_mode & 0o022 == 0, path

    init = init_of(other)
    shutil.rmtree(files.root, ignore_errors=True)  # while it is written to
    eventually(lambda: not Path(f"/proc/{init}").exists(), message="the lab outlives its state directory")
    assert other.command("down").returncode == 1


def test_interrupted_while_it_starts(other: Lab) -> None:
    """There is no moment at which a lab runs that nobody can stop."""
    files = LabFiles(other.state_dir)
    argv = ("nice", "-n", "19", *other.argv("up", "--nodes=1", "--detach"))  # we have to be quicker
    with running(*argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as up:
        eventually(files.running.exists)
        up.send_signal(signal.SIGINT)
        assert up.wait(PATIENCE) == 130
    assert not registry.is_running(files)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, None])
def test_up_that_stays_takes_its_lab_along(other: Lab, ending: int | None) -> None:
    """At Ctrl-C, when it is told to end, and when nobody reads any more what it says (None)."""
    with running(*other.argv("up", "--nodes=1"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as up:
        assert up.stdout is not None
        assert 'The lab "other" is ready' in up.stdout.readline()
        up.stdout.close() if ending is None else up.send_signal(ending)
        assert up.wait(PATIENCE) == (0 if ending else 1)
    assert not registry.is_running(LabFiles(other.state_dir))


def test_a_lab_holds_no_pipe_of_its_caller(other: Lab) -> None:
    """Whoever started `up` may wait for the end of it."""
    reader, writer = os.pipe()
    with running(*other.argv("up", "--nodes=1", "--detach"), stdout=subprocess.DEVNULL, pass_fds=[writer]) as up:
        os.close(writer)
        assert up.wait(2 * PATIENCE) == 0
    with open(reader, "rb") as pipe:
        assert pipe.read() == b""


def link_names() -> set[str]:
    return {name for _, name in socket.if_nameindex()}


def pid_namespaces() -> set[str]:
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                found.add(os.readlink(entry / "ns/pid"))
            except OSError:
                continue
    return found


def test_parts_are_restarted(lab: Lab) -> None:
    files = LabFiles(lab.state_dir)
    part = next(part for part in registry.read_parts(files) if part.name == "controllers")
    assert lab.inside("kill", "-9", part.pid).returncode == 0

    def back() -> bool:
        now = next(p for p in registry.read_parts(files) if p.name == "controllers")
        return now.restarts > part.restarts and now.pid not in (0, part.pid)

    eventually(back)
    assert lab.kubectl("create", "deployment", "after", "--image=nginx").returncode == 0
    Namespace(lab, "default").rolled_out("deployment/after")
    lab.kubectl("delete", "deployment", "after")


def test_as_an_ordinary_user(other: Lab) -> None:
    up = run(*ORDINARY_USER, *other.argv("up", "--detach", "--nodes=2"))
    assert up.returncode == 0, up.stderr
    assert other.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=2").returncode == 0
    assert other.kubectl("expose", "deployment", "web", "--port=80").returncode == 0
    Namespace(other, "default").rolled_out("deployment/web")
    ip = other.kubectl("get", "service", "web", "-o", "jsonpath={.spec.clusterIP}").stdout
    eventually(lambda: curl(other, f"http://{ip}/").returncode == 0)
    assert other.command("down").returncode == 0


SUBORDINATE_USER = 54321
# In a mount namespace, in which the files of the machine that newuidmap reads are others.
AS_SUBORDINATE_USER = f"""
set -e
for file in passwd subuid subgid; do
    cp /etc/$file "$0.$file" 2>/dev/null || : >"$0.$file"
done
echo "someone:x:{SUBORDINATE_USER}:{SUBORDINATE_USER}::/nonexistent:/bin/sh" >>"$0.passwd"
for file in subuid subgid; do
    echo "someone:1500000000:65536" >>"$0.$file"
done
for file in passwd subuid subgid; do
    touch /etc/$file
    mount --bind "$0.$file" /etc/$file
done
exec setpriv --reuid={SUBORDINATE_USER} --regid={SUBORDINATE_USER} --clear-groups "$@"
"""
USERS = """
apiVersion: v1
kind: Pod
metadata: {name: users}
spec:
  restartPolicy: Never
  terminationGracePeriodSeconds: 1
  securityContext: {runAsUser: 1000, runAsGroup: 1001, fsGroup: 2000, supplementalGroups: [3000]}
  volumes: [{name: data, emptyDir: {}}]
  containers:
  - name: main
    image: busybox
    command: [sh, -c, "id -u; id -g; id -G; mkdir -p /data/x/y; stat -c %g /data/x; chmod 700 /data/x; exec sleep 1000"]
    volumeMounts: [{name: data, mountPath: /data}]
"""


def test_as_an_ordinary_user_with_granted_ids(tmp_path: Path) -> None:
    """Other users exist in the lab, and what they leave on the disk goes with it."""
    if os.geteuid() != 0 or not shutil.which("newuidmap"):
        pytest.skip("needs root, and newuidmap")
    with tempfile.TemporaryDirectory(prefix="bridgehead-lab-") as directory:
        os.chown(directory, SUBORDINATE_USER, SUBORDINATE_USER)
        lab = Lab("granted", Path(directory) / "state")

        def as_user(verb: str, *args: object) -> subprocess.CompletedProcess[str]:
            script = ("unshare", "--mount", "sh", "-c", AS_SUBORDINATE_USER, tmp_path / "etc")
            return run(*script, *lab.argv(verb, *args), env={**os.environ, "HOME": directory})

        if as_user("status", "--help").returncode != 0:
            pytest.skip("an ordinary user may not run this checkout")
        up = as_user("up", "--detach", "--nodes=1")
        try:
            assert up.returncode == 0, up.stderr
            ns = Namespace(lab, "default")
            ns.apply(USERS)
            ns.ready("users")
            eventually(
                lambda: ns.kubectl("logs", "users").split("\n")[:-1] == ["1000", "1001", "1001 2000 3000", "2000"]
            )
            eventually(lambda: "sleep" in ns.kubectl("exec", "users", "--", "cat", "/proc/1/cmdline"))
            owners = {path.lstat().st_uid for path in (lab.state_dir / "nodes").rglob("*")}
            assert 1500000000 + 999 in owners
        finally:
            down = as_user("down", "--delete")
        assert down.returncode == 0, down.stderr
        assert not lab.state_dir.exists()


def test_a_taken_port(other: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = other.command("up", "--detach", f"--port={port}")
    assert result.returncode == 1
    assert result.stderr.strip() == (
        f"bridgehead: port {port} on 127.0.0.1 cannot be used (Address already in use); choose another with --port"
    )


def test_a_missing_tool(other: Lab, tmp_path: Path) -> None:
    script = (
        f"mount -t tmpfs none /usr/sbin && exec {BRIDGEHEAD} up --detach --name other --state-dir {other.state_dir}"
    )
    result = run("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script)
    if shutil.which("nft", path="/usr/sbin") is None:
        pytest.fail("this test hides /usr/sbin, where nft is expected")
    assert result.returncode == 1
    assert result.stderr.strip() == (
        "bridgehead: the command `nft` is missing: install it (Debian: apt-get install nftables)"
    )


def test_a_full_disk(other: Lab) -> None:
    os.makedirs(other.state_dir, exist_ok=True)
    script = (
        f"mount -t tmpfs -o size=4m none {other.state_dir} &&"
        f" exec {BRIDGEHEAD} up --detach --name other --state-dir {other.state_dir}"
    )
    result = run("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script)
    assert result.returncode == 1
    assert result.stderr.strip() == (
        f"bridgehead: the disk of {other.state_dir} has 4 MiB left, a lab needs 16:"
        " free some space, or choose another with --state-dir"
    )


def test_a_kernel_without_user_namespaces(other: Lab) -> None:
    script = (
        "echo 0 > /proc/sys/user/max_user_namespaces && echo 0 > /proc/sys/user/max_net_namespaces &&"
        f" exec {BRIDGEHEAD} up --detach --name other --state-dir {other.state_dir}"
    )
    result = run("unshare", "--user", "--map-root-user", "sh", "-c", script)
    assert result.returncode == 1
    assert "this kernel does not let you make namespaces" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["Bad_Name", "-x", "a" * 40])
def test_a_name_that_is_none(name: str) -> None:
    result = run(BRIDGEHEAD, "status", f"--name={name}")
    assert result.returncode == 1
    assert "a lab's name has lower case letters" in result.stderr
