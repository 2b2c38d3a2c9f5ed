"""Whether an aggregated API answers: its endpoints are asked for the list of its resources.

Source: kube-aggregator `remote_available_controller.go`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from bridgehead.apiserver.proxying.targets import Target

from .api_service_status import PASSED, Availability, RemoteApi
from .fetching import Fetcher, FetchFailed

_MAX_ATTEMPTS = 5


async def check_endpoints(api: RemoteApi, targets: Sequence[Target], fetcher: Fetcher) -> Availability:
    """Ask some endpoints at the same time; one that answers is enough."""
    asking = [asyncio.ensure_future(_ask(api, target, fetcher)) for target in targets[:_MAX_ATTEMPTS]]
    failure = ""
    try:
        for answer in asyncio.as_completed(asking):
            failure = await answer
            if not failure:
                return PASSED
    finally:
        for task in asking:
            task.cancel()
    return Availability("False", "FailedDiscoveryCheck", failure)


async def _ask(api: RemoteApi, target: Target, fetcher: Fetcher) -> str:
    """Return why an endpoint does not serve the API, "" if it does.

    Its certificate is not verified: the check gives nothing away, and requests verify it.
    """
    url = f"https://{target.authority}{api.path}"
    try:
        status, _ = await fetcher.get(api, target, api.path, verifies=False)
    except FetchFailed as error:
        return f"failing or missing response from {url}: {error}"
    if not 200 <= status < 300:
        return f"failing or missing response from {url}: bad status from {url}: {status}"
    return ""
