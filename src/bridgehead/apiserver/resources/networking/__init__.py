"""Ingress, IngressClass, NetworkPolicy, ServiceCIDR and IPAddress (networking.k8s.io/v1).

One module for each kind: `ingresses`, `ingressclasses`, `networkpolicies`, `servicecidrs`, `ipaddresses`.

Other packages import from here.
"""

from .ingressclasses import RESOURCE as INGRESS_CLASSES
from .ingressclasses import is_default as is_default_ingress_class
from .ingresses import CLASS_ANNOTATION
from .ingresses import RESOURCE as INGRESSES
from .ipaddresses import RESOURCE as IP_ADDRESSES
from .networkpolicies import RESOURCE as NETWORK_POLICIES
from .servicecidrs import RESOURCE as SERVICE_CIDRS

__all__ = [
    "CLASS_ANNOTATION",
    "INGRESSES",
    "INGRESS_CLASSES",
    "IP_ADDRESSES",
    "NETWORK_POLICIES",
    "SERVICE_CIDRS",
    "is_default_ingress_class",
]
