"""Options that are on or off, as Kubernetes' own programs take them; tried with the proxy's."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import yaml

from bridgehead import __version__
from bridgehead.cli import main, preload
from bridgehead.cli.proxy import client_config
from bridgehead.proxy.sysctls import Sysctl
from bridgehead.yaml_loader import load


def written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    """The configuration that these options of `bridgehead proxy` make."""
    monkeypatch.setattr("bridgehead.cli.proxy.logs_setup.configure", lambda verbosity: None)
    path = tmp_path / "config.yaml"
    with pytest.raises(SystemExit) as end:
        main(["proxy", "--proxy-mode", "iptables", *arguments, "--write-config-to", str(path)])
    assert not end.value.code
    return load(path.read_text())


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("--masquerade-all", True),
        ("--masquerade-all=true", True),
        ("--masquerade-all=T", True),
        ("--masquerade-all=1", True),
        ("--masquerade-all=false", False),
        ("--masquerade-all=0", False),
        ("--masquerade_all", True),
        ("--masquerade_all=false", False),
    ],
)
def test_a_boolean_option_accepts_a_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str, expected: bool
) -> None:
    assert written(tmp_path, monkeypatch, argument)["iptables"]["masqueradeAll"] is expected


def test_a_boolean_option_can_override_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = written(tmp_path, monkeypatch, "--masquerade-all=true", "--iptables-localhost-nodeports=true")
    (tmp_path / "given.yaml").write_text(yaml.safe_dump(config))

    options = ("--config", str(tmp_path / "given.yaml"), "--masquerade-all=false", "--iptables-localhost-nodeports=f")
    own = written(tmp_path, monkeypatch, *options)["iptables"]

    assert (own["masqueradeAll"], own["localhostNodePorts"]) == (False, False)


def test_options_of_kube_proxy_without_effect_here_are_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manifest = (
        "--feature-gates=A=true,B=false", "--v=2", "--kube-api-content-type=a/b", "--boot-id-file=/a,/b",
        "--machine_id_file=/etc/machine-id", "--legacy-stderr-threshold-behavior=false",
        "--logtostderr=true", "--alsologtostderr", "--one_output=true", "--skip_headers", "--skip_log_headers",
        "--add_dir_header", "--log_backtrace_at=:0", "--stderrthreshold=2", "--log_file_max_size=1800",
        "--log-flush-frequency=5s", "--vmodule=a=1", "--log-text-split-stream=false",
    )  # fmt: skip

    assert written(tmp_path, monkeypatch, *manifest) == written(tmp_path, monkeypatch)


def test_options_with_other_names_set_their_fields(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = (
        "--oom-score-adj=-998",
        "--profiling=false",
        "--logging-format=text",
        "--healthz-port=0",
        "--metrics-port=9",
    )
    found = written(tmp_path, monkeypatch, *options)

    assert (found["oomScoreAdj"], found["enableProfiling"], found["logging"]) == (-998, False, {"format": "text"})
    assert (found["healthzBindAddress"], found["metricsBindAddress"]) == ("0.0.0.0:10256", "127.0.0.1:9")
    given = written(tmp_path, monkeypatch, "--healthz-port=9", "--healthz-bind-address=[::1]:10")
    assert given["healthzBindAddress"] == "[::1]:10"


def test_options_of_periods_and_masquerading_are_of_the_mode_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--iptables-sync-period=1m", "--ipvs-sync-period=2m", "--masquerade-all", "--iptables-masquerade-bit=3")

    of_ipvs = written(tmp_path, monkeypatch, *options, "--proxy-mode=ipvs")
    of_iptables = written(tmp_path, monkeypatch, *options)

    assert of_ipvs["ipvs"]["syncPeriod"] == "2m"
    assert of_ipvs["iptables"] == {**of_iptables["iptables"], "syncPeriod": "30s"}
    assert (of_iptables["iptables"]["masqueradeAll"], of_iptables["iptables"]["masqueradeBit"]) == (True, 3)
    assert (of_iptables["iptables"]["syncPeriod"], of_iptables["ipvs"]["syncPeriod"]) == ("1m", "30s")


@pytest.mark.parametrize(
    ("options", "healthz", "metrics"),
    [
        (("--healthz-port=0",), None, ("127.0.0.1", 10249)),
        (("--metrics-port=0",), ("0.0.0.0", 10256), None),
        (("--healthz-bind-address=::1", "--healthz-port=9"), ("::1", 9), ("127.0.0.1", 10249)),
        (("--healthz-bind-address=::1",), ("::1", 10256), ("127.0.0.1", 10249)),
    ],
)
def test_the_deprecated_options_of_ports(
    monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], healthz: object, metrics: object
) -> None:
    """An address without a port gets that of the other option; port 0 serves nothing, as in kube-proxy's options.go."""
    seen: list[Any] = []

    async def run(settings: Any, *_: object) -> None:
        seen.append(settings)

    monkeypatch.setattr("bridgehead.cli.proxy.logs_setup.configure", lambda verbosity: None)
    monkeypatch.setattr("bridgehead.cli.proxy.run", run)
    with pytest.raises(SystemExit) as end:
        main(["proxy", "--master=http://127.0.0.1:1", *options])

    assert not end.value.code
    assert [(one.healthz, one.metrics) for one in seen] == [(healthz, metrics)]


