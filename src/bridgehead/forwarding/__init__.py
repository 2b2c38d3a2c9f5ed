"""Ports of this machine that lead to Services of a lab, through the lab's own rules (see README.md)."""
