"""Encryption at rest: the configuration, the ciphers, the store's file, rotation."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CBC

from bridgehead.storage import Facts, Key, StoreBroken, StoreDamaged
from bridgehead.storage.encryption import ConfiguredEncryption, InvalidConfiguration, follow_encryption, read_encryption
from bridgehead.storage.encryption.encryption_configuration import parse_configuration
from bridgehead.storage.sealing import Encryption, Unreadable
from bridgehead.storage.sqlite import SqliteStore

STORED = Key("secrets", "default", "password")
# The key in etcd, with which kube-apiserver authenticates a value.
SECRET = b"/registry/secrets/default/password"
PLAIN = b'{"metadata":{"name":"password","resourceVersion":"1"},"data":"hunter2"}'


def key(name: str = "key1", byte: int = 1, size: int = 32) -> dict[str, str]:
    return {"name": name, "secret": base64.b64encode(bytes([byte]) * size).decode()}


def provider(name: str, *keys: dict[str, str]) -> dict[str, Any]:
    return {name: {"keys": list(keys)} if keys else {}}


def document(providers: Sequence[dict[str, Any]], resources: Sequence[str] = ("secrets",)) -> dict[str, Any]:
    entry = {"resources": list(resources), "providers": list(providers)}
    return {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration", "resources": [entry]}


def encryption(*providers: dict[str, Any], resources: Sequence[str] = ("secrets",)) -> ConfiguredEncryption:
    return ConfiguredEncryption(parse_configuration(document(providers, resources)))


IDENTITY = provider("identity")
CIPHERS = [
    provider("aesgcm", key(size=16)),
    provider("aesgcm", key(size=32)),
    provider("aescbc", key()),
    provider("secretbox", key()),
]


# --- ciphers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("one", CIPHERS)
def test_what_is_sealed_is_unreadable_and_comes_back(one: dict[str, Any]) -> None:
    sealing = encryption(one).of("secrets")
    sealed = sealing.seal(SECRET, PLAIN)
    (name,) = one
    assert sealed.startswith(f"k8s:enc:{name}:v1:key1:".encode())
    assert b"hunter2" not in sealed
    assert sealed != sealing.seal(SECRET, PLAIN), "a nonce of its own for each value"
    assert sealing.unseal(SECRET, sealed) == PLAIN
    with pytest.raises(Unreadable):
        sealing.unseal(SECRET, sealed[:-3])


def test_aesgcm_is_bound_to_the_object() -> None:
    sealing = encryption(CIPHERS[0]).of("secrets")
    sealed = sealing.seal(SECRET, PLAIN)
    for other in (b"/registry/secrets/default/other", SECRET + b"#facts"):
        with pytest.raises(Unreadable):
            sealing.unseal(other, sealed)


def test_what_kube_apiserver_encrypts_is_read() -> None:
    secret, nonce, vector = bytes([1]) * 32, bytes(range(12)), bytes(range(16))
    gcm = b"k8s:enc:aesgcm:v1:key1:" + nonce + AESGCM(secret).encrypt(nonce, PLAIN, SECRET)
    padding = 16 - len(PLAIN) % 16
    cbc = Cipher(AES(secret), CBC(vector)).encryptor()
    padded = PLAIN + bytes([padding]) * padding
    sealed = b"k8s:enc:aescbc:v1:key1:" + vector + cbc.update(padded) + cbc.finalize()
    sealing = encryption(CIPHERS[1], CIPHERS[2]).of("secrets")
    assert sealing.unseal(SECRET, gcm) == sealing.unseal(SECRET, sealed) == PLAIN


def test_the_first_provider_writes_and_all_read() -> None:
    old = encryption(provider("aescbc", key("old")), IDENTITY).of("secrets")
    new = encryption(provider("secretbox", key("new", 2)), provider("aescbc", key("old")), IDENTITY).of("secrets")
    sealed = old.seal(SECRET, PLAIN)
    assert new.unseal(SECRET, sealed) == new.unseal(SECRET, PLAIN) == PLAIN
    assert (old.is_current(sealed), new.is_current(sealed), new.is_current(PLAIN)) == (True, False, False)
    assert new.is_current(new.seal(SECRET, PLAIN))


def test_two_keys_of_one_name_are_both_tried() -> None:
    sealed = encryption(provider("aesgcm", key("k", 1))).of("secrets").seal(SECRET, PLAIN)
    both = encryption(provider("aesgcm", key("k", 2), key("k", 1))).of("secrets")
    assert both.unseal(SECRET, sealed) == PLAIN


def test_identity_does_not_read_what_is_encrypted() -> None:
    sealed = encryption(CIPHERS[0]).of("secrets").seal(SECRET, PLAIN)
    with pytest.raises(Unreadable, match="identity transformer tried to read encrypted data"):
        encryption(IDENTITY).of("secrets").unseal(SECRET, sealed)
    with pytest.raises(Unreadable, match="no matching prefix found"):
        encryption(provider("aesgcm", key("other"))).of("secrets").unseal(SECRET, sealed)


@pytest.mark.parametrize(
    ("listed", "resource", "covered"),
    [
        ("secrets", "secrets", True),
        ("secrets.", "secrets", True),
        ("secrets", "secrets.example.org", False),
        ("*.", "configmaps", True),
        ("*.", "deployments.apps", False),
        ("*.apps", "deployments.apps", True),
        ("*.apps", "configmaps", False),
        ("*.*", "widgets.example.org", True),
    ],
)
def test_resources_and_wildcards(listed: str, resource: str, covered: bool) -> None:
    sealing = encryption(CIPHERS[0], resources=[listed]).of(resource)
    assert sealing.seal(b"/registry/x", b"{}").startswith(b"k8s:enc:") is covered


def test_the_first_rule_that_matches_counts() -> None:
    rules = document([IDENTITY], ["events"])
    rules["resources"].append({"resources": ["*.*"], "providers": [CIPHERS[0]]})
    found = ConfiguredEncryption(parse_configuration(rules))
    assert found.of("events").seal(SECRET, b"{}") == b"{}"
    assert found.of("pods").seal(SECRET, b"{}") != b"{}"


# --- configuration ---------------------------------------------------------------------------------------

REFUSED = [
    ({}, "must be of kind EncryptionConfiguration and apiVersion apiserver.config.k8s.io/v1"),
    ([], "not an EncryptionConfiguration: Expected `object`, got `array`"),
    (document([IDENTITY]) | {"resources": []}, "resources: Required value: at least one resources is required"),
    (document([]), "resources[0].providers: Required value: at least one resources[0].providers is required"),
    (document([IDENTITY], []), "resources[0].resources: Required value: at least one resources[0].resources"),
    (document([{}]), "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox"),
    (document([{**CIPHERS[0], **IDENTITY}]), "more than one provider specified in a single element"),
    (document([{"aes": {}}]), "Object contains unknown field `aes`"),
    (document([{"kms": {"name": "x"}}]), "resources[0].providers[0].kms: Forbidden: this server has no KMS client"),
    (document([{"aesgcm": {}}]), "resources[0].providers[0].aesgcm.keys: Required value: at least one keys is"),
    (document([provider("aesgcm", {"secret": ""})]), "keys[0].name: Required value: name is a mandatory field for a"),
    (document([provider("aesgcm", {"name": "a"})]), "keys[0].secret: Required value: secret is a mandatory field"),
    (
        document([provider("aesgcm", {"name": "a", "secret": "%"})]),
        'keys[0].secret: Invalid value: "REDACTED": secrets must be base64 encoded',
    ),
    (
        document([provider("secretbox", key(size=16))]),
        'Invalid value: "REDACTED": secret is not of the expected length, got 16, expected one of [32]',
    ),
    (document([provider("aescbc", key(size=15))]), "got 15, expected one of [16 24 32]"),
    (document([IDENTITY], ["secrets", "secrets"]), "the same resource cannot be specified multiple times"),
    (document([IDENTITY], ["secrets", "*."]), "using overlapping resources such as 'secrets' and '*.'"),
    (document([IDENTITY], ["*.*", "pods"]), "using overlapping resources"),
    (document([IDENTITY], ["Secrets"]), "resource name should not contain capital letters"),
    (document([IDENTITY], ["*"]), "use '*.' to encrypt all the resources from core API group or *.*"),
    (document([IDENTITY], ["secrets.*"]), "encrypting the same resource across groups is not supported"),
    (document([IDENTITY], ["events.events.k8s.io"]), "Use 'events' instead in the config file"),
    (document([IDENTITY], ["pods.extensions"]), "'extensions' group has been removed"),
    (document([IDENTITY], ["apiserveripinfo"]), "resources which do not have REST API/s cannot be encrypted"),
]


@pytest.mark.parametrize(("given", "text"), REFUSED)
def test_bad_configurations_are_refused(given: Any, text: str) -> None:
    with pytest.raises(InvalidConfiguration) as refused:
        parse_configuration(given)
    assert text in str(refused.value)
    assert "\n" not in str(refused.value)


def test_every_problem_is_named(tmp_path: Path) -> None:
    file = tmp_path / "keys.yaml"
    file.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n"
        "resources: [{resources: ['*'], providers: [{aescbc: {}}]}]\n"
    )
    with pytest.raises(InvalidConfiguration, match=r"keys\.yaml: \[resources\[0\]\.resources\[0\]: .*, resources"):
        read_encryption(file)
    file.write_text("a: [")
    with pytest.raises(InvalidConfiguration, match=r"keys\.yaml: not YAML: .*"):
        read_encryption(file)


# --- the store's file ------------------------------------------------------------------------------------


async def put(store: SqliteStore, name: str, resource: str = "secrets") -> None:
    value = {"metadata": {"name": name}, "data": "hunter2"}
    await store.create(Key(resource, "default", name), value, Facts(labels={"team": "hunter2"}))


def content(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.parent.iterdir()) if file.is_file())


@pytest.mark.parametrize("one", CIPHERS[1:])
async def test_the_file_and_its_journal_are_unreadable(one: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = SqliteStore(path, encryption=encryption(one))
    await put(store, "a")
    before = store.list("secrets")
    assert b"hunter2" in before[0].value, "memory is plain"
    assert b"hunter2" not in content(path)
    await store.close()
    assert b"hunter2" not in content(path)
    store = SqliteStore(path, encryption=encryption(one))
    assert store.list("secrets") == before
    await store.close()


async def test_plain_objects_become_encrypted_when_they_are_written_again(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = SqliteStore(path)
    for number in range(50):
        await put(store, f"s{number}")
    await store.close()
    store = SqliteStore(path, encryption=encryption(CIPHERS[1], IDENTITY))
    for record in store.list("secrets"):
        assert store.is_stale(record.key)
        assert b"hunter2" in content(path)
        value = {"metadata": {"name": record.key.name}, "data": "hunter2"}
        await store.update(record.key, value, record.facts, expected=record.revision)
        assert not store.is_stale(record.key)
    await store.close()
    assert b"hunter2" not in content(path), "neither in free pages nor in the journal"


async def test_a_store_without_its_keys_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    store = SqliteStore(path, encryption=encryption(CIPHERS[1]))
    await put(store, "a")
    await store.close()
    before = content(path)
    with pytest.raises(StoreBroken, match=r"has encrypted objects \(secrets\).*--encryption-provider-config"):
        SqliteStore(path)
    with pytest.raises(
        StoreBroken, match=r"can't decrypt secrets default/a in .*: cipher: message authentication failed"
    ):
        SqliteStore(path, encryption=encryption(provider("aesgcm", key(byte=9))))
    assert content(path) == before
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE objects SET value = CAST(value || 'x' AS BLOB)")
        connection.commit()
    with pytest.raises((StoreBroken, StoreDamaged)):
        SqliteStore(path, encryption=encryption(CIPHERS[1]))


class Reconfigured:
    """A store that records its encryptions, and refuses those that cannot read a value."""

    def __init__(self) -> None:
        self.sealed = encryption(CIPHERS[0]).of("secrets").seal(SECRET, PLAIN)
        self.taken: list[Encryption] = []
        self.refused = asyncio.Event()
        self.changed = asyncio.Event()

    async def change_encryption(self, encryption: Encryption) -> None:
        try:
            encryption.of("secrets").unseal(SECRET, self.sealed)
        except Unreadable as error:
            self.refused.set()
            raise StoreBroken("can't decrypt") from error
        self.taken.append(encryption)
        self.changed.set()


async def test_a_changed_file_counts_if_it_is_valid_and_decrypts_the_objects(tmp_path: Path) -> None:
    file, store = tmp_path / "keys.yaml", Reconfigured()
    file.write_text(json.dumps(document([IDENTITY])))
    follower = asyncio.create_task(follow_encryption(file, store, poll_seconds=0.001))

    async def exchange(content: str) -> None:
        (tmp_path / "new").write_text(content)
        (tmp_path / "new").rename(file)

    async with asyncio.timeout(30):
        await asyncio.sleep(0)
        await exchange("kind: nonsense")
        file.unlink()
        await exchange(json.dumps(document([CIPHERS[3]])))
        await store.refused.wait()
        await exchange(json.dumps(document([CIPHERS[3], CIPHERS[0]])))
        await store.changed.wait()
    follower.cancel()
    assert [one.of("secrets").is_current(store.sealed) for one in store.taken] == [False]


async def test_a_store_follows_a_new_configuration(tmp_path: Path) -> None:
    path, old, new = tmp_path / "state.db", provider("aescbc", key("old")), provider("secretbox", key("new", 2))
    store = SqliteStore(path, encryption=encryption(old))
    await store.create(STORED, {"metadata": {"name": "password"}}, Facts())
    with pytest.raises(StoreBroken, match="can't decrypt secrets default/password in the store"):
        await store.change_encryption(encryption(new))
    assert not store.is_stale(STORED)
    await store.change_encryption(encryption(new, old))
    assert store.is_stale(STORED)
    record = store.get(STORED)
    assert record is not None
    await store.update(STORED, {"metadata": {"name": "password"}}, Facts(), expected=record.revision)
    assert not store.is_stale(STORED)
    await store.close()
    again = SqliteStore(path, encryption=encryption(new))
    assert again.get(STORED) is not None
    await again.close()