# The options of kube-proxy 1.36, with a value that it takes: https://kubernetes.io/docs/reference/ (kube-proxy).
KUBE_PROXYS_OPTIONS = """
    --add_dir_header --alsologtostderr --bind-address=0.0.0.0 --bind-address-hard-fail
    --boot_id_file=/proc/sys/kernel/random/boot_id --cleanup=false --cluster-cidr=10.244.0.0/16
    --config-sync-period=15m0s --conntrack-max-per-core=32768 --conntrack-min=131072 --conntrack-tcp-be-liberal
    --conntrack-tcp-timeout-close-wait=1h0m0s --conntrack-tcp-timeout-established=24h0m0s --conntrack-udp-timeout=30s
    --conntrack-udp-timeout-stream=1m --detect-local-mode=ClusterCIDR --feature-gates=AllAlpha=false
    --healthz-bind-address=0.0.0.0:10256 --healthz-port=10256 --hostname-override=n --init-only=false
    --iptables-localhost-nodeports=true --iptables-masquerade-bit=14 --iptables-min-sync-period=1s
    --iptables-sync-period=30s --ipvs-exclude-cidrs=10.0.0.0/8 --ipvs-min-sync-period=1s --ipvs-scheduler=rr
    --ipvs-strict-arp --ipvs-sync-period=30s --ipvs-tcp-timeout=1m --ipvs-tcpfin-timeout=1m --ipvs-udp-timeout=1m
    --kube-api-burst=10 --kube-api-content-type=application/vnd.kubernetes.protobuf --kube-api-qps=5 --kubeconfig=
    --log-flush-frequency=5s --log-json-info-buffer-size=0 --log-json-split-stream=false --log-text-info-buffer-size=0
    --log-text-split-stream=false --log_backtrace_at=:0 --log_dir= --log_file= --log_file_max_size=1800
    --logging-format=text --logtostderr=true --machine_id_file=/etc/machine-id,/var/lib/dbus/machine-id
    --masquerade-all --master= --metrics-bind-address=127.0.0.1:10249 --metrics-port=10249
    --nodeport-addresses=10.0.0.0/24 --one_output --oom-score-adj=-999 --pod-bridge-interface=cbr0
    --pod-interface-name-prefix=veth --profiling=false --proxy-mode=iptables --show-hidden-metrics-for-version=1.35
    --skip_headers --skip_log_headers --stderrthreshold=2 -v=2 --version=false --vmodule=a=1
"""


