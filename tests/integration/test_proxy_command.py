"""`bridgehead proxy` as a program: errors at start, and --cleanup; in namespaces of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.kubeconfigs import write_kubeconfig

pytestmark = [pytest.mark.integration, pytest.mark.needs("nft")]

PROXY = (sys.executable, "-c", "from bridgehead.cli import main; main()", "proxy")


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    return str(write_kubeconfig(tmp_path / "kubeconfig"))


# The network namespace comes after the mapping, so that its files in /proc/net belong to this root.
ROOT_OF_A_NAMESPACE = ["unshare", "--user", "--map-root-user", "unshare", "--net"]


def run_in_namespace(*command: str, root: bool = True) -> subprocess.CompletedProcess[str]:
    source = Path(__file__).resolve().parents[2] / "src"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("KUBERNETES_")}
    return subprocess.run(
        [*(ROOT_OF_A_NAMESPACE if root else ["unshare", "--user", "--net"]), *command],
        capture_output=True,
        text=True,
        timeout=240,
        env=environment | {"PYTHONPATH": str(source)},
    )


def test_without_the_capability_the_proxy_logs_the_reason_and_exits(kubeconfig: str) -> None:
    result = run_in_namespace(*PROXY, "--kubeconfig", kubeconfig, "--node-name", "node1", root=False)

    assert result.returncode == 1
    assert result.stderr.splitlines() == [
        "bridgehead proxy: may not change this network namespace's nftables: CAP_NET_ADMIN is needed"
    ]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((), "no kubeconfig given, and not in a pod"),
        (("--kubeconfig", "/nonexistent"), "/nonexistent"),
        (("--proxy-mode", "kernelspace"), 'mode: Invalid value: "kernelspace": must be iptables, ipvs, nftables,'),
        (("--cluster-cidr", "10.0.0.0"), 'clusterCIDR: Invalid value: "10.0.0.0": must be a valid CIDR block'),
        (("--config", "/nonexistent"), "/nonexistent: No such file or directory"),
    ],
)
def test_missing_prerequisites_are_reported_in_one_line(arguments: tuple[str, ...], text: str) -> None:
    result = run_in_namespace(*PROXY, *arguments)

    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("bridgehead proxy: ")
    assert text in line


def test_cleanup_without_the_capability_does_not_report_success() -> None:
    result = run_in_namespace(*PROXY, "--cleanup", root=False)

    assert result.returncode == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("bridgehead proxy: the rules of mode ")
    assert "CAP_NET_ADMIN is needed" in line


def test_cleanup_removes_only_the_proxys_tables() -> None:
    script = (
        'nft add table ip bridgehead; nft add table ip6 bridgehead; nft add table ip other; "$@" && nft list tables'
    )

    result = run_in_namespace("sh", "-c", script, "sh", *PROXY, "--cleanup")

    assert result.returncode == 0, result.stderr
    assert result.stdout.split() == ["table", "ip", "other"]


needs_iptables = pytest.mark.needs("iptables-nft")


def python_in_namespace(program: str) -> str:
    """Run an async program in namespaces of its own; what it printed."""
    header = (
        "import asyncio, subprocess\n"
        "from bridgehead.objects.meta import ObjectKey\n"
        "from bridgehead.proxy.frontend_table import FrontendTable\n"
        "from bridgehead.proxy.frontends import Frontend, FrontendKey, ServiceFrontends\n"
        "from bridgehead.proxy.iptables.apply import VARIANTS, find_variant, has_tables\n"
        "from bridgehead.proxy.mode_choice import open_mode, remove_others\n"
        "def sh(line): return subprocess.run(line, shell=True, check=True, stdout=subprocess.PIPE, text=True).stdout\n"
        "service, key = ObjectKey('default', 'web'), FrontendKey('10.96.0.10', 'tcp', 80)\n"
        "frontends = (Frontend(key=key, owner='default/web:'),)\n"
        "table = FrontendTable()\n"
        "table.update(service, ServiceFrontends(service=service, frontends=frontends, cluster_ips=('10.96.0.10',)))\n"
        "async def main():\n"
    )
    body = "".join(f"    {line}\n" for line in textwrap.dedent(program).strip().splitlines())
    script = 'mount -t tmpfs none /run && exec "$@"'  # the legacy variant's lock is there
    command = (sys.executable, "-c", f"{header}{body}asyncio.run(main())")
    result = run_in_namespace("unshare", "--mount", "sh", "-c", script, "sh", *command)
    assert result.returncode == 0, result.stderr
    return result.stdout


@needs_iptables
def test_cleanup_continues_after_an_error_and_logs_it() -> None:
    script = (
        "nft add table ip bridgehead; iptables-nft -t nat -N KUBE-SERVICES; iptables-nft -t nat -N mine;"
        'iptables-nft -t nat -A mine -g KUBE-SERVICES; "$@"; echo $?; nft list tables'
    )

    result = run_in_namespace("sh", "-c", script, "sh", *PROXY, "--cleanup")

    assert result.stdout.split() == ["1", "table", "ip", "nat"]
    assert result.stderr.splitlines()[-1].startswith(
        "bridgehead proxy: the rules of mode iptables could not be removed: "
    )


@needs_iptables
@pytest.mark.parametrize(("old", "new"), [("nftables", "iptables"), ("iptables", "nftables")])
def test_a_mode_switch_removes_the_rules_of_the_old_mode(old: str, new: str) -> None:
    printed = python_in_namespace(f"""
        for name in ("{old}", "{new}"):
            async with open_mode(name) as mode:
                await mode.sync(table)
        print(await remove_others("{new}"))
        print("bridgehead" in sh("nft list tables"), "KUBE-" in sh("iptables-save; ip6tables-save"))
        print(await remove_others("{new}"))
    """)

    here = (new == "nftables", new == "iptables")
    assert printed.splitlines() == [f"['{old}']", f"{here[0]} {here[1]}", "[]"]


@needs_iptables
def test_cleanup_removes_the_rules_of_every_mode() -> None:
    printed = python_in_namespace(f"""
        for name in ("nftables", "iptables"):
            async with open_mode(name) as mode:
                await mode.sync(table)
        subprocess.run({[*PROXY, "--cleanup"]!r}, check=True)
        print("bridgehead" in sh("nft list tables"), "KUBE-" in sh("iptables-save; ip6tables-save"))
    """)

    assert printed == "False False\n"


HIDE_IPTABLES = (
    "for name in iptables-nft iptables-legacy; do"
    " path=$(command -v $name) && mount --bind /dev/null $(readlink -f $path); done;"
)


@needs_iptables
def test_cleanup_without_the_iptables_commands_removes_the_chains_that_kube_proxys_image_wrote() -> None:
    script = (
        "mount -t tmpfs none /run;"
        "iptables-nft -t nat -N KUBE-SERVICES; iptables-nft -t nat -N KUBE-SVC-4N57TFCL4MD7ZTDA;"
        "iptables-nft -t nat -A PREROUTING -m comment --comment 'jump x # handle 1' -j KUBE-SERVICES;"
        "iptables-nft -t nat -A KUBE-SERVICES -m addrtype --dst-type LOCAL -g KUBE-SVC-4N57TFCL4MD7ZTDA;"
        "iptables-nft -t mangle -N KUBE-IPVS; iptables-nft -t mangle -N KUBE-KUBELET-CANARY;"
        "ip6tables-nft -t filter -N KUBE-FORWARD; ip6tables-nft -t filter -A FORWARD -g KUBE-FORWARD;"
        "ip6tables-nft -t filter -A FORWARD -j ACCEPT;"
        f'{HIDE_IPTABLES} "$@" && nft list ruleset'
    )

    result = run_in_namespace("unshare", "--mount", "sh", "-c", script, "sh", *PROXY, "--cleanup")

    assert result.returncode == 0, result.stderr
    assert "removed the rules of iptables" in result.stderr
    assert re.findall(r"KUBE-[A-Z-]+", result.stdout) == ["KUBE-KUBELET-CANARY"], "the kubelet's"
    assert re.findall(r"(?:jump|accept$)", result.stdout, re.MULTILINE) == ["accept"]


@pytest.mark.parametrize("mode", ["nftables", "userspace"])
def test_nftables_tables_of_kube_proxy_are_removed(mode: str) -> None:
    """kube-proxy ends without removing its tables, which go on dropping packets and translating to old pods."""
    printed = python_in_namespace(f"""
        sh("nft add table ip kube-proxy; nft add table ip6 kube-proxy; nft add table inet kube-proxys")
        async with open_mode("{mode}") as mode:
            await mode.sync(table)
            print(await remove_others("{mode}"), await remove_others("{mode}"))
            print("ip kube-proxy" in sh("nft list tables"), "inet kube-proxys" in sh("nft list tables"))
        sh("nft add table ip6 kube-proxy")
        subprocess.run({[*PROXY, "--cleanup"]!r}, check=True)
        print(sh("nft list tables"))
    """)

    assert printed.split("\n")[:3] == ["['nftables of kube-proxy'] []", "False True", "table inet kube-proxys"]


@pytest.mark.needs("iptables-legacy")
def test_the_iptables_variant_is_that_of_the_node() -> None:
    printed = python_in_namespace("""
        sh("iptables-legacy -t nat -A OUTPUT -j ACCEPT")
        print(await find_variant())
        for _ in range(2):
            sh("ip6tables-nft -A OUTPUT -j ACCEPT")
        print(await find_variant())
        sh("iptables-legacy -t mangle -N KUBE-IPTABLES-HINT")
        print(await find_variant())
    """)

    assert printed.split() == ["legacy", "nft", "legacy"]


@needs_iptables
def test_the_command_is_not_run_for_a_variant_without_tables() -> None:
    printed = python_in_namespace("""
        def found(): return [has_tables(family, variant) for variant in VARIANTS for family in (4, 6)]
        sh("nft add table ip bridgehead")
        print(found())
        sh("ip6tables-nft -t raw -N X")
        print(found())
    """)

    assert printed.splitlines() == ["[False, False, False, False]", "[False, True, False, False]"]


@needs_iptables
def test_a_proxy_that_changes_the_variant_removes_its_rules_from_the_old_one() -> None:
    printed = python_in_namespace("""
        from bridgehead.proxy.iptables import IptablesMode, Kernel
        from bridgehead.proxy.mode import Settings
        for variant in ("legacy", "nft"):
            await IptablesMode(Kernel(variant), Settings()).sync(table)
            print(*("KUBE-" in sh(f"iptables-{v}-save 2>/dev/null") for v in ("legacy", "nft")))
    """)

    assert printed.splitlines() == ["True False", "False True"]


@needs_iptables
def test_cleanup_includes_an_unused_variant() -> None:
    printed = python_in_namespace("""
        sh("iptables-legacy -t mangle -N KUBE-IPTABLES-HINT")
        async with open_mode("iptables") as mode:
            await mode.sync(table)
        sh("iptables-legacy -t mangle -X KUBE-IPTABLES-HINT")
        for _ in range(50):
            sh("iptables-nft -A OUTPUT -j ACCEPT")
        print(await find_variant(), "KUBE-" in sh("iptables-legacy-save"))
        print(await remove_others("nftables"), "KUBE-" in sh("iptables-legacy-save; ip6tables-legacy-save"))
    """)

    assert printed.splitlines() == ["nft True", "['iptables'] False"]
