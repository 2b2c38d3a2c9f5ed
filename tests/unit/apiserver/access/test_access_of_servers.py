"""Accounts and roles that another server on the same store has written a moment ago."""

from __future__ import annotations

from tests.unit.apiserver.two_servers import two_servers

ACCOUNTS = "/api/v1/namespaces/default/serviceaccounts"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"


async def test_an_account_and_its_role_hold_at_the_other_server_at_once() -> None:
    async with two_servers() as (one, other):
        await one.create(ACCOUNTS, {"metadata": {"name": "reader"}})
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = (await one.create(f"{ACCOUNTS}/reader/token", request))["status"]["token"]

        async def status() -> int:
            headers = {"authorization": f"Bearer {token}"}
            return (await other.call("GET", CONFIG_MAPS, user=None, headers=headers)).status

        assert await status() == 403
        rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]
        await one.create(f"{RBAC}/roles", {"metadata": {"name": "reader"}, "rules": rules})
        binding = {
            "metadata": {"name": "reader"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [{"kind": "ServiceAccount", "name": "reader", "namespace": "default"}],
        }
        await one.create(f"{RBAC}/rolebindings", binding)
        assert await status() == 200
