"""kubectl attach and kubectl run -i: a container's own streams, with and without a terminal."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from .conftest import PATIENCE, Lab, Namespace, eventually, running
from .test_pods import phase, pod


class Terminal:
    """kubectl on a terminal of our own. `screen` is what it showed so far."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.screen = ""
        self._master = master

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def expect(self, pattern: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not re.search(pattern, self.screen):
            if time.monotonic() > deadline or not self._read(deadline):
                pytest.fail(f"{pattern!r} does not come: {self.screen!r}")

    def end(self) -> int:
        """The exit code, once kubectl has ended."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self._read(deadline):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def _read(self, deadline: float) -> bool:
        """False at the end of all output."""
        ready, _, _ = select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))
        try:
            data = os.read(self._master, 4096) if ready else b""
        except OSError:  # EIO: the other side of the terminal is closed
            data = b""
        self.screen += data.decode(errors="replace")
        return bool(data)


@contextlib.contextmanager
def terminal(ns: Namespace, *arguments: object) -> Iterator[Terminal]:
    """kubectl on a terminal of 101 columns and 37 rows."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 37, 101, 0, 0))
    argv = ["kubectl", "-n", ns.name, *map(str, arguments)]
    try:
        process = subprocess.Popen(
            argv, stdin=slave, stdout=slave, stderr=slave, env=ns.lab.env, start_new_session=True
        )
    finally:
        os.close(slave)
    try:
        yield Terminal(process, master)
    finally:
        process.kill()
        process.wait()
        os.close(master)


def test_kubectl_run_opens_a_shell_on_a_terminal(lab: Lab, ns: Namespace) -> None:
    arguments = ("run", "probe", "-it", "--rm", "--image=busybox", "--restart=Never", "--", "sh")
    with terminal(ns, *arguments) as shell:
        shell.expect("press(ing)? enter")
        # kubectl first sends a size that is wrong by one, so that full-screen programs draw anew.
        shell.type("until stty size | grep '37 101'; do :; done; tty; echo typed $((40+2))\n")
        shell.expect(r"37 101\s+/dev/pts/0\s+typed 42")
        shell.type("exit 4\n")
        assert shell.end() == 4, shell.screen
    ns.gone("probe")


def test_a_client_detaches_from_a_terminal_and_attaches_again(lab: Lab, ns: Namespace) -> None:
    with terminal(ns, "run", "stays", "-it", "--image=busybox", "--", "sh") as shell:
        shell.expect("press(ing)? enter")
        shell.type("mark=left$((40+2)); echo $mark\n")
        shell.expect("left42")
    # kubectl was killed; the shell goes on and remembers.
    with terminal(ns, "attach", "-it", "stays") as shell:
        shell.type("echo again $mark\n")
        shell.expect("again left42")
        shell.type("exit\n")
        assert shell.end() == 0, shell.screen
        assert "Session ended, resume using 'kubectl attach stays" in shell.screen
    eventually(lambda: ns.get("pods", "stays")["status"]["containerStatuses"][0]["restartCount"] == 1)
    assert "again left42" in ns.kubectl("logs", "stays", "--previous")


def test_kubectl_run_passes_piped_input_to_the_container(lab: Lab, ns: Namespace) -> None:
    arguments = ("run", "probe", "-i", "--restart=Never", "--image=busybox", "--")
    assert ns.kubectl(*arguments, "sh", "-c", "cat; echo end", stdin="one\ntwo\n") == "one\ntwo\nend\n"
    eventually(lambda: phase(ns, "probe") == "Succeeded")
    assert ns.kubectl("logs", "probe") == "one\ntwo\nend\n"
    ns.kubectl("delete", "pod", "probe")

    failed = ns.try_kubectl(*arguments[:2], "--rm", *arguments[2:], "sh", "-c", "cat >&2; exit 3", stdin="words\n")
    assert failed.returncode == 3, failed.stderr
    assert "words\n" in failed.stderr
    assert 'pod "probe" deleted' in failed.stdout
    ns.gone("probe")


def test_attach_shows_output_and_leaves_the_container_alone(lab: Lab, ns: Namespace) -> None:
    ns.apply(pod("talks", "sh", "-c", "while read line; do echo got $line; done", container={"stdin": True}))
    ns.ready("talks")
    for word in ("first", "second"):
        ns.kubectl("attach", "-i", "talks", stdin=f"{word}\n")  # its input ends, the container's does not
        eventually(lambda word=word: f"got {word}\n" in ns.kubectl("logs", "talks"))
    status = ns.get("pods", "talks")["status"]["containerStatuses"][0]
    assert (status["ready"], status["restartCount"]) == (True, 0)


def test_the_output_of_a_short_run_is_shown_once(ns: Namespace) -> None:
    """kubectl attaches when the container has ended already, and falls back to its log."""
    command = ("run", "short", "--image=busybox", "--restart=Never", "--rm", "-i", "--quiet", "--", "echo", "spoken")
    for _ in range(3):
        assert ns.kubectl(*command).count("spoken") == 1


@pytest.mark.parametrize("websockets", ["true", "false"])
def test_large_files_are_copied_in_both_directions(lab: Lab, ns: Namespace, tmp_path: Path, websockets: str) -> None:
    """The file is sent by `kubectl cp`, by a pipe, and by a client that leaves as soon as it has sent it."""
    ns.apply(pod("store", "sleep", "1000"))
    ns.ready("store")
    (tmp_path / "sent").write_bytes(os.urandom(6_000_000))
    digest = hashlib.md5((tmp_path / "sent").read_bytes()).hexdigest()
    environment = {**lab.env, "KUBECTL_REMOTE_COMMAND_WEBSOCKETS": websockets}

    def kubectl(*arguments: object, stdin: int | None = None) -> str:
        argv = ["kubectl", "-n", ns.name, *map(str, arguments)]
        done = subprocess.run(argv, stdin=stdin, env=environment, capture_output=True, timeout=PATIENCE, check=True)
        return done.stdout.decode()

    kubectl("cp", tmp_path / "sent", "store:/tmp/copied")
    kubectl("cp", "store:/tmp/copied", tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == (tmp_path / "sent").read_bytes()
    with (tmp_path / "sent").open("rb") as file:
        # The command begins to read late, and ends after its output.
        script = "sleep 0.3; tee /tmp/piped | md5sum; exit 0"
        assert digest in kubectl("exec", "-i", "store", "--", "sh", "-c", script, stdin=file.fileno())
    assert digest in kubectl("exec", "store", "--", "md5sum", "/tmp/piped")


def test_a_command_goes_on_when_its_client_is_killed(lab: Lab, ns: Namespace) -> None:
    ns.apply(pod("works", "sleep", "1000"))
    ns.ready("works")
    script = "echo begun; cat; echo 1; echo 2 >&2; echo done >/tmp/done; exec sleep 4321"
    argv = ("kubectl", "-n", ns.name, "exec", "-i", "works", "--", "sh", "-c", script)
    with running(*argv, env=lab.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "begun\n"
        client.kill()
    eventually(lambda: ns.execute("works", "cat", "/tmp/done").stdout == "done\n")
    eventually(lambda: "sleep 4321" in ns.execute("works", "ps").stdout)  # a moment after the file is there


def test_a_shell_of_exec_hangs_up_with_its_terminal(lab: Lab, ns: Namespace) -> None:
    ns.apply(pod("works", "sleep", "1000"))
    ns.ready("works")
    with terminal(ns, "exec", "-it", "works", "--", "sh") as shell:
        shell.type("until stty size | grep '37 101'; do :; done; echo typed $((40+2)); exit 4\n")
        shell.expect(r"typed 42")
        assert shell.end() == 4, shell.screen
    with terminal(ns, "exec", "-it", "works", "--", "sh") as shell:
        shell.type("sleep 7654\n")
        eventually(lambda: "sleep 7654" in ns.execute("works", "ps").stdout)
    # kubectl was killed, as by a terminal's window that is closed.
    eventually(lambda: "sleep 7654" not in ns.execute("works", "ps").stdout)


def test_attach_to_a_completed_container_is_refused(lab: Lab, ns: Namespace) -> None:
    ns.apply(pod("once", "true", restartPolicy="Never"))
    eventually(lambda: phase(ns, "once") == "Succeeded")
    refused = ns.try_kubectl("attach", "once")
    assert refused.returncode != 0
    assert "cannot attach a container in a completed pod; current phase is Succeeded" in refused.stderr


def test_termination_message_is_read_from_its_path(lab: Lab, ns: Namespace) -> None:
    ns.apply(
        pod(
            "words", "sh", "-c", "echo farewell > /tmp/words; exit 1",
            restartPolicy="Never", container={"terminationMessagePath": "/tmp/words"},
        )
    )  # fmt: skip
    eventually(lambda: phase(ns, "words") == "Failed")
    terminated = ns.get("pods", "words")["status"]["containerStatuses"][0]["state"]["terminated"]
    assert terminated["message"] == "farewell\n"
