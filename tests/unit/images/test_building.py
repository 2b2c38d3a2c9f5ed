"""Builds of images: the Dockerfile, the images that it names, and a machine without buildah."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.images import building
from bridgehead.images.errors import BuildFailed


def test_every_name_that_could_be_an_image_is_found() -> None:
    file = """
    ARG BASE=alpine:3
    FROM --platform=linux/amd64 registry.example/team/base@sha256:%s AS build
    FROM "$BASE"
    COPY --from=busybox /bin/busybox /bin/
    """
    found = {reference.key for reference in building.named_images(file % ("0" * 64), ["BASE=local/base:1"])}
    assert {
        "docker.io/library/alpine:3",
        f"registry.example/team/base@sha256:{'0' * 64}",
        "docker.io/library/busybox:latest",
        "docker.io/local/base:1",
    } <= found


def test_the_file_of_a_build(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="has neither Containerfile nor Dockerfile"):
        building.find_file(tmp_path, "")
    (tmp_path / "Dockerfile").touch()
    assert building.find_file(tmp_path, "") == tmp_path / "Dockerfile"
    (tmp_path / "Containerfile").touch()
    assert building.find_file(tmp_path, "") == tmp_path / "Containerfile"
    assert building.find_file(tmp_path, "Dockerfile") == tmp_path / "Dockerfile"
    with pytest.raises(BuildFailed, match="has no file other"):
        building.find_file(tmp_path, "other")
    with pytest.raises(BuildFailed, match="none is no directory"):
        building.find_file(tmp_path / "none", "")


def test_without_buildah_the_reason_names_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(BuildFailed, match="apt-get install buildah"):
        building.find_buildah()
