"""Controllers of CertificateSigningRequests: approval of kubelets' own, signing, deletion of old ones.

`approving`, `signing`, `cleaning`; without I/O: `recognition` (whose request it is), `signing_policy` (what a
certificate contains). `cryptography` is imported with the first request. `root_ca` publishes the API server's
authority.
"""
