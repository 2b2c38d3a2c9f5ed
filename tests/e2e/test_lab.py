"""The lab's commands: up, down, what survives, what is left behind, and error messages."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from bridgehead.lab import state_directories
from bridgehead.lab.plan import LabConfig, LabFiles, RunningLab
from bridgehead.lab.system_objects import system_manifests

from .conftest import BRIDGEHEAD, PATIENCE, Lab, Namespace, curl, eventually, run, running

# Runs as a user without privileges: no capabilities, an id other than 0, and files that are still readable.
ORDINARY_USER = ("unshare", "--user", "--map-user=1000", "--map-group=1000")


@pytest.fixture
def other(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab("other", tmp_path / "state")
    yield lab
    lab.stop()


def running_lab(lab: Lab) -> RunningLab:
    return msgspec.json.decode(LabFiles(lab.state_dir).running.read_bytes(), type=RunningLab)


def init_of(lab: Lab) -> int:
    return running_lab(lab).init_pid


def nodes_without_limits(lab: Lab) -> list[str]:
    """The nodes with an Event LimitsNotEnforced, once for each occurrence."""
    events = lab.kubectl("get", "events", "-n", "default", "--field-selector=reason=LimitsNotEnforced", "-o", "json")
    found = json.loads(events.stdout)["items"]
    assert all("Limits of containers are not enforced on this node: " in event["message"] for event in found)
    return sorted(event["involvedObject"]["name"] for event in found for _ in range(event["count"]))


def test_a_second_up_reports_the_running_lab(lab: Lab) -> None:
    result = lab.command("up", "--detach")
    assert result.returncode == 1
    assert "is already running" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_status_kubeconfig_and_logs_print_the_labs_state(lab: Lab) -> None:
    status = lab.command("status")
    assert status.returncode == 0, status.stderr
    assert re.search(r"^node1 +Ready .* nftables$", status.stdout, re.MULTILINE)
    for word in ("node1", "Ready", "apiserver", "kubelet-node3"):
        assert word in status.stdout
    path = lab.command("kubeconfig", "--path").stdout.strip()
    assert Path(path).read_text() == lab.command("kubeconfig").stdout
    assert "lab e2e with 3 nodes" in lab.command("logs", "init").stdout
    wrong = lab.command("logs", "nobody")
    assert wrong.returncode == 1
    assert "apiserver" in wrong.stderr


def test_exec_returns_the_exit_code_of_the_command(lab: Lab) -> None:
    assert run(*lab.argv_inside("sh", "-c", "exit 42")).returncode == 42
    assert run(*lab.argv_inside("no-such-command")).returncode == 127
    assert run(*lab.argv_inside("hostname", node="node2")).stdout.strip() == "node2"
    wrong = run(*lab.argv_inside("true", node="node9"))
    assert wrong.returncode == 1
    assert "node1 to node3" in wrong.stderr


def test_a_shell_of_the_lab_cannot_stop_it(lab: Lab) -> None:
    result = run(*lab.argv_inside(*lab.argv("down")))
    assert result.returncode == 1
    assert "cannot be managed from here, inside a lab or a container: use another terminal\n" in result.stderr


def test_exec_uses_the_clusters_kubeconfig_and_no_http_proxy(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's kubeconfig and HTTP proxy name addresses of the host, which the lab cannot reach."""
    for name in ("https_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    nodes = run(*lab.argv_inside("kubectl", "get", "nodes", "-o", "name", node="node1"))
    assert nodes.stdout.split() == ["node/node1", "node/node2", "node/node3"], nodes.stderr


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 128 + signal.SIGTERM), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_killed_exec_ends_its_command(lab: Lab, number: int, code: int) -> None:
    def sleepers() -> str:
        return lab.inside("pgrep", "--full", "--runstates", "S", "^sleep 98765$").stdout

    with running(*lab.argv_inside("sleep", "98765")) as inside:
        eventually(sleepers)
        inside.send_signal(number)
        assert inside.wait(PATIENCE) == code
    eventually(lambda: not sleepers(), message="the command outlives `exec`")


