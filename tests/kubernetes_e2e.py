"""Kubernetes' own end-to-end tests against a lab: built from Debian's source package, run inside the lab.

    python -m tests.kubernetes_e2e                                          # the conformance tests
    python -m tests.kubernetes_e2e --focus 'sig-network.*Services' --skip 'Slow|Serial'

Debian 12 has the whole source of Kubernetes 1.20.2; packages of later releases have kubectl only. The demands of that
release's tests hold for 1.36, but for `OUTDATED` and what `CHANGES` adapts. The tests have no route out of the lab, so
that they cannot send packets elsewhere. Building them takes ten minutes, once; the conformance tests run for some
twenty minutes on two cores. apt-get installs what they need (golang-go, dpkg-dev, etcd-server), as root.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import kubernetes_source as source
from tests.image_files import archive_of, entries_of_program, image_of, layer_of
from tests.kubernetes_source import BUILD, PROGRAMS, SOURCE

BRIDGEHEAD = Path(__file__).resolve().parent.parent / ".venv/bin/bridgehead"
CHANGED = BUILD / "changed"
NODES = 3

# Tests of one process at a time need the cluster for themselves.
ALONE = r"\[Serial\]|\[Disruptive\]"
CONFORMANCE = r"\[Conformance\]"

# Programs, by the package of their source.
BUILT = {
    "go-bindata": "./vendor/github.com/go-bindata/go-bindata/go-bindata",
    "ginkgo": "./vendor/github.com/onsi/ginkgo/ginkgo",
    "kubectl": "./cmd/kubectl",
    "nnp": "./test/images/nonewprivs",
    "sample-apiserver": "./vendor/k8s.io/sample-apiserver",
}
# Packages that Kubernetes' build generates, by the directories of files that they embed.
EMBEDDED = {
    "test/e2e/generated": (
        "test/conformance/testdata/...",
        "test/e2e/testing-manifests/...",
        "test/e2e_node/testing-manifests/...",
        "test/images/...",
        "test/fixtures/...",
    ),
    "staging/src/k8s.io/kubectl/pkg/generated": ("translations/...",),
}
# Texts in files of the source, and what takes their place, where Kubernetes has changed since or the lab differs.
CHANGES = (
    # ServiceAccounts have no token Secrets since 1.24, and with that no copy of the CA.
    ("test/e2e/framework/util.go", "return len(t.Secrets) > 0, nil", "return t != nil, nil"),
    ("test/e2e/auth/service_accounts.go", "len(sa.Secrets) == 0 {", "len(sa.Secrets) == 0 {\nreturn true, nil"),
    (
        "test/e2e/auth/service_accounts.go",
        "ExpectEqual(mountedCA, rootCAContent)",
        "ExpectNotEqual(mountedCA, rootCAContent)",
    ),
    # Templates have no creationTimestamp since 1.34.
    (
        "pkg/controller/daemon/update.go",
        '\ttemplate["$patch"] = ',
        '\tdelete(template["metadata"].(map[string]interface{}), "creationTimestamp")\n\ttemplate["$patch"] = ',
    ),
    # A lab removes three pods in 0.3 s, with ten writes of their StatefulSet's status. An update that is tried three
    # times without a pause conflicts with these writes now and then.
    ("test/e2e/framework/statefulset/rest.go", "for i := 0; i < 3; i++ {", "for i := 0; i < 100; i++ {"),
    # Some tests wait a minute for pods that few clusters have, and go on without them.
    ("test/e2e/framework/node/wait.go", 'regexp.MustCompile(".*fluentd-elasticsearch.*"),', ""),
    ("test/e2e/framework/node/wait.go", 'regexp.MustCompile(".*node-problem-detector.*"),', ""),
    # The tests have no route out of the lab.
    (
        "test/e2e/network/networking.go",
        'http.Get("http://google.com")',
        "&http.Response{StatusCode: http.StatusOK}, error(nil)",
    ),
)
# Conformance tests that later releases changed, with the reason.
OUTDATED = {
    "Kubectl version should check is all data is printed": "kubectl prints the version in another form since 1.28",
    "Events API should ensure that an event can be fetched, patched, deleted, and listed": "notes are immutable now",
}
# Registries of images, so that their paths are those of later releases, for which there are stand-ins.
REGISTRIES = """\
dockerLibraryRegistry: docker.io/library
e2eRegistry: registry.k8s.io/e2e-test-images
promoterE2eRegistry: registry.k8s.io/e2e-test-images
gcRegistry: registry.k8s.io
"""


def main() -> int:
    """Return the exit code: 1 if a test failed that is not outdated."""
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes_e2e", description="Run Kubernetes' own tests.")
    parser.add_argument("--focus", default=CONFORMANCE, metavar="REGEX", help="names of tests to run")
    parser.add_argument("--skip", default="", metavar="REGEX", help="names of tests to leave out")
    parser.add_argument("--processes", type=int, default=5, help="tests at the same time")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # the lab is deleted, as after Ctrl-C
    if not (PROGRAMS / "e2e.test").exists():
        build()
    with lab() as state:
        results = BUILD / "results"
        shutil.rmtree(results, ignore_errors=True)
        skipped = "|".join(filter(None, (options.skip, ALONE)))
        run(state, results / "together", options.focus, skipped, options.processes)
        alone = rf"({options.focus}).*({ALONE})|({ALONE}).*({options.focus})"
        run(state, results / "alone", alone, options.skip, 1)
    return report(results)


# --- building


def build() -> None:
    """Change and compile the source. Raises `CalledProcessError`."""
    source.fetch()
    change()
    source.compile_program("go-bindata", BUILT["go-bindata"])
    for package, directories in EMBEDDED.items():
        embed = (PROGRAMS / "go-bindata", "-nometadata", "-o", f"{package}/bindata.go", "-pkg", "generated")
        subprocess.run((*embed, "-ignore", r"BUILD(\.bazel)?", *directories), cwd=SOURCE, check=True)
    for name, package in BUILT.items():
        source.compile_program(name, package)
    source.go("test", "-vet=off", "-c", "-o", str(PROGRAMS / "e2e.test"), "./test/e2e")


def change() -> None:
    """Make `CHANGES` in a source that has none yet."""
    if CHANGED.exists():
        return
    for name, old, new in CHANGES:
        path = SOURCE / name
        text = path.read_text()
        if old not in text:
            raise SystemExit(f"{SOURCE} is not the release that this program knows: {name} has no {old!r}")
        path.write_text(text.replace(old, new))
    CHANGED.touch()


# --- running


@contextmanager
def lab() -> Iterator[Path]:
    """Start a lab; return its state directory. The lab is deleted at the end."""
    with tempfile.TemporaryDirectory(prefix="conformance-") as directory:
        state = Path(directory, "state")
        subprocess.run((BRIDGEHEAD, "up", *of(state), "--nodes", str(NODES), "--detach", "--offline"), check=True)
        try:
            load_images(state)
            yield state
        finally:
            subprocess.run((BRIDGEHEAD, "down", *of(state), "--delete"), check=True)


def of(state: Path) -> tuple[str, ...]:
    return ("--name", "conformance", "--state-dir", str(state))


def load_images(state: Path) -> None:
    """Load images of programs that were compiled, and of etcd, which stand-ins cannot take the place of."""
    etcd = shutil.which("etcd")
    if etcd is None:
        raise SystemExit("etcd is missing (Debian: apt-get install etcd-server)")
    images = {
        "registry.k8s.io/e2e-test-images/sample-apiserver:1.17": (
            PROGRAMS / "sample-apiserver",
            "/kube-sample-apiserver",
        ),
        "registry.k8s.io/e2e-test-images/nonewprivs:1.0": (PROGRAMS / "nnp", "/usr/local/bin/nnp"),
        "registry.k8s.io/etcd:3.4.13-0": (Path(etcd), "/usr/local/bin/etcd"),
    }
    for name, (program, path) in images.items():
        archive = state.parent / "image.tar"
        archive.write_bytes(
            archive_of(name, image_of(layer_of(entries_of_program(program, path), ""), Entrypoint=[path]))
        )
        subprocess.run((BRIDGEHEAD, "image", "load", *of(state), archive), check=True)


def run(state: Path, results: Path, focus: str, skip: str, processes: int) -> None:
    """Run the tests whose names match `focus` and not `skip`; write their log and reports into `results`."""
    results.mkdir(parents=True)
    registries = results / "registries.yaml"
    registries.write_text(REGISTRIES)
    print(f"running tests, {processes} at a time; the log is {results / 'log'}", flush=True)
    with (results / "log").open("wb") as log:
        argv: list[str | Path] = [BRIDGEHEAD, "exec", *of(state), "--", "env", f"KUBE_TEST_REPO_LIST={registries}"]
        argv += [PROGRAMS / "ginkgo", f"-nodes={processes}", "-noColor", f"-focus={focus}", f"-skip={skip}"]
        argv += ["-keepGoing", PROGRAMS / "e2e.test", "--", f"--kubeconfig={state}/kubeconfig.inside"]
        argv += ["--provider=skeleton", f"--kubectl-path={PROGRAMS}/kubectl", f"--report-dir={results}"]
        argv += ["--disable-log-dump", f"--repo-root={SOURCE}", f"--num-nodes={NODES}"]
        subprocess.run(
            argv,
            cwd=results,
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,  # the reports list what failed
        )


def report(results: Path) -> int:
    """Print the failures and a summary; return the exit code."""
    passed, failed, outdated = 0, 0, 0
    for path in sorted(results.glob("*/junit_*.xml")):
        for case in ElementTree.parse(path).iter("testcase"):
            failure = case.find("failure")
            if case.find("skipped") is not None:
                continue
            if failure is None:
                passed += 1
                continue
            name = case.get("name", "")
            reason = next((why for text, why in OUTDATED.items() if text in name), "")
            outdated += bool(reason)
            failed += not reason
            text = reason or " ".join((failure.text or "").split())[:300]
            print(f"{'outdated' if reason else 'FAILED'}: {name}: {text}")
    print(f"{passed} passed, {failed} failed, {outdated} outdated")
    return int(failed > 0 or passed == 0)


if __name__ == "__main__":
    sys.exit(main())