def test_every_option_of_kube_proxy_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = written(tmp_path, monkeypatch, *KUBE_PROXYS_OPTIONS.split())

    assert (found["configSyncPeriod"], found["showHiddenMetricsForVersion"]) == ("15m0s", "1.35")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--profiling",), "--profiling=true: there is no profiler; remove the option"),
        (("--logtostderr=false",), "--logtostderr=false: logs go to standard error; redirect standard error instead"),
        (("--log_dir", "/var/log"), "--log-dir: logs go to standard error; redirect standard error instead"),
        (("--log-file=x",), "--log-file: logs go to standard error; redirect standard error instead"),
        (("--logging-format=json",), "logging.format: logs are text; leave it out"),
        (("--oom-score-adj=2000",), "oomScoreAdj: Invalid value: 2000: must be within the range [-1000, 1000]"),
        (("--iptables-sync-period=0",), '--iptables-sync-period: Invalid value: "0": must be greater than 0'),
        (("--config-sync-period=0s",), '--config-sync-period: Invalid value: "0s": must be greater than 0'),
        (
            ("--proxy-mode=ipvs", "--ipvs-sync-period=0s"),
            '--ipvs-sync-period: Invalid value: "0s": must be greater than 0',
        ),
        (
            ("--iptables-sync-period=-1s",),
            'nftables.syncPeriod: Invalid value: "-1s": must be greater than 0',
        ),
        (("--metrics-bind-address=::1:0",), 'metricsBindAddress: Invalid value: "::1:0": must be IP:port'),
        (("--healthz-bind-address=0.0.0.0:0",), 'healthzBindAddress: Invalid value: "0": must be a valid port'),
        (
            ("--healthz-bind-address=127.0.0.1", "--write-config-to=/nonexistent"),  # as kube-proxy, then alone
            'healthzBindAddress: Invalid value: "127.0.0.1": must be IP:port',
        ),
        (("--feature-gates=A",), '--feature-gates: Invalid value: "A": malformed pair, expect string=bool'),
        (("--feature-gates=A=x",), '--feature-gates: Invalid value: "A=x": A is neither true nor false'),
        (
            ("--show-hidden-metrics-for-version=1.30",),
            'showHiddenMetricsForVersion: Invalid value: "1.30": --show-hidden-metrics-for-version must be omitted or '
            "have the value '1.35'. Only the previous minor version is allowed",
        ),
    ],
)
def test_unsupported_options_of_kube_proxy_are_refused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], line: str
) -> None:
    monkeypatch.setattr("bridgehead.cli.proxy.logs_setup.configure", lambda verbosity: None)
    with pytest.raises(SystemExit) as end:
        main(["proxy", *options])
    assert end.value.code == 1
    assert capsys.readouterr().err == f"bridgehead proxy: {line}\n"


@pytest.mark.parametrize("options", ["-v=4", "-v4", "-v 4", "--v=4", "--v 4"])
def test_verbosity_is_accepted_in_every_spelling(monkeypatch: pytest.MonkeyPatch, options: str) -> None:
    asked: list[int] = []
    monkeypatch.setattr("bridgehead.cli.proxy.logs_setup.configure", asked.append)
    with pytest.raises(SystemExit):
        main(["proxy", *options.split(), "--profiling"])
    assert asked == [4]


def test_underscores_equal_dashes_and_h_prints_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = written(tmp_path, monkeypatch, "--cluster_cidr=10.244.0.0/16", "--ipvs-scheduler", "lc")

    assert found["clusterCIDR"] == "10.244.0.0/16"
    with pytest.raises(SystemExit) as end:
        main(["proxy", "-h"])
    assert not end.value.code
    assert "--cluster-cidr" in capsys.readouterr().out


def test_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["proxy", "--version"])
    assert not end.value.code
    assert capsys.readouterr().out == f"bridgehead {__version__}\n"


