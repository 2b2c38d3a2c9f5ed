"""Options of MetalLB's controller and speaker that the balancer and its speakers accept without effect, or refuse.

MetalLB's manifests and chart set them, and the variables of the environment. A warning names each that is set.
Source: MetalLB controller/main.go, speaker/main.go.
"""

from __future__ import annotations

from dataclasses import dataclass

from .options import Refusal, hidden

_HEARTBEATS = "heartbeats between speakers have a key of their own, in the Secret of --own-namespace"
_CERTIFICATES = "the balancer makes the certificate of its webhook itself"
_TLS = "TLS is 1.2 and newer, with the ciphers of the system's OpenSSL"
_LOG_LEVEL = "-v 1 logs details"
_PROFILER = Refusal(True, "there is no profiler; remove the option")


@dataclass(frozen=True, kw_only=True)
class CommonOptions:
    """Options that MetalLB's controller and speaker have in common."""

    log_level: str = hidden("", without_effect=_LOG_LEVEL)
    pprof_bind_address: str = hidden("", refusal=Refusal(None, "there is no profiler; remove the option"))
    pod_name: str = hidden("", envvar="METALLB_POD_NAME", without_effect="statuses name the node, not the pod")
    metrics_cert_dir: str = hidden(
        "", refusal=Refusal(None, "use --tls-cert-file and --tls-private-key-file, with the files of that directory")
    )
    tls_min_version: str = hidden("", without_effect=_TLS)
    tls_cipher_suites: str = hidden("", without_effect=_TLS)
    tls_curve_preferences: str = hidden("", without_effect=_TLS)
    metallb_bgp_type: str = hidden(
        "", envvar="METALLB_BGP_TYPE", without_effect="speakers have one implementation of BGP, without FRR"
    )


@dataclass(frozen=True, kw_only=True)
class ControllerOptions(CommonOptions):
    """Options of MetalLB's controller."""

    port: str = hidden("", without_effect="--metrics and --secure-metrics have the addresses of the pages")
    ml_secret_name: str = hidden("", envvar="METALLB_ML_SECRET_NAME", without_effect=_HEARTBEATS)
    deployment: str = hidden(
        "", envvar="METALLB_DEPLOYMENT", without_effect="the Secret of the speakers belongs to no Deployment"
    )
    disable_cert_rotation: bool | None = hidden(None, without_effect=_CERTIFICATES)
    cert_dir: str = hidden("", without_effect=_CERTIFICATES)
    cert_service_name: str = hidden("", without_effect=f"{_CERTIFICATES}, for the address of --webhook")
    webhook_secret: str = hidden("", without_effect=_CERTIFICATES)
    webhook_http2: bool | None = hidden(None, without_effect="the webhook speaks HTTP/1.1")
    webhook_mode: str = hidden(
        "",
        refusal=Refusal("onlywebhook", "a webhook without the controller is not supported; use --webhook"),
        without_effect="--webhook has the address of the webhook; without it there is none",
    )


@dataclass(frozen=True, kw_only=True)
class SpeakerOptions(CommonOptions):
    """Options of MetalLB's speaker."""

    ml_bindaddr: str = hidden(
        "", envvar="METALLB_ML_BIND_ADDR", without_effect="heartbeats are sent between the addresses of the nodes"
    )
    ml_labels: str = hidden("", envvar="METALLB_ML_LABELS", without_effect="speakers find each other without labels")
    ml_secret_key_path: str = hidden("", envvar="METALLB_ML_SECRET_KEY_PATH", without_effect=_HEARTBEATS)
    ml_wan_config: bool | None = hidden(None, without_effect="BFD and heartbeats measure the network themselves")
    frrk8s_namespace: str = hidden(
        "", envvar="FRRK8S_NAMESPACE", without_effect="speakers have one implementation of BGP, without FRR"
    )
    disable_epslices: bool | None = hidden(None, without_effect="endpoints are read from EndpointSlices")
    enable_pprof: bool | None = hidden(None, refusal=_PROFILER)
