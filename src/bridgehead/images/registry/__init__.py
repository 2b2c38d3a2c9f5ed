"""Client of registries: OCI distribution 1.1 and Docker Registry HTTP API V2."""