@pytest.mark.parametrize(
    ("cluster", "master", "server"),
    [
        ("server: 'https://10.0.0.1:6443'", "", "https://10.0.0.1:6443"),
        ("server: 'https://10.0.0.1:6443'", "https://10.0.0.2:6443/", "https://10.0.0.2:6443"),
        ("server: 'https://10.0.0.1:6443', insecure-skip-tls-verify: true", "api:6443", "https://api:6443"),
        ("server: 'http://10.0.0.1:8080'", "api:8080", "http://api:8080"),
        ("", "http://127.0.0.1:8001", "http://127.0.0.1:8001"),
    ],
)
def test_master_overrides_the_kubeconfig(tmp_path: Path, cluster: str, master: str, server: str) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(
        "current-context: a\n"
        "contexts: [{name: a, context: {cluster: a, user: a}}]\n"
        f"clusters: [{{name: a, cluster: {{{cluster}}}}}]\n"
        "users: [{name: a, user: {token: secret}}]\n"
    )

    found = client_config(str(path) if cluster else "", master)

    token = "secret" if cluster and server.startswith("https:") else None  # as kubectl does
    assert (found.server, found.token) == (server, token)


def test_init_only_writes_the_sysctls_and_exits(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    monkeypatch.setattr("bridgehead.cli.proxy.logs_setup.configure", lambda verbosity: None)

    def apply(wanted: list[Sysctl], *, refused: int) -> None:
        made.extend(sysctl.path for sysctl in wanted)
        assert refused == logging.WARNING, "who asks for nothing else hears of what could not be had"

    monkeypatch.setattr("bridgehead.cli.proxy.apply_sysctls", apply)
    with pytest.raises(SystemExit) as end:
        main(["proxy", "--init-only=true"])
    assert not end.value.code
    assert "net/netfilter/nf_conntrack_tcp_timeout_established" in made


@pytest.mark.parametrize("value", ["", "yes", "maybe"])
def test_an_invalid_value_is_refused(capsys: pytest.CaptureFixture[str], value: str) -> None:
    with pytest.raises(SystemExit) as end:
        main(["proxy", f"--masquerade-all={value}"])
    assert end.value.code == 2
    assert f"--masquerade-all: '{value}' is neither true nor false." in capsys.readouterr().err


def test_preload_parses_command_lines_before_they_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridgehead.cli.kubelet.configure", lambda verbosity: None)
    line = ["kubelet", "--node-name=n", "--kubeconfig=k", "--runtime-socket=s", "--pod-cidr=x", "--node-ip=1.2.3.4"]
    other = ["kubelet", "--node-name=n"]
    preload([line])
    for arguments, message in ((other, "Missing option"), (line, "'x' does not appear to be"), (line, "'x' does not")):
        with pytest.raises(SystemExit) as end:
            main(arguments)
        assert end.value.code == 2
        assert message in capsys.readouterr().err


def test_preload_refuses_an_invalid_command_line() -> None:
    with pytest.raises(Exception, match="No such option"):
        preload([["kubelet", "--nonsense"]])


def test_arguments_after_two_dashes_are_not_options(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["proxy", "--", "--masquerade-all=maybe"])
    assert end.value.code == 2
    assert "unexpected extra argument" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("up", "--ip-family", "dul"), 'did you mean "dual"?'),
        (("up", "--nods", "3"), 'No such option: --nods; did you mean "--nodes"?'),
        (("up", "--no-balncer"), 'did you mean "--no-balancer"?'),
        (("proxy", "--mode", "ipvs"), 'No such option: --mode; did you mean "--proxy-mode"?'),
        (("up", "--nodes", "three"), "'three' is not a whole number."),
        (("kubelet", "--termination-barrier", "x"), "'x' is not a number."),
        (("completion", "bsh"), 'did you mean "bash"?'),
        (("proxy", "--proxy-mode", "nftable"), 'did you mean "nftables"?'),
        (("proxy", "--detect-local-mode", "ClusterCDR"), 'did you mean "ClusterCIDR"?'),
        (("controllers", "--controllers", "endpoint-controller"), 'did you mean "endpoints-controller"?'),
    ],
)
def test_misspelled_options_and_values_get_suggestions(
    arguments: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    assert end.value.code
    assert expected in capsys.readouterr().err
