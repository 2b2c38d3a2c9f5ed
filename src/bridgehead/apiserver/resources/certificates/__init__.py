"""The kinds of certificates.k8s.io/v1.

certificatesigningrequests  CertificateSigningRequest: entry, hooks
request_validation          its validation
request_parsing             requests for certificates (PKCS #10) and certificates, in PEM

Other packages import from here.
"""

from .certificatesigningrequests import CERTIFICATE_SIGNING_REQUESTS, populate_condition_times
from .request_parsing import common_name_of, organizations_of

__all__ = ["CERTIFICATE_SIGNING_REQUESTS", "common_name_of", "organizations_of", "populate_condition_times"]
