"""The groups of optional kinds: a right that is missing for a kind that the cluster does not have is no loss."""

from __future__ import annotations

from bridgehead.client import ApiClient
from bridgehead.client.errors import ClientError


async def is_served(client: ApiClient, group: str) -> bool:
    """Return whether the API has a group, `metallb.io` for example; True if that cannot be found out."""
    try:
        groups = (await client.request("GET", "/apis")).get("groups")
    except ClientError:
        return True
    return not isinstance(groups, list) or any(isinstance(one, dict) and one.get("name") == group for one in groups)
