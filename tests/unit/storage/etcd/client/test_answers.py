from bridgehead.storage.etcd.client import answers
from bridgehead.storage.etcd.client import messages_pb2 as pb
from bridgehead.storage.etcd.client.records import Alarm, DeleteAnswer, Event, KeyValue, PutAnswer, RangeResult

KV = KeyValue(b"a", b"1", create_revision=2, mod_revision=3, version=2, lease=9)
MESSAGE = pb.KeyValue(key=b"a", value=b"1", create_revision=2, mod_revision=3, version=2, lease=9)


def test_answers_of_each_operation():
    header = pb.Header(revision=7)
    message = pb.TxnResponse(
        header=header,
        succeeded=True,
        responses=[
            pb.ResponseOp(response_put=pb.PutResponse()),
            pb.ResponseOp(response_put=pb.PutResponse(prev_kv=MESSAGE)),
            pb.ResponseOp(response_delete_range=pb.DeleteRangeResponse(deleted=1, prev_kvs=[MESSAGE])),
            pb.ResponseOp(response_range=pb.RangeResponse(header=header, kvs=[MESSAGE], more=True, count=4)),
        ],
    )
    assert answers.txn_result(message) == (
        7,
        True,
        [PutAnswer(None), PutAnswer(KV), DeleteAnswer(1, [KV]), RangeResult(7, [KV], True, 4)],
    )


def test_events():
    assert answers.event(pb.Event(type=pb.Event.PUT, kv=MESSAGE)) == Event(False, KV, None)
    assert answers.event(pb.Event(type=pb.Event.DELETE, kv=MESSAGE, prev_kv=MESSAGE)) == Event(True, KV, KV)


def test_alarms_of_known_and_of_new_kinds():
    message = pb.AlarmResponse()
    message.ParseFromString(
        pb.AlarmResponse(alarms=[pb.AlarmMember(member_id=1, alarm=pb.CORRUPT)]).SerializeToString()
        + b"\x12\x04\x08\x02\x10\x07"  # member 2 has an alarm of number 7
    )
    assert answers.alarms(message) == [Alarm(1, "CORRUPT"), Alarm(2, "7")]
