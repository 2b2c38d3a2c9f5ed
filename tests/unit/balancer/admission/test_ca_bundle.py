"""The balancer's CA in bundles of others: added beside them, and removed without a trace."""

from __future__ import annotations

import base64
import ssl

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.balancer.admission.ca_bundle import CA_NAME, with_ca, without_ca
from bridgehead.tls_certificates import issue_certificate

CA, THEIRS, _ = issue_certificate(["192.0.2.1"], name="a", ca_name=CA_NAME)
OLD_CA, _, _ = issue_certificate(["192.0.2.1"], name="a", ca_name=CA_NAME)
# Signed by one of the balancer's CAs, THEIRS would be taken for one: the issuer's name is in it.
OTHERS = b"-----BEGIN CERTIFICATE-----\nQUJD\n-----END CERTIFICATE-----\n"


def text(*parts: bytes) -> str:
    return base64.b64encode(b"".join(parts)).decode()


def test_both_authorities_are_trusted():
    bundle = base64.b64decode(with_ca(text(OLD_CA), CA))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(cadata=bundle.decode())
    assert len(context.get_ca_certs()) == 1, "that of a killed process is replaced"


def test_an_empty_bundle_is_empty_again():
    assert with_ca("", CA) == text(CA)
    assert without_ca(text(CA)) == without_ca(text(CA), CA) == ""


def test_only_the_named_ca_goes():
    assert without_ca(text(OTHERS, OLD_CA, CA), CA) == text(OTHERS, OLD_CA)
    assert without_ca(text(OTHERS, OLD_CA, CA)) == text(OTHERS)


def test_blocks_that_are_no_certificates_stay():
    damaged = b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"
    assert without_ca(text(damaged, CA)) == text(damaged)
    assert without_ca("?", CA) == "?"


def test_a_last_line_without_its_end_gets_one():
    assert with_ca(text(OTHERS.rstrip()), CA) == text(OTHERS, CA)


@given(st.binary(max_size=200))
def test_what_others_wrote_comes_back(theirs: bytes):
    bundle = text(theirs)
    returned = base64.b64decode(without_ca(with_ca(bundle, CA)))
    assert returned == theirs or returned == theirs + b"\n"
    assert with_ca(with_ca(bundle, CA), CA) == with_ca(bundle, CA)
