"""The modes of a lab's proxies that every kernel has, and how a user switches them."""

from __future__ import annotations

import json
import re

from .conftest import PATIENCE, Lab, eventually

MODES = ("iptables", "userspace", "nftables")  # the lab's own is the last
HIDES_THE_CLIENT = ("userspace",)  # by nature: it makes the connections to pods itself


def configure(lab: Lab, mode: str) -> None:
    """Edit the ConfigMap, restart the DaemonSet and wait, as a user does."""
    found = lab.kubectl("-n", "kube-system", "get", "configmap", "kube-proxy", "-o", "json")
    config = json.loads(found.stdout)
    text = config["data"]["config.conf"]
    config["data"]["config.conf"] = re.sub(r"(?m)^mode: .*$", f"mode: {mode}", text)
    if config["data"]["config.conf"] == text:
        return
    applied = lab.kubectl("apply", "-f", "-", stdin=json.dumps(config))
    assert applied.returncode == 0, applied.stderr
    rollout = ("-n", "kube-system", "rollout")
    # kubectl refuses a second restart within the same second, and the last one may have taken less than that.
    eventually(lambda: lab.kubectl(*rollout, "restart", "daemonset/kube-proxy").returncode == 0)
    status = lab.kubectl(*rollout, "status", "daemonset/kube-proxy", f"--timeout={PATIENCE}s")
    assert status.returncode == 0, status.stderr
