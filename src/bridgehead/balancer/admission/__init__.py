"""Admission of the balancer's objects: a webhook that refuses what would make the configuration invalid.

The published manifests of MetalLB and OpenELB bring webhooks of their own, which only their controllers would answer;
this package answers those, too.
"""
