"""The source of Kubernetes 1.20.2, which Debian 12 has whole, and the programs that are compiled from it.

Packages of later releases have kubectl only. Files are below `.kubernetes-e2e`; apt-get installs what is needed to
compile and to run them (golang-go, dpkg-dev, etcd-server), as root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

BUILD = Path(__file__).resolve().parent.parent / ".kubernetes-e2e"
SOURCE = BUILD / "go/src/k8s.io/kubernetes"
PROGRAMS = BUILD / "bin"
KUBE_APISERVER = PROGRAMS / "kube-apiserver"

_PACKAGES = {"go": "golang-go", "dpkg-source": "dpkg-dev", "etcd": "etcd-server"}
_ENVIRONMENT = {
    "GO111MODULE": "off",
    "GOPROXY": "off",
    "GOFLAGS": "",
    "GOPATH": str(BUILD / "go"),
    "GOCACHE": str(BUILD / "cache"),
    "CGO_ENABLED": "0",
}
# Programs of Go 1.18 or later crash with the source's reflect2 where it walks through maps; with this one they do not.
_REFLECTION, _REFLECTION_PACKAGE = "github.com/modern-go/reflect2", "golang-github-modern-go-reflect2-dev"
_LIBRARIES = Path("/usr/share/gocode/src")
# Directories with types that are not those of kube-apiserver.
_OTHER_TYPES = ("_examples", "code-generator", "sample-apiserver", "pkg/apis/abac")


def fetch() -> None:
    """Install missing packages, and unpack the source unless it is there. Raises `CalledProcessError`.

    apt-get works with lists of its own, which leave the machine's alone.
    """
    missing = [package for program, package in _PACKAGES.items() if shutil.which(program) is None]
    if not (_LIBRARIES / _REFLECTION).exists():
        missing.append(_REFLECTION_PACKAGE)
    if missing:
        subprocess.run(("apt-get", "update", "-qq"), check=True)
        subprocess.run(("apt-get", "install", "-y", "-qq", *missing), check=True)
    if SOURCE.exists():
        return
    lists = BUILD / "apt"
    for directory in ("lists/partial", "cache/archives/partial", "sources"):
        (lists / directory).mkdir(parents=True, exist_ok=True)
    for name in ("sources.list", "sources.list.d/debian.sources"):
        path = Path("/etc/apt", name)
        if path.exists():
            text = path.read_text().replace("Types: deb\n", "Types: deb-src\n").replace("\ndeb ", "\ndeb-src ")
            (lists / "sources" / path.name.replace("sources.list", "machine.list")).write_text(text)
    options = ("Dir::Etc::sourcelist=-", f"Dir::Etc::sourceparts={lists}/sources", f"Dir::State::lists={lists}/lists")
    apt = ["apt-get", *(word for option in (*options, f"Dir::Cache={lists}/cache") for word in ("-o", option))]
    subprocess.run((*apt, "update", "-qq"), check=True)
    subprocess.run((*apt, "source", "-qq", "--download-only", "kubernetes"), cwd=BUILD, check=True)
    [archive] = BUILD.glob("kubernetes_*.orig.tar.*")
    unpacked = BUILD / "unpacked"
    unpacked.mkdir(exist_ok=True)
    subprocess.run(("tar", "-xf", archive, "--strip-components=1", "-C", unpacked), check=True)
    shutil.rmtree(unpacked / "vendor" / _REFLECTION)
    shutil.copytree(_LIBRARIES / _REFLECTION, unpacked / "vendor" / _REFLECTION)
    SOURCE.parent.mkdir(parents=True, exist_ok=True)
    unpacked.rename(SOURCE)


def go(*argv: str) -> None:
    """Run a command of Go in the source. Raises `CalledProcessError`."""
    print("go", *argv, flush=True)
    subprocess.run(("go", *argv), cwd=SOURCE, env={**os.environ, **_ENVIRONMENT}, check=True)


def compile_program(name: str, package: str) -> None:
    """Compile a package of the source, given by its path in it. Raises `CalledProcessError`."""
    go("build", "-o", str(PROGRAMS / name), package)


def compile_kube_apiserver() -> None:
    """Compile `KUBE_APISERVER`, with the description of its types, which the source lacks."""
    fetch()
    compile_program("openapi-gen", "./vendor/k8s.io/kube-openapi/cmd/openapi-gen")
    found = ("grep", "-rl", "--include=*.go", "+k8s:openapi-gen=", "pkg", "staging/src/k8s.io")
    files = subprocess.run(found, cwd=SOURCE, capture_output=True, text=True, check=True).stdout.splitlines()
    directories = sorted({str(Path(file).parent) for file in files})
    packages = [
        f"k8s.io/kubernetes/{one.replace('staging/src', 'vendor', 1)}"
        for one in directories
        if not any(other in one for other in _OTHER_TYPES)
    ]
    described = "k8s.io/kubernetes/pkg/generated/openapi"
    generate: list[str | Path] = [
        PROGRAMS / "openapi-gen",
        "-i",
        ",".join(packages),
        "-p",
        described,
        "-O",
        "zz_generated.openapi",
    ]
    generate += ["--go-header-file", os.devnull, "--output-base", BUILD / "go/src", "-r", BUILD / "openapi-violations"]
    subprocess.run(generate, cwd=SOURCE, env={**os.environ, **_ENVIRONMENT}, check=True)
    compile_program(KUBE_APISERVER.name, "./cmd/kube-apiserver")
