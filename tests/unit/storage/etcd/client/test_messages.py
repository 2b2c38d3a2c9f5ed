"""Generated messages are those of messages.proto."""

from pathlib import Path

from grpc_tools import protoc

from bridgehead.storage.etcd import client

SOURCE = Path(client.__file__).parents[4]
NAME = "bridgehead/storage/etcd/client/messages"


def test_the_generated_files_are_up_to_date(tmp_path):
    """`scripts/build-etcd-messages` writes them."""
    outputs = [f"--python_out={tmp_path}", f"--pyi_out={tmp_path}"]
    assert protoc.main(["protoc", f"--proto_path={SOURCE}", *outputs, f"{NAME}.proto"]) == 0
    for suffix in ("_pb2.py", "_pb2.pyi"):
        assert (tmp_path / f"{NAME}{suffix}").read_text() == (SOURCE / f"{NAME}{suffix}").read_text()
