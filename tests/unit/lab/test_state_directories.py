"""Directories of labs' state, the holders of their locks, and what is removed."""

from __future__ import annotations

import fcntl
import os
import pwd
import stat
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest

from bridgehead.lab import directory_owner, state_directories
from bridgehead.lab.errors import AlreadyRunning, LabError, NotRunning
from bridgehead.lab.plan import LabConfig, LabFiles, RunningLab, plan_nodes
from bridgehead.lab.state_directories import find_orphan

CONFIG = LabConfig(name="lab", nodes=2, port=6443)
RUNNING = RunningLab(config=CONFIG, init_pid=1, started_at=0.0)


@pytest.fixture
def files(tmp_path: Path) -> LabFiles:
    return LabFiles(tmp_path / "home" / "lab")


def test_the_default_directory_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_directories.find_files("a", None).root == tmp_path / "bridgehead" / "a"
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert state_directories.find_files("a", None).root == Path("/home/somebody/.local/state/bridgehead/a")


def test_a_user_without_a_home_gets_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.delenv("HOME")
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)  # whom /etc/passwd does not know
    with pytest.raises(LabError, match="--state-dir"):
        state_directories.find_files("a", None)
    assert state_directories.find_files("a", tmp_path).root == tmp_path


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a_b", "a/b", "..", "a" * 33])
def test_invalid_names_are_refused(name: str) -> None:
    with pytest.raises(LabError, match="lower case letters"):
        state_directories.find_files(name, None)


def test_a_lab_runs_while_its_lock_is_held(files: LabFiles) -> None:
    assert not state_directories.is_running(files)
    held = state_directories.lock(files)
    assert state_directories.is_running(files)
    with pytest.raises(AlreadyRunning):
        state_directories.lock(files)
    inherited = os.dup(held)
    os.close(held)
    assert state_directories.is_running(files)
    os.close(inherited)
    assert not state_directories.is_running(files)


def test_checking_a_lock_never_looks_like_holding_it(files: LabFiles) -> None:
    """Two processes check at the same time, and each has the file open."""
    os.close(state_directories.lock(files))
    with files.lock.open() as looker:
        fcntl.flock(looker, fcntl.LOCK_SH)
        assert not state_directories.is_running(files)


def test_the_state_directory_is_closed_to_other_users(files: LabFiles) -> None:
    os.close(state_directories.lock(files))
    assert files.root.stat().st_mode & 0o077 == 0


def test_the_pid_file_of_a_killed_lab_is_ignored(files: LabFiles) -> None:
    """The lab's process id may have been reused."""
    os.close(state_directories.lock(files))
    files.running.write_bytes(msgspec.json.encode(RUNNING))
    with pytest.raises(NotRunning, match="bridgehead up"):
        state_directories.read_running(files)
    held = state_directories.lock(files)
    with pytest.raises(NotRunning, match="only starting"):
        state_directories.read_running(files)
    with pytest.raises(NotRunning, match="only starting"):
        state_directories.stop(files)
    os.close(held)


def test_a_lab_of_another_pid_namespace_is_left_alone(files: LabFiles) -> None:
    """The PID of the lab's first process is another process, or none, as in `bridgehead shell`."""
    held = state_directories.lock(files)
    elsewhere = msgspec.structs.replace(RUNNING, pid_namespace=state_directories.pid_namespace() + 1)
    files.running.write_bytes(msgspec.json.encode(elsewhere))
    for function in (state_directories.read_running, state_directories.stop):
        with pytest.raises(LabError, match="cannot be managed from here, inside a lab or a container"):
            function(files)
    os.close(held)


def test_an_unwritable_state_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match="choose another with --state-dir"):
        state_directories.lock(LabFiles(tmp_path / "file"))


def test_the_configuration_of_the_previous_run_is_read(files: LabFiles) -> None:
    assert state_directories.read_config(files) is None
    files.root.mkdir(parents=True)
    files.config.write_bytes(msgspec.json.encode(CONFIG))
    assert state_directories.read_config(files) == CONFIG


@pytest.mark.parametrize(
    "text",
    ["", "garbage", "{}", "[]", '{"name":"a","nodes":0,"port":1}', '{"name":"a","nodes":1,"port":0}', "\0\xff"],
)
def test_an_invalid_configuration_is_reported(files: LabFiles, text: str) -> None:
    files.root.mkdir(parents=True)
    files.config.write_text(text)
    with pytest.raises(LabError, match="remove it"):
        state_directories.read_config(files)


