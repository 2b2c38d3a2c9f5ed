"""CustomResourceDefinition and ValidatingWebhookConfiguration, with the fields that Bridgehead's clients use.

The entries are not in `kinds.ALL_KINDS`: only the balancer's parts load this module.

Pure: no I/O, no clock, no randomness. Source: apiextensions.k8s.io/v1, admissionregistration.k8s.io/v1.
"""

from __future__ import annotations

from .kinds import Kind
from .meta import Condition, Object, Part


class ServiceReference(Part, frozen=True, kw_only=True):
    namespace: str = ""
    name: str = ""


class WebhookClientConfig(Part, frozen=True, kw_only=True):
    ca_bundle: str = ""
    url: str = ""
    service: ServiceReference | None = None


class ValidatingWebhook(Part, frozen=True, kw_only=True):
    name: str = ""
    failure_policy: str = "Fail"
    client_config: WebhookClientConfig = WebhookClientConfig()


class ValidatingWebhookConfiguration(Object, frozen=True, kw_only=True):
    webhooks: tuple[ValidatingWebhook, ...] = ()


class WebhookConversion(Part, frozen=True, kw_only=True):
    client_config: WebhookClientConfig | None = None


class Conversion(Part, frozen=True, kw_only=True):
    strategy: str = "None"
    webhook: WebhookConversion | None = None


class DefinitionSpec(Part, frozen=True, kw_only=True):
    conversion: Conversion = Conversion()


class DefinitionStatus(Part, frozen=True, kw_only=True):
    conditions: tuple[Condition, ...] = ()


class CustomResourceDefinition(Object, frozen=True, kw_only=True):
    spec: DefinitionSpec = DefinitionSpec()
    status: DefinitionStatus = DefinitionStatus()


WEBHOOK_CONFIGURATIONS = Kind(
    ValidatingWebhookConfiguration,
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    namespaced=False,
)
DEFINITIONS = Kind(
    CustomResourceDefinition, "apiextensions.k8s.io", "v1", "customresourcedefinitions", namespaced=False
)
