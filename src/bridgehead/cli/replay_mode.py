"""The proxy mode of a lab, as its user would change it: the ConfigMap `kube-proxy`, and new pods of the DaemonSet."""

from __future__ import annotations

import asyncio
import re
import time

from bridgehead.client import ApiClient
from bridgehead.client.errors import NotFound
from bridgehead.objects.kinds import CONFIG_MAPS, PODS

_NAMESPACE, _NAME, _FILE = "kube-system", "kube-proxy", "config.conf"
_SELECTOR = "k8s-app=kube-proxy"
_MODE = re.compile(r"(?m)^mode: .*$")
_RESTART_SECONDS = 60.0
_POLL_SECONDS = 0.2


async def set_proxy_mode(client: ApiClient, mode: str) -> bool:
    """Run the proxies of all nodes in a mode; one that this machine lacks leaves them in the next best one.

    Returns whether they had another mode and have been replaced. Raises ClientError.
    """
    config = (await client.get(CONFIG_MAPS, _NAME, _NAMESPACE)).data.get(_FILE, "")
    changed = _MODE.sub(f"mode: {mode}", config)
    if changed == config:
        return False
    await client.patch(CONFIG_MAPS, _NAME, _NAMESPACE, {"data": {_FILE: changed}})
    before = {pod.metadata.uid: pod.metadata.name for pod in (await client.list(PODS, _NAMESPACE, _SELECTOR)).items}
    for name in before.values():
        try:
            await client.delete(PODS, name, _NAMESPACE)
        except NotFound:
            continue
    end = time.monotonic() + _RESTART_SECONDS
    while time.monotonic() < end:
        pods = (await client.list(PODS, _NAMESPACE, _SELECTOR)).items
        if len(pods) >= len(before) and all(pod.metadata.uid not in before and pod.is_ready for pod in pods):
            break
        await asyncio.sleep(_POLL_SECONDS)
    return True