def test_exec_starts_programs_with_default_signal_handlers(lab: Lab) -> None:
    result = run(*lab.argv_inside("sh", "-c", "yes | head -n 1"))
    assert (result.stdout, result.stderr) == ("y\n", "")


def test_a_lab_has_no_route_to_the_outside(lab: Lab) -> None:
    """The lab and its nodes have no interface and no route of the machine."""
    links = lab.inside("ip", "-o", "link").stdout.splitlines()
    assert {line.split(": ")[1].split("@")[0] for line in links} == {"lo", "fabric", "node1", "node2", "node3"}
    assert "default" not in lab.inside("ip", "route").stdout


def give_the_dns_its_earlier_names(lab: Lab) -> str:
    """Make the lab's DNS that of an earlier version, with one pod and a Corefile that the user changed: returned."""
    system, earlier = Namespace(lab, "kube-system"), "bridgehead-dns"
    corefile = "# mine\n" + system.get("configmaps", "coredns")["data"]["Corefile"]
    manifests = {one["kind"]: one for one in system_manifests("dns.yaml", LabConfig(name="other", nodes=2, port=6443))}
    made = [manifests[kind] for kind in ("ServiceAccount", "ConfigMap", "Deployment")]
    for manifest in made:
        manifest["metadata"]["name"] = earlier
    made[1]["data"] = {"Corefile": corefile}
    made[2]["spec"]["replicas"] = 1
    spec = made[2]["spec"]["template"]["spec"]
    spec["serviceAccountName"] = spec["volumes"][0]["configMap"]["name"] = earlier
    system.kubectl("delete", "deployment/coredns", "configmap/coredns", "serviceaccount/coredns")
    system.apply(yaml.safe_dump_all(made))
    return corefile


def test_two_labs_keep_their_state_beside_each_other(lab: Lab, other: Lab) -> None:
    """A second lab keeps its state over down and up, and leaves nothing when it is killed."""
    links = link_names()
    up = other.command("up", "--detach", "--nodes=2", "--node-dns", "--no-balancer")
    assert up.returncode == 0, up.stderr
    without_limits = [] if running_lab(other).cgroup else ["node1", "node2"]
    eventually(lambda: nodes_without_limits(other) == without_limits, message="events of limits")
    assert other.kubectl("create", "deployment", "web", "--image=nginx").returncode == 0
    Namespace(other, "default").rolled_out("deployment/web")
    corefile = give_the_dns_its_earlier_names(other)

    assert other.command("down").returncode == 0
    down = other.command("exec", "--", "true")
    assert down.returncode == 1
    assert "bridgehead up" in down.stderr
    up = run(BRIDGEHEAD, "up", "--detach", "--nodes=1", "--balancer", "--state-dir", other.state_dir)
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
    Namespace(other, "default").rolled_out("deployment/web")
    system = Namespace(other, "kube-system")
    deployments = system.kubectl("get", "deployments", "-l", "k8s-app=kube-dns", "-o", "name")
    assert deployments == "deployment.apps/coredns\n"
    assert system.get("configmaps", "coredns")["data"] == {"Corefile": corefile}
    assert "bridgehead-dns" not in system.kubectl("get", "deployments,configmaps,serviceaccounts", "-o", "name")
    pods = system.pods("k8s-app=kube-dns")
    assert [pod["spec"]["serviceAccountName"] for pod in pods if "deletionTimestamp" not in pod["metadata"]] == [
        "coredns"
    ], "one, as before"

    init = init_of(other)
    with open(f"/proc/{init}/ns/pid", "rb") as held:  # while it is open, no other namespace gets its number
        pid_namespace = f"pid:[{os.fstat(held.fileno()).st_ino}]"
        assert pid_namespace in pid_namespaces()
        os.kill(init, signal.SIGKILL)
        eventually(lambda: pid_namespace not in pid_namespaces(), message="processes outlive the lab")
    eventually(lambda: link_names() <= links, message="links outlive the lab")
    assert other.command("exec", "--", "true").returncode == 1
    assert other.command("up", "--detach", "--no-node-dns", "--no-balancer").returncode == 0
    assert other.kubectl("get", "daemonsets", "-A", "-o", "name").stdout.split() == ["daemonset.apps/kube-proxy"]
    Namespace(other, "default").rolled_out("deployment/web")
    assert other.command("down", "--delete").returncode == 0
    assert not other.state_dir.exists()


