"""Images in the storage of engines. The programs here are small scripts that stand for docker, podman and buildah; real
ones are in tests/e2e/test_load.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.images.container_engines import ENGINES, NoSuchImage, find_engine, save

PROGRAM = """#!/bin/sh
case "$*" in
"{inspect}") echo {id} ;;
{save}) echo archive > {file} ;;
*) echo "first" >&2; echo "{name}: no such image: $*" >&2; exit 1 ;;
esac
"""
INSPECT = {
    "docker": "image inspect --format {{.Id}} app:1",
    "podman": "image inspect --format {{.Id}} app:1",
    "buildah": "inspect --type image --format {{.FromImageID}} app:1",
}


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only directory of PATH beside the shell's."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def install(programs: Path, name: str, identity: str) -> None:
    text = PROGRAM.format(
        inspect=INSPECT[name], id=identity, name=name, save=r'"save "*|"push "*', file=programs / "image.tar"
    )
    (programs / name).write_text(text)
    (programs / name).chmod(0o755)


def test_the_engine_that_has_the_image_is_found(programs: Path) -> None:
    for name in INSPECT:
        install(programs, name, "sha256:aa")
        assert find_engine("app:1")[0].name == "docker"  # the first of those with the same image
    for name in INSPECT:
        assert find_engine("app:1", [each for each in ENGINES if each.name == name])[0].name == name
    assert find_engine("app:1")[1] == "aa"
    (programs / "docker").unlink()
    assert find_engine("app:1")[0].name == "podman"


def test_different_images_of_the_same_name_are_refused(programs: Path) -> None:
    install(programs, "docker", "sha256:aa")
    install(programs, "buildah", "bb")
    with pytest.raises(NoSuchImage, match="docker and buildah have different images 'app:1'; --from chooses one"):
        find_engine("app:1")


def test_each_engine_gives_its_reason_on_one_line(programs: Path) -> None:
    install(programs, "podman", "aa")
    with pytest.raises(NoSuchImage) as caught:
        find_engine("web:2")
    text = str(caught.value)
    assert text.startswith("no image 'web:2' (docker is not installed; podman: podman: no such image: image inspect")
    assert text.endswith("web:2; buildah is not installed)")
    assert "first" not in text


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.name)
def test_an_archive_is_written_by_the_engine(programs: Path, engine) -> None:
    install(programs, engine.name, "aa")
    save(engine, "app:1", programs / "image.tar")
    assert (programs / "image.tar").read_text() == "archive\n"
    (programs / engine.name).write_text("#!/bin/sh\necho no space left >&2\nexit 125\n")
    with pytest.raises(NoSuchImage, match=rf"`{engine.name} \w+` of 'app:1' failed: no space left"):
        save(engine, "app:1", programs / "image.tar")
