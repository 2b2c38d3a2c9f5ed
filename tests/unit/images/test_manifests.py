"""Indexes, manifests and configurations, of registries that mean well and of others."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.images import manifests
from bridgehead.images.errors import BadImage
from bridgehead.images.manifests import Descriptor, ImageConfig, Index, Manifest, Platform

DIGEST = "sha256:" + "0" * 64
CONFIG = {"mediaType": manifests.OCI_CONFIG, "digest": DIGEST, "size": 2}
LAYER = {"mediaType": f"{manifests.OCI_LAYER}+gzip", "digest": DIGEST, "size": 3}


def test_manifests_are_written_with_their_schema_version_and_type() -> None:
    """Other programs demand both."""
    own = Manifest(config=Descriptor(digest=f"sha256:{'0' * 64}", size=1, media_type=manifests.OCI_CONFIG))
    for document in (own, Index((own.config,))):
        written = msgspec.json.encode(document)
        assert {"schemaVersion": 2, "mediaType": document.media_type}.items() <= json.loads(written).items()
        assert manifests.parse_document(written) == document


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"a": ' * 100_000, b'{"schemaVersion": "\xff"}', b"\xff"])
def test_documents_that_no_parser_takes_are_refused(content: bytes) -> None:
    for parse in (manifests.parse_document, lambda content: manifests.parse_config(content, 1)):
        with pytest.raises(BadImage):
            parse(content)
    assert manifests.describe_errors(content) == ""


def encode(**fields: Any) -> bytes:
    return json.dumps({"schemaVersion": 2, **fields}).encode()


@pytest.mark.parametrize("media_type", manifests.MANIFESTS)
def test_manifests_of_both_kinds_are_parsed(media_type: str) -> None:
    layers = [LAYER, {**LAYER, "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip"}]
    manifest = manifests.parse_document(encode(config=CONFIG, layers=layers), media_type)
    assert isinstance(manifest, Manifest)
    assert manifests.total_size((manifest.config, *manifest.layers)) == 8


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a manifest"),
        (b"{}", "schema version 0"),
        (json.dumps({"schemaVersion": 1}).encode(), "schema version 1"),
        (encode(), "not an image manifest: no media type"),
        (encode(config=1), "not a manifest"),
        (encode(config={**CONFIG, "mediaType": "application/vnd.cncf.helm.config.v1+json"}), "not an image of cont"),
        (encode(config={**CONFIG, "mediaType": ""}), "of no media type"),
        (encode(config={**CONFIG, "digest": "sha256:../../etc/passwd"}), "unsupported digest"),
        (encode(config={**CONFIG, "digest": "md5:" + "0" * 32}), "unsupported digest"),
        (encode(config={**CONFIG, "size": -1}), "negative size"),
        (encode(config={**CONFIG, "size": 20 << 30}), "the image's configuration has 21474836480 bytes"),
        (encode(config=CONFIG, layers=[LAYER] * 126), "126 layers"),
        (encode(config=CONFIG, layers=[{**LAYER, "mediaType": "text/plain"}]), "unsupported type: text/plain"),
        (encode(config=CONFIG, layers=[{**LAYER, "mediaType": f"{manifests.OCI_LAYER}+encrypted"}]), "encrypted"),
        (encode(mediaType=manifests.OCI_INDEX, manifests=[{**LAYER, "digest": "x"}]), "unsupported digest"),
    ],
)  # fmt: skip
def test_other_documents_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(BadImage, match=message):
        manifests.parse_document(content)


@given(st.binary(max_size=60))
def test_any_content_is_parsed_or_refused(content: bytes) -> None:
    for parse in (manifests.parse_document, lambda content: manifests.parse_config(content, 0)):
        with contextlib.suppress(BadImage):
            parse(content)
    manifests.describe_errors(content)


def index_of(*platforms: Platform | None) -> Index:
    digests = (f"sha256:{number:064}" for number in range(10_000))
    return Index(tuple(Descriptor(digest=next(digests), size=1, platform=platform) for platform in platforms))


ARM, ARM6, ARM7 = (Platform(os="linux", architecture="arm", variant=variant) for variant in ("", "v6", "v7"))
AMD = Platform(os="linux", architecture="amd64")


@pytest.mark.parametrize(
    ("index", "wanted", "position"),
    [
        (index_of(ARM7, AMD), AMD, 1),
        (index_of(ARM6, ARM7), ARM, 1),
        (index_of(ARM6, ARM), ARM7, 1),
        (index_of(None), AMD, 0),
        (index_of(ARM7, None, None), AMD, 1),
        (index_of(Platform(os="unknown", architecture="unknown"), AMD), AMD, 1),
    ],
)
def test_the_machines_platform_is_chosen(index: Index, wanted: Platform, position: int) -> None:
    assert manifests.choose_manifest(index, wanted) == index.manifests[position]


@pytest.mark.parametrize(
    ("index", "message"), [(index_of(ARM6), "linux/amd64 is not among linux/arm/v6"), (index_of(), "no platforms")]
)
def test_an_image_for_other_platforms_is_refused(index: Index, message: str) -> None:
    with pytest.raises(BadImage, match=f"no match for platform in manifest: .*{message}"):
        manifests.choose_manifest(index, AMD)
    with pytest.raises(BadImage, match="the image is for linux/arm, this machine is linux/amd64"):
        manifests.check_platform(ImageConfig(os="linux", architecture="arm"), AMD)
    manifests.check_platform(ImageConfig(), AMD)


def test_a_configuration_has_one_diff_id_for_each_layer() -> None:
    content = json.dumps({"rootfs": {"diff_ids": [DIGEST]}, "config": {"Cmd": ["x"]}}).encode()
    config = manifests.parse_config(content, 1).config
    assert config is not None
    assert config.command == ("x",)
    with pytest.raises(BadImage, match="1 diff_ids, the manifest 2 layers"):
        manifests.parse_config(content, 2)


def test_the_platforms_in_an_error_are_bounded() -> None:
    index = index_of(*(Platform(os="linux", architecture=f"a{number:05}" * 100) for number in range(10_000)))
    with pytest.raises(BadImage) as failure:
        manifests.choose_manifest(index, AMD)
    assert len(str(failure.value)) < 2000
    assert str(failure.value).endswith("...")


def test_the_volumes_of_an_image_are_bounded() -> None:
    volumes = {f"/v{number}": {} for number in range(manifests.MAX_VOLUMES + 1)}
    content = json.dumps({"config": {"Volumes": volumes}}).encode()
    with pytest.raises(BadImage, match=r"^the image has 1001 volumes, more than 1000$"):
        manifests.parse_config(content, 0)


def test_null_in_a_configuration_is_nothing() -> None:
    names = ("Entrypoint", "Cmd", "Env", "WorkingDir", "User", "StopSignal", "Volumes")
    content = json.dumps({"config": dict.fromkeys(names), "rootfs": {"diff_ids": []}}).encode()
    assert manifests.parse_config(content, 0).config == manifests.RunConfig()


def test_content_is_compared_with_its_digest() -> None:
    manifests.verify(b"x", manifests.digest_of(b"x"))
    with pytest.raises(BadImage, match="the content has the digest"):
        manifests.verify(b"y", manifests.digest_of(b"x"))


def test_a_registrys_errors_are_one_line() -> None:
    body = b'{"errors": [{"code": "TOOMANYREQUESTS", "message": "slow\\n down"}, {"code": "DENIED"}]}'
    assert manifests.describe_errors(body) == "toomanyrequests: slow down, denied:"
    assert manifests.describe_errors(b"<html>") == ""