def test_a_detached_lab_is_closed_to_other_users_and_closes_its_callers_pipes(other: Lab) -> None:
    """Modes of the directory and the umask do not matter. The lab ends when its directory is deleted.

    A program that started `up` may read its output until the end of file, or end before `up` does.
    """
    files = LabFiles(other.state_dir)
    files.root.mkdir()
    files.root.chmod(0o777)
    reader, writer = os.pipe()
    gone, without_reader = os.pipe()
    os.close(gone)
    with running(
        *other.argv("up", "--nodes=1", "--no-balancer", "--detach"),
        stdout=subprocess.DEVNULL,
        stderr=without_reader,
        pass_fds=[writer],
        umask=0,
    ) as up:
        os.close(writer)
        os.close(without_reader)
        assert up.wait(2 * PATIENCE) == 0
    with open(reader, "rb") as pipe:
        assert pipe.read() == b""
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


def test_an_interrupted_up_leaves_no_lab(other: Lab) -> None:
    """`down` can stop the lab at every moment of the start."""
    files = LabFiles(other.state_dir)
    argv = ("nice", "-n", "19", *other.argv("up", "--nodes=1", "--detach"))  # we have to be quicker
    with running(*argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as up:
        eventually(files.running.exists)
        up.send_signal(signal.SIGINT)
        assert up.wait(PATIENCE) == 130
    assert not state_directories.is_running(files)
    state_directories.remove(files)
    # Three nodes take longer to become ready than a look takes.
    with running(*argv, "--nodes=3", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as up:
        while not state_directories.read_parts(files):
            assert up.poll() is None
            time.sleep(0.01)
        other.stop()
        assert up.wait(PATIENCE) == 1
        assert up.stderr is not None
        assert up.stderr.read().endswith(": the lab is stopped\n")


@contextlib.contextmanager
def up_in_the_foreground(lab: Lab, *options: str, ending: int | None, prefix: tuple[str, ...] = ()) -> Iterator[None]:
    """A lab that ends with its `up`: by Ctrl-C, SIGTERM, or a closed standard output (None).

    `prefix` precedes `bridgehead` on the command line.
    """
    with running(*prefix, *lab.argv("up", *options), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as up:
        assert up.stdout is not None
        assert f'The lab "{lab.name}" is ready' in up.stdout.readline()
        yield
        lab.disconnect()
        up.stdout.close() if ending is None else up.send_signal(ending)
        assert up.wait(PATIENCE) == (0 if ending else 1)
    assert not state_directories.is_running(LabFiles(lab.state_dir))


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


def test_killed_parts_are_restarted(lab: Lab) -> None:
    files = LabFiles(lab.state_dir)
    part = next(part for part in state_directories.read_parts(files) if part.name == "controllers")
    assert lab.inside("kill", "-9", part.pid).returncode == 0

    def back() -> bool:
        now = next(p for p in state_directories.read_parts(files) if p.name == "controllers")
        return now.restarts > part.restarts and now.pid not in (0, part.pid)

    eventually(back)
    assert lab.kubectl("create", "deployment", "after", "--image=nginx").returncode == 0
    Namespace(lab, "default").rolled_out("deployment/after")
    lab.kubectl("delete", "deployment", "after")


def test_an_ordinary_user_can_run_a_lab_in_the_foreground(other: Lab) -> None:
    with up_in_the_foreground(other, "--nodes=2", ending=signal.SIGINT, prefix=ORDINARY_USER):
        assert other.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=3").returncode == 0
        assert other.kubectl("expose", "deployment", "web", "--port=80", "--type=NodePort").returncode == 0
        ns = Namespace(other, "default")
        ns.rolled_out("deployment/web")
        ns.wait_endpoints("web", 3)
        ip = ns.cluster_ip("web")
        eventually(lambda: curl(other, f"http://{ip}/").returncode == 0)
        assert_the_ruleset_fits_on_a_page(other, ip)


def assert_the_ruleset_fits_on_a_page(lab: Lab, ip: str) -> None:
    """The rules are less than 80 lines and the elements, on each node of a lab with a Deployment behind a NodePort
    Service, none too long to read."""
    is_element = re.compile(r"\t\telements = |\t\t\t ").match
    last_element = f"{ip} . tcp . 80 . 1:3 : "
    for node in ("node1", "node2"):
        list_ruleset = functools.partial(lab.inside, "nft", "list", "ruleset", node=node)
        eventually(lambda listing=list_ruleset: last_element in listing().stdout)
        ruleset = list_ruleset().stdout
        assert "table inet bridgehead-pods" in ruleset
        lines = [line for line in ruleset.splitlines() if not is_element(line)]
        assert len(lines) < 80, ruleset
        assert [line for line in lines if len(line) > 200] == []


HOST_PATH = """
apiVersion: v1
kind: Pod
metadata: {{name: host}}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{{name: machine, hostPath: {{path: {0}}}}}]
  containers:
  - name: main
    image: busybox
    command: [sleep, "1000"]
    securityContext: {{privileged: true}}
    volumeMounts: [{{name: machine, mountPath: /machine}}]
"""


def test_host_access_gives_pods_the_machines_files(other: Lab, tmp_path: Path) -> None:
    """Root may lack capabilities, as in a container; a privileged pod then has those of root."""
    (tmp_path / "file").write_text("of the machine")
    fewer = ("setpriv", "--bounding-set=-sys_time") if os.geteuid() == 0 else ()
    options = ("--nodes=1", "--no-balancer", "--host-access")
    with up_in_the_foreground(other, *options, ending=signal.SIGTERM, prefix=fewer):
        ns = Namespace(other, "default")
        ns.apply(HOST_PATH.format(tmp_path))
        ns.ready("host")
        assert ns.kubectl("exec", "host", "--", "cat", "/machine/file") == "of the machine"
    again = other.command("up", "--detach", "--no-host-access")
    assert again.returncode == 1
    assert "was made with --host-access" in again.stderr


HOSTILE = """
apiVersion: v1
kind: Pod
metadata: {name: hostile}
spec:
  restartPolicy: Never
  volumes: [{name: node, hostPath: {path: /}}]
  containers:
  - name: main
    image: busybox
    securityContext: {privileged: true}
    command: [sh, -c, "cd /node; for d in mnt srv media opt; do rmdir $d; ln -s / $d; done; touch work; echo done"]
    volumeMounts: [{name: node, mountPath: /node}]
"""


def test_a_restarted_node_repairs_its_root_file_system(other: Lab) -> None:
    """A pod replaced directories by links. The next run has directories again, and the links lead nowhere outside."""
    ns = Namespace(other, "default")
    with up_in_the_foreground(other, "--nodes=1", "--no-balancer", ending=None):
        ns.apply(HOSTILE)
        ns.succeeded("hostile")
    root = other.state_dir / "roots" / "node1"
    assert (root / "srv").is_symlink()
    for name in ("usr", "run", "proc", "etc"):  # what only somebody outside could have replaced
        shutil.rmtree(root / name)
        (root / name).symlink_to("/") if name != "run" else (root / name).write_text("a file")
    up = other.command("up", "--detach")
    assert up.returncode == 0, up.stderr
    ns.kubectl("delete", "pod", "hostile")
    ns.apply(HOSTILE.replace("name: hostile", "name: again").replace("cd /node;", "ls /node/usr/bin/env;"))
    ns.succeeded("again")


SUBORDINATE_USER = 54321
# Runs in a mount namespace that has other files in place of those that newuidmap reads.
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


@pytest.mark.needs("newuidmap")
def test_an_ordinary_user_with_subordinate_ids_can_run_a_lab(tmp_path: Path) -> None:
    """Other users exist in the lab, and their files are deleted with the lab."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    with tempfile.TemporaryDirectory(prefix="bridgehead-lab-") as directory:
        os.chown(directory, SUBORDINATE_USER, SUBORDINATE_USER)
        lab = Lab("granted", Path(directory) / "state")

        def as_user(verb: str, *args: object) -> subprocess.CompletedProcess[str]:
            script = ("unshare", "--mount", "sh", "-c", AS_SUBORDINATE_USER, tmp_path / "etc")
            return run(*script, *lab.argv(verb, *args), env={**os.environ, "HOME": directory})

        if as_user("status", "--help").returncode != 0:
            pytest.skip("an ordinary user may not run this checkout")
        up = as_user("up", "--detach", "--nodes=1", "--no-balancer")
        try:
            assert up.returncode == 0, up.stderr
            ns = Namespace(lab, "default")
            ns.apply(USERS)
            ns.ready("users")
            eventually(
                lambda: ns.kubectl("logs", "users").split("\n")[:-1] == ["1000", "1001", "1001 2000 3000", "2000"]
            )
            eventually(lambda: "sleep" in ns.kubectl("exec", "users", "--", "cat", "/proc/1/cmdline"))
            volumes = (lab.state_dir / "nodes").glob("*/pods/*/volumes/*/data/**")
            assert 1500000000 + 999 in {path.lstat().st_uid for path in volumes}
        finally:
            lab.disconnect()
            down = as_user("down", "--delete")
        assert down.returncode == 0, down.stderr
        assert not lab.state_dir.exists()


def test_up_reports_a_port_in_use(other: Lab) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = other.command("up", "--detach", f"--port={port}")
    assert result.returncode == 1
    assert result.stderr.strip() == (
        f"bridgehead: port {port} on 127.0.0.1 cannot be used (Address already in use); choose another with --port"
    )


def test_up_reports_a_missing_tool(other: Lab, tmp_path: Path) -> None:
    script = (
        f"mount -t tmpfs none /usr/sbin && exec {BRIDGEHEAD} up --detach --name other --state-dir {other.state_dir}"
    )
    result = run("unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script)
    if shutil.which("nft", path="/usr/sbin") is None:
        pytest.fail("this test hides /usr/sbin, where nft is expected")
    assert result.returncode == 3
    assert result.stderr.strip() == (
        "bridgehead: the command `nft` is missing: install it (Debian: apt-get install nftables)"
    )


def test_up_reports_a_full_disk(other: Lab) -> None:
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


def test_up_reports_missing_user_namespaces(other: Lab) -> None:
    script = (
        "echo 0 > /proc/sys/user/max_user_namespaces && echo 0 > /proc/sys/user/max_net_namespaces &&"
        f" exec {BRIDGEHEAD} up --detach --name other --state-dir {other.state_dir}"
    )
    result = run("unshare", "--user", "--map-root-user", "sh", "-c", script)
    assert result.returncode == 3
    assert "the sysctl user.max_user_namespaces is 0" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize("name", ["Bad_Name", "-x", "a" * 40])
def test_an_invalid_lab_name_is_refused(name: str) -> None:
    result = run(BRIDGEHEAD, "status", f"--name={name}")
    assert result.returncode == 1
    assert "a lab's name has lower case letters" in result.stderr