def test_a_lab_without_stored_parts_has_none(files: LabFiles) -> None:
    assert state_directories.read_parts(files) == []
    files.parts.parent.mkdir(parents=True)
    files.parts.write_text('[{"name":')
    assert state_directories.read_parts(files) == []


def test_labs_are_listed_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert state_directories.list_labs() == {}
    for name in ("b", "a"):
        files = state_directories.find_files(name, None)
        os.close(state_directories.lock(files))
        files.config.touch()
    os.close(state_directories.lock(state_directories.find_files("failed", None)))
    (tmp_path / "bridgehead" / "stray").mkdir()
    assert list(state_directories.list_labs()) == ["a", "b"]


def test_remove_deletes_only_the_lab(files: LabFiles) -> None:
    state_directories.remove(files)  # it was never there
    files.root.mkdir(parents=True)
    (files.root / "thesis.txt").touch()
    with pytest.raises(LabError, match="not a lab's state directory"):
        state_directories.remove(files)
    assert (files.root / "thesis.txt").exists()
    files.config.write_bytes(msgspec.json.encode(CONFIG))
    held = state_directories.lock(files)
    with pytest.raises(AlreadyRunning, match="is used by another `up` or `down`"):
        state_directories.remove(files)
    os.close(held)
    state_directories.remove(files)
    assert [path.name for path in files.root.iterdir()] == ["thesis.txt"]


def test_emptying_a_directory_follows_no_link(files: LabFiles, tmp_path: Path) -> None:
    os.close(state_directories.lock(files))
    files.config.write_bytes(msgspec.json.encode(CONFIG))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "kept").touch()
    (files.root / "images").symlink_to(tmp_path / "elsewhere")
    state_directories.empty(files)
    assert list(files.root.iterdir()) == [files.lock]
    assert (tmp_path / "elsewhere" / "kept").exists()


def test_remove_works_through_a_link(tmp_path: Path) -> None:
    """The state directory is below a link, as in a linked home directory; nothing of the state remains."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "home").symlink_to("disk")
    files = state_directories.find_files("a", tmp_path / "home" / "lab")
    assert files.root == tmp_path / "disk" / "lab"
    files.pki.mkdir(parents=True)
    (files.pki / "ca.key").touch()
    files.config.write_bytes(msgspec.json.encode(CONFIG))
    state_directories.remove(files)
    assert list((tmp_path / "disk").iterdir()) == []


def test_logs_of_the_previous_run_are_kept(files: LabFiles) -> None:
    log = files.log("init")
    log.parent.mkdir(parents=True)
    for text in ("first", "second"):
        log.write_text(text)
        state_directories.keep_previous_logs(files)
    assert [path.name for path in log.parent.iterdir()] == ["init.log.old"]
    assert log.with_suffix(".log.old").read_text() == "second"


def test_foreign_files_in_the_directory_are_kept(files: LabFiles) -> None:
    held = state_directories.lock(files)
    files.config.write_bytes(msgspec.json.encode(CONFIG))
    for mine in (files.log("init"), files.node(plan_nodes(CONFIG)[0]), files.store, files.kubeconfig):
        mine.mkdir(parents=True)
    (files.root / "thesis").mkdir()
    (files.root / "thesis" / "one.txt").touch()
    os.close(held)
    state_directories.remove(files)
    assert [path.name for path in files.root.rglob("*")] == ["thesis", "one.txt"]


def test_a_lab_is_not_created_in_a_foreign_directory(files: LabFiles) -> None:
    state_directories.check_directory(files)
    os.close(state_directories.lock(files))
    (files.images / "nginx" / "rootfs").mkdir(parents=True)  # may be there before the lab is
    state_directories.check_directory(files)
    (files.root / "thesis.txt").touch()
    with pytest.raises(LabError, match=r"thesis\.txt.*--state-dir"):
        state_directories.check_directory(files)
    files.config.write_bytes(msgspec.json.encode(CONFIG))  # it has been one before
    state_directories.check_directory(files)


def test_every_file_of_a_lab_belongs_to_the_known_ones(files: LabFiles) -> None:
    for name, member in vars(LabFiles).items():
        if isinstance(member, property) and isinstance(path := getattr(files, name), Path) and name != "lock":
            assert state_directories._is_own(path.relative_to(files.root).parts[0]), name


def test_a_lab_keeps_the_name_of_its_creation(files: LabFiles) -> None:
    assert state_directories.find_name(files, "other") == "other"
    os.close(state_directories.lock(files))
    files.config.write_bytes(msgspec.json.encode(CONFIG))
    assert state_directories.find_name(files, "other") == CONFIG.name
    files.config.write_text("garbage")
    assert state_directories.find_name(files, "other") == "other"


# --- Whose the directory is ------------------------------------------------------------------------------

NOBODYS_ID = 2**31 - 7  # whom neither /etc/passwd nor /etc/group knows, as a lab's ids


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o711, 0o701, 0o750, 0o1777])
def test_a_directory_readable_by_others_is_closed(tmp_path: Path, mode: int) -> None:
    tmp_path.chmod(mode)
    directory_owner.close_to_others(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o700
    directory_owner.close_to_others(tmp_path)


def test_permissions_for_the_labs_own_ids_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(directory_owner, "_has_group", lambda gid: False)
    tmp_path.chmod(0o710)
    directory_owner.close_to_others(tmp_path)
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o710


def owned_by(monkeypatch: pytest.MonkeyPatch, owner: int) -> None:
    """Everything there is belongs to `owner`, and we are user 1000."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    named = {0: "root", 1000: "me", 1001: "eve"}
    monkeypatch.setattr(pwd, "getpwuid", lambda uid: SimpleNamespace(pw_name=named[uid]))
    there = Path.stat

    def fake(self: Path, *, follow_symlinks: bool = True) -> os.stat_result:
        status = list(there(self, follow_symlinks=follow_symlinks))
        status[stat.ST_UID] = owner
        return os.stat_result(status)

    monkeypatch.setattr(Path, "stat", fake)
    # Python 3.14 calls no Path.stat here.
    monkeypatch.setattr(Path, "lstat", lambda path: fake(path, follow_symlinks=False))


