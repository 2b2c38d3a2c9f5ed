"""The state of etcd, looked at periodically: whether it can be reached, is full, damaged or slow."""

from __future__ import annotations

import asyncio
import logging
import time

from .client.errors import EtcdError
from .client.etcd_client import EtcdClient
from .client.records import Alarm

log = logging.getLogger(__name__)

_INTERVAL = 5.0
# A read that a majority confirms takes milliseconds; kube-apiserver's readiness check gives etcd two seconds.
_SLOW_SECONDS = 2.0

_ALARMS = {
    "NOSPACE": (
        "etcd's database is full, so that nothing can be written: compact it, run `etcdctl defrag` for each member,"
        " and then `etcdctl alarm disarm`; --quota-backend-bytes sets its size"
    ),
    "CORRUPT": "etcd has found that its members' data differ: replace the member that the alarm names",
}


class Health:
    """`problem` is what is wrong, None if nothing is. `key` is one that may be read."""

    def __init__(self, client: EtcdClient, key: bytes) -> None:
        self.problem: str | None = None
        self._client = client
        self._key = key

    async def run(self) -> None:
        """Look at etcd until cancelled."""
        while True:
            problem = await self._look()
            if problem != self.problem:
                log.warning("etcd: %s", problem) if problem else log.info("etcd is healthy again")
            self.problem = problem
            await asyncio.sleep(_INTERVAL)

    async def _look(self) -> str | None:
        began = time.monotonic()
        try:
            await self._client.range(self._key, keys_only=True)
            took = time.monotonic() - began
            alarms = await self._client.alarms()
        except EtcdError as error:
            return str(error)
        if alarms:
            return _described(alarms)
        if took > _SLOW_SECONDS:
            return f"a read took {took:.1f} s: a member's disk or the network between the members is slow"
        return None


def _described(alarms: list[Alarm]) -> str:
    kinds = dict.fromkeys(alarm.kind for alarm in alarms)
    members = ", ".join(f"{alarm.member_id:x}" for alarm in alarms)
    return "; ".join(f"{_ALARMS.get(kind, kind)} (member {members})" for kind in kinds)
