"""Conversion of etcd's messages to records.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

from . import messages_pb2 as pb
from .records import Alarm, DeleteAnswer, Event, KeyValue, PutAnswer, RangeResult, Status, TxnResult


def key_value(kv: pb.KeyValue) -> KeyValue:
    return KeyValue(kv.key, kv.value, kv.create_revision, kv.mod_revision, kv.version, kv.lease)


def range_result(answer: pb.RangeResponse) -> RangeResult:
    return RangeResult(answer.header.revision, [key_value(kv) for kv in answer.kvs], answer.more, answer.count)


def txn_result(answer: pb.TxnResponse) -> TxnResult:
    answers = [_operation_answer(operation) for operation in answer.responses]
    return TxnResult(answer.header.revision, answer.succeeded, answers)


def _operation_answer(answer: pb.ResponseOp) -> RangeResult | PutAnswer | DeleteAnswer:
    match answer.WhichOneof("response"):
        case "response_put":
            put = answer.response_put
            return PutAnswer(key_value(put.prev_kv) if put.HasField("prev_kv") else None)
        case "response_delete_range":
            deletion = answer.response_delete_range
            return DeleteAnswer(deletion.deleted, [key_value(kv) for kv in deletion.prev_kvs])
        case _:
            return range_result(answer.response_range)


def status(answer: pb.StatusResponse, endpoint: str) -> Status:
    return Status(
        endpoint=endpoint,
        version=answer.version,
        db_size=answer.db_size,
        db_size_in_use=answer.db_size_in_use,
        leader=answer.leader,
        member_id=answer.header.member_id,
        cluster_id=answer.header.cluster_id,
        raft_term=answer.raft_term,
        is_learner=answer.is_learner,
        errors=tuple(answer.errors),
        revision=answer.header.revision,
    )


def alarms(answer: pb.AlarmResponse) -> list[Alarm]:
    """Return the alarms; one of a kind that this client does not know has its number."""
    names = {number: name for name, number in pb.AlarmType.items()}
    return [Alarm(member.member_id, names.get(member.alarm, str(member.alarm))) for member in answer.alarms]


def event(message: pb.Event) -> Event:
    previous = key_value(message.prev_kv) if message.HasField("prev_kv") else None
    return Event(message.type == pb.Event.DELETE, key_value(message.kv), previous)