@pytest.mark.parametrize(("owner", "refused"), [(0, False), (1000, False), (NOBODYS_ID, False), (1001, True)])
def test_only_directories_of_trusted_owners_are_used(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, owner: int, refused: bool
) -> None:
    directory_owner.check_owner(tmp_path / "none")
    owned_by(monkeypatch, owner)
    if not refused:
        directory_owner.check_owner(tmp_path)
        return
    with pytest.raises(LabError, match=r"belongs to eve: name a directory of your own with --state-dir$"):
        directory_owner.check_owner(tmp_path)


@pytest.mark.parametrize("name", ["lab.json", "pki/ca.key"])
def test_files_of_other_users_are_not_used(monkeypatch: pytest.MonkeyPatch, files: LabFiles, name: str) -> None:
    files.pki.mkdir(parents=True)
    (files.root / name).touch()
    owned_by(monkeypatch, 1001)
    files.root.chmod(0o700)
    directory_owner.close_to_others(files.root)  # they could not
    files.root.chmod(0o777)
    with pytest.raises(LabError, match=r"was open to other users, and .*(lab\.json|pki) is eve's"):
        directory_owner.close_to_others(files.root)


def test_the_lock_follows_no_link(files: LabFiles, tmp_path: Path) -> None:
    files.root.mkdir(parents=True)
    files.lock.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LabError, match="cannot write"):
        state_directories.lock(files)
    assert not (tmp_path / "elsewhere").exists()


# --- Labs whose directory was deleted --------------------------------------------------------------------


def make_process(proc: Path, pid: int, name: str, *opened: str) -> None:
    (proc / str(pid) / "fd").mkdir(parents=True)
    (proc / str(pid) / "comm").write_text(f"{name}\n")
    for number, path in enumerate(opened):
        (proc / str(pid) / "fd" / str(number)).symlink_to(path)


def test_an_orphan_is_found_by_its_lock(files: LabFiles, tmp_path: Path) -> None:
    proc = tmp_path / "proc"
    (proc / "self").mkdir(parents=True)
    (proc / "12").mkdir()  # has ended meanwhile
    make_process(proc, 13, "bridgehead-lab", "/dev/null", str(files.lock))
    make_process(proc, 14, "apiserver", f"{files.lock} (deleted)")
    make_process(proc, 15, "bridgehead-lab", "/elsewhere/lock (deleted)")
    assert find_orphan(files, proc) is None
    make_process(proc, 16, "bridgehead-lab", "/dev/null", f"{files.lock} (deleted)")
    assert find_orphan(files, proc) == 16
