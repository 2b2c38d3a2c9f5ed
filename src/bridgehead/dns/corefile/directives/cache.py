"""The directive `cache`: what is kept of the answers of upstreams, and the TTLs of all answers.

Pure: no I/O, no clock, no randomness.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from bridgehead.dns.config import DEFAULT_PREFETCH, STALE_MODES, CacheSettings, Prefetch, TtlLimits
from bridgehead.dns.corefile.draft import (
    Draft,
    ServerBlock,
    Spec,
    Table,
    WrongArguments,
    bounded,
    no_argument,
    one_argument,
    one_of,
    read_line,
    seconds,
)
from bridgehead.dns.corefile.parser import Directive
from bridgehead.dns.messages.domain_names import as_zones, is_in_any

# CoreDNS' own for a `cache` directive. Prefetching is off there.
_CACHE_DEFAULTS = CacheSettings(ttl=TtlLimits(5, 3600), negative_ttl=TtlLimits(5, 1800), servfail_seconds=5.0)
_MOST_SERVFAIL_SECONDS = 300


@dataclass
class CacheLines:
    """One `cache` directive while it is read."""

    settings: CacheSettings = _CACHE_DEFAULTS

    def set(self, **changes: object) -> None:
        """Change settings."""
        self.settings = replace(self.settings, **changes)  # type: ignore[arg-type]


def _read(draft: Draft, block: ServerBlock, directive: Directive) -> None:
    """Read `cache [TTL] [ZONE...]`, for the names of the server block.

    Names of the cluster are not cached. The TTLs of their records are limited as those of other names.
    """
    lines = CacheLines()
    arguments = directive.arguments
    if arguments and re.fullmatch(r"-?\d+", arguments[0]):
        ttl = _ttl(directive, arguments[0])
        limits = lines.settings
        lines.set(
            ttl=limits.ttl._replace(longest=ttl),
            negative_ttl=limits.negative_ttl._replace(longest=ttl),
        )
        arguments = arguments[1:]
    if arguments:
        lines.set(zones=as_zones(arguments))
    for option in directive.block:
        read_line(draft, lines, option, OPTIONS)
    draft.add_cache(block, lines.settings)


def _ttl(directive: Directive, text: str) -> int:
    """Return the TTL, which is not 0, as CoreDNS has it. Raises ConfigInvalid."""
    ttl = bounded(directive, text) if text.isdecimal() else 0
    if ttl == 0:
        raise directive.invalid(f"cache TTL can not be zero or negative: {text}")
    return ttl


def _success(draft: Draft, lines: CacheLines, option: Directive) -> None:
    capacity, limits = _capacity(option, lines.settings.ttl)
    lines.set(capacity=capacity, ttl=limits)


def _denial(draft: Draft, lines: CacheLines, option: Directive) -> None:
    capacity, limits = _capacity(option, lines.settings.negative_ttl)
    lines.set(negative_capacity=capacity, negative_ttl=limits)


def _capacity(option: Directive, limits: TtlLimits) -> tuple[int, TtlLimits]:
    """Return CAPACITY, and TTL and MINTTL, by default those in `limits`."""
    arguments = option.arguments
    if not 1 <= len(arguments) <= 3 or not all(argument.isdecimal() for argument in arguments):
        raise WrongArguments
    if len(arguments) > 1:
        limits = limits._replace(longest=_ttl(option, arguments[1]))
    if len(arguments) > 2:
        limits = limits._replace(shortest=bounded(option, arguments[2]))
    return bounded(option, arguments[0]), limits


def _serve_stale(draft: Draft, lines: CacheLines, option: Directive) -> None:
    """Read `serve_stale [DURATION [MODE [TIMEOUT]]]`."""
    stale = seconds(option) if option.arguments else 3600.0
    mode = one_of(option, option.arguments[1], STALE_MODES) if len(option.arguments) > 1 else "immediate"
    timeout = 0.0
    if len(option.arguments) > 2:
        timeout = seconds(replace(option, tokens=("", option.arguments[2])))
    if len(option.arguments) > 3 or (timeout and mode != "verify"):
        raise WrongArguments
    lines.set(stale_seconds=stale, stale_mode=mode, verify_seconds=timeout)


def _servfail(draft: Draft, lines: CacheLines, option: Directive) -> None:
    one_argument(option)
    duration = seconds(option)
    if duration > _MOST_SERVFAIL_SECONDS:
        raise option.invalid("caching SERVFAIL responses over 5 minutes is not permitted")
    lines.set(servfail_seconds=duration)


def _prefetch(draft: Draft, lines: CacheLines, option: Directive) -> None:
    """Read `prefetch AMOUNT [DURATION [PERCENTAGE%]]`."""
    arguments = option.arguments
    if not 1 <= len(arguments) <= 3 or not arguments[0].isdecimal():
        raise WrongArguments
    gap, percentage = DEFAULT_PREFETCH.gap_seconds, "10%"
    if len(arguments) > 1:
        gap = seconds(replace(option, tokens=option.arguments))
    if len(arguments) > 2:
        percentage = arguments[2]
    if not re.fullmatch(r"[1-8]\d%|90%", percentage):
        raise option.invalid(f"prefetch {percentage!r}: 10% to 90%")
    lines.set(prefetch=Prefetch(bounded(option, arguments[0]), gap, int(percentage[:-1])))


def _keepttl(draft: Draft, lines: CacheLines, option: Directive) -> None:
    no_argument(option)
    lines.set(keeps_ttl=True)


def _disable(draft: Draft, lines: CacheLines, option: Directive) -> None:
    """Names of the cluster are never in the cache, whether or not `disable` lists them."""
    kind, *zones = option.arguments or ("",)
    if kind not in ("success", "denial"):
        raise WrongArguments
    uncached = ((kind, zone) for zone in as_zones(zones) or ("",))
    lines.set(uncached=(*lines.settings.uncached, *uncached))


OPTIONS: Table[CacheLines] = {
    "success": Spec("success CAPACITY [TTL [MINTTL]]", "how many answers are kept, and the limits of TTLs", _success),
    "denial": Spec("denial CAPACITY [TTL [MINTTL]]", "the same for negative answers", _denial),
    "serve_stale": Spec(
        "serve_stale [DURATION [immediate|verify [TIMEOUT]]]", "expired answers are used longer", _serve_stale
    ),
    "disable": Spec("disable success|denial [ZONE...]", "answers that are not kept", _disable),
    "servfail": Spec("servfail DURATION", "how long failures are kept", _servfail),
    "prefetch": Spec("prefetch AMOUNT [DURATION [PERCENTAGE%]]", "popular answers are renewed in time", _prefetch),
    "keepttl": Spec("keepttl", "TTLs do not get lower with the age of an answer", _keepttl),
}

CACHE = Spec("cache [TTL] [ZONE...]", "which answers are kept, and their TTLs", _read, has_options=True)


def set_caches(draft: Draft, blocks: Iterable[ServerBlock]) -> None:
    """Set the cache of each server block, and limit the TTLs of records that the block has itself.

    A block without `cache` limits no TTL. The cluster's block has the names of no other, so its cache is the root's,
    unless there is a block for the root.
    """
    for block in sorted(blocks, key=lambda block: block.is_root):
        settings = draft.caches.get(block)
        if settings is not None:
            _limit_own_ttls(draft, block, settings)
        if block.is_root or (block.is_cluster and settings is not None):
            draft.set(cache=settings or CacheSettings())
        elif not block.is_cluster:
            caches = ((zone, settings or CacheSettings()) for zone in block.zones)
            draft.set(block_caches=(*draft.config.block_caches, *caches))


def _limit_own_ttls(draft: Draft, block: ServerBlock, settings: CacheSettings) -> None:
    """Limit the TTLs of records that are not cached: those of the cluster, of `hosts` and of templates."""
    config, limit = draft.config, settings.ttl.apply
    if block.is_cluster and is_in_any(config.zone.domain, settings.zones):
        draft.set_zone(ttl=limit(config.zone.ttl))
    if not all(is_in_any(zone, settings.zones) for zone in block.zones):
        return
    hosts = (
        replace(found, ttl=limit(found.ttl)) if of == block else found
        for found, of in zip(config.hosts, draft.host_blocks, strict=True)
    )
    templates = (
        replace(found, records=tuple(replace(record, ttl=limit(record.ttl)) for record in found.records))
        if of == block
        else found
        for found, of in zip(config.templates, draft.template_blocks, strict=True)
    )
    draft.set(hosts=tuple(hosts), templates=tuple(templates))
