"""Errors of the etcd client; all are `EtcdError`s, whose text is one line with the endpoint and what to do.

Unavailable         no endpoint answers, or the connection of a watch has ended; nothing was written
  LeaderChanged     the leader has changed since the call was sent, so that its answer may never come
  NoLeader          the member has no leader, as it is cut off or etcd has lost its quorum
  Overloaded        etcd has too many requests in progress
  UnusableMember    the member is a learner or does not serve the request
OutcomeUnknown      a write was sent and its answer was lost; the caller reads the keys to learn the outcome
Compacted           the revision, or the start of a watch, has been compacted; `compact_revision` is the oldest left
                    (0: unknown)
FutureRevision      etcd has not reached the revision
NoSpace             the quota of etcd's database is full
Corrupt             etcd found that its members' data differ
TooLarge            the request exceeds --max-request-bytes
AnswerTooLarge      the answer exceeds the client's bound; ask for fewer keys
LeaseNotFound       the lease has expired or was revoked
PermissionDenied    the user's roles do not allow the request
InvalidCredentials  user or password are wrong, or missing
CertificateProblem  one side refused the other's certificate, or a file is unusable
NotEtcd             another server answers
TooOldEtcd          etcd is older than 3.4
ForeignCluster      the endpoint belongs to another cluster than the one before
Refused             etcd refused the request for another reason
MissingPackage      grpcio or protobuf is not installed
"""

from __future__ import annotations

from bridgehead.storage.errors import StorageError


class EtcdError(StorageError):
    """An operation that etcd did not do, or not for certain."""


class Unavailable(EtcdError): ...


class LeaderChanged(Unavailable): ...


class NoLeader(Unavailable): ...


class Overloaded(Unavailable): ...


class UnusableMember(Unavailable): ...


class OutcomeUnknown(EtcdError): ...


class Compacted(EtcdError):
    def __init__(self, text: str, compact_revision: int = 0) -> None:
        super().__init__(text)
        self.compact_revision = compact_revision


class FutureRevision(EtcdError): ...


class NoSpace(EtcdError): ...


class Corrupt(EtcdError): ...


class TooLarge(EtcdError): ...


class AnswerTooLarge(EtcdError): ...


class LeaseNotFound(EtcdError): ...


class PermissionDenied(EtcdError): ...


class InvalidCredentials(EtcdError): ...


class CertificateProblem(EtcdError): ...


class NotEtcd(EtcdError): ...


class TooOldEtcd(EtcdError): ...


class ForeignCluster(EtcdError): ...


class Refused(EtcdError): ...


class MissingPackage(EtcdError): ...
