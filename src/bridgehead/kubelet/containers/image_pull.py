"""The image of a container: found on the node, or pulled first. Events and their texts are Kubernetes'.

Called by `driver`, before the container starts. Source: the kubelet's image manager (`EnsureImageExists`).
"""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.images.errors import ImageError, Unreachable
from bridgehead.images.references import parse_reference
from bridgehead.images.registry.docker_config import Credential
from bridgehead.images.service.client import PullerClient
from bridgehead.kubelet.runtimes.runtime import Image, ImageUnavailable, RuntimeFailure
from bridgehead.objects.core import Container

from . import image_policy
from .context import PodContext
from .runs import StartRefused


async def ensure_image(context: PodContext, container: Container) -> Image:
    """Return the container's image as the node has it, pulled if that is wanted. Raises `StartRefused`."""
    name = container.image
    reference = parse_reference(name)
    if reference is None:
        message = (
            f'Failed to apply default image tag "{name}": couldn\'t parse image name "{name}": invalid reference format'
        )
        context.record("Warning", "InspectFailed", message, container)
        raise _refuse(context, container, "InvalidImageName", message)
    present, absence = await _look_up(context, name)
    source = present.source if present is not None else ""
    namespace = context.pod.metadata.namespace
    credentials, unusable = image_policy.pull_credentials(
        context.pod, reference, lambda secret: context.node.objects.secret(namespace, secret)
    )
    puller = context.node.puller
    record = puller.find_image(reference) if puller is not None and source == "registry" else None
    is_allowed = record is None or image_policy.is_allowed(record.restricted_to, credentials)
    if image_policy.is_pull_wanted(container.image_pull_policy, source, is_allowed=is_allowed):
        if puller is not None:
            usable = present if is_allowed else None
            return await _pull(context, container, puller, credentials, unusable, usable, absence)
        if present is None:
            raise _fail(context, container, None, absence)
    elif present is None or not is_allowed:
        message = f'Container image "{name}" is not present with pull policy of Never'
        context.record("Warning", "ErrImageNeverPull", message, container)
        raise _refuse(context, container, "ErrImageNeverPull", message)
    _record_present(context, container, present, "")
    return present


async def _look_up(context: PodContext, name: str) -> tuple[Image | None, str]:
    """Return the image, or None and the reason. Raises `StartRefused` when the runtime does not answer."""
    try:
        return await context.node.runtime.find_image(name), ""
    except ImageUnavailable as error:
        return None, str(error)
    except RuntimeFailure as error:
        raise StartRefused("ImageInspectError", str(error)) from error


async def _pull(
    context: PodContext,
    container: Container,
    puller: PullerClient,
    credentials: Sequence[Credential],
    unusable: Sequence[str],
    present: Image | None,
    absence: str,
) -> Image:
    """Pull the image; without a network use `present`, if there is one. `unusable` are names of pull secrets.

    Raises `StartRefused`.
    """
    name = container.image

    def on_started() -> None:
        if unusable:
            message = image_policy.describe_unusable(unusable)
            context.record("Warning", "FailedToRetrieveImagePullSecret", message, container)
        context.record("Normal", "Pulling", f'Pulling image "{name}"', container)

    try:
        pulled = await puller.pull(name, credentials, on_started)
    except Unreachable as error:
        # A machine without a network runs what it has.
        if present is not None:
            _record_present(context, container, present, str(error))
            return present
        raise _fail(context, container, error, "; ".join(filter(None, (str(error), absence)))) from error
    except ImageError as error:
        raise _fail(context, container, error, image_policy.describe_failure(error)) from error
    found, absence = await _look_up(context, name)
    if found is None:
        raise _fail(context, container, None, absence)
    context.node.metrics.record_pull(pulled.seconds, pulled.size)
    text = image_policy.describe_pull(name, pulled.seconds, pulled.waiting_seconds, pulled.size)
    context.record("Normal", "Pulled", text, container)
    return found


def _record_present(context: PodContext, container: Container, image: Image, failure: str) -> None:
    """Record that the image is used as the node has it; `failure` is the reason why it was not pulled, "" if it was not
    tried."""
    if image.source == "stand-in":
        text = f'Container image "{container.image}" is played by a stand-in: {image.id}, {image.description}'
    else:
        text = f'Container image "{container.image}" already present on machine and can be accessed by the pod'
    context.record("Normal", "Pulled", f"{text} ({failure})" if failure else text, container)


def _fail(context: PodContext, container: Container, error: ImageError | None, reasons: str) -> StartRefused:
    """Record the advice and the reasons; the container's state has the advice."""
    advice = image_policy.advise(error)
    context.record("Warning", "Failed", f'Failed to pull image "{container.image}": {advice}: {reasons}', container)
    return _refuse(context, container, "ErrImagePull", advice)


def _refuse(context: PodContext, container: Container, reason: str, message: str) -> StartRefused:
    context.record("Warning", "Failed", f"Error: {reason}", container)
    return StartRefused(reason, message, container.image)
