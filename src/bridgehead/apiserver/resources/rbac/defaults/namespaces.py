"""Default Roles and RoleBindings in kube-system and kube-public.

Pure: no I/O, no clock, no randomness. Source: Kubernetes plugin/pkg/auth/authorizer/rbac/bootstrappolicy/
namespace_policy.go.
"""

from __future__ import annotations

from bridgehead.apiserver.resource import JsonObject

from .notation import READ, account, allow, bind, events, role, user

_SYSTEM, _PUBLIC = "kube-system", "kube-public"
_CONTROLLERS, _SCHEDULER = "system:kube-controller-manager", "system:kube-scheduler"


def namespace_objects() -> list[JsonObject]:
    """Return the Roles, and then their bindings."""
    reader = role(
        _SYSTEM,
        "extension-apiserver-authentication-reader",
        allow(READ, "configmaps", names="extension-apiserver-authentication"),
    )
    signer = role(_SYSTEM, "system:controller:bootstrap-signer", allow(READ, "secrets"))
    cloud = role(_SYSTEM, "system:controller:cloud-provider", allow("create get list watch", "configmaps"))
    cleaner = role(_SYSTEM, "system:controller:token-cleaner", allow("delete get list watch", "secrets"), events())
    controllers = role(
        _SYSTEM,
        "system::leader-locking-kube-controller-manager",
        allow("watch", "configmaps"),
        allow("get update", "configmaps", names="kube-controller-manager"),
        allow("create get list update watch", "leases", "coordination.k8s.io"),
    )
    scheduler = role(
        _SYSTEM,
        "system::leader-locking-kube-scheduler",
        allow("watch", "configmaps"),
        allow("get update", "configmaps", names="kube-scheduler"),
    )
    public = role(
        _PUBLIC,
        "system:controller:bootstrap-signer",
        allow(READ, "configmaps"),
        allow("update", "configmaps", names="cluster-info"),
        events(),
    )
    return [
        *(reader, signer, cloud, cleaner, controllers, scheduler, public),
        bind(
            reader,
            user(_CONTROLLERS),
            user(_SCHEDULER),
            name="system::extension-apiserver-authentication-reader",
            namespace=_SYSTEM,
        ),
        bind(
            controllers,
            user(_CONTROLLERS),
            account("kube-controller-manager"),
            account("leader-election-controller"),
            namespace=_SYSTEM,
        ),
        bind(scheduler, user(_SCHEDULER), account("kube-scheduler"), namespace=_SYSTEM),
        bind(signer, account("bootstrap-signer"), namespace=_SYSTEM),
        bind(cloud, account("cloud-provider"), namespace=_SYSTEM),
        bind(cleaner, account("token-cleaner"), namespace=_SYSTEM),
        bind(public, account("bootstrap-signer"), namespace=_PUBLIC),
    ]
