"""The laboratory's own lists: policies and metrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast

from . import _framewright


@dataclass(frozen=True)
class Policy:
    """Rules by which an allocator chooses where memory comes from."""

    name: str
    """As rows and the command line have it."""
    aliases: tuple[str, ...]
    """Other names that mean it."""
    family: Literal["linux", "framewright"]
    """Linux's rules of some year, or this project's engine."""
    is_compared: bool
    """Whether it is replayed unless others are named."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Metric:
    """A figure of a replay."""

    name: str
    """As rows have it."""
    unit: str
    """The unit of its values; ``1`` for a share or a ratio."""
    better: Literal["lower", "higher"] | None
    """Which of two values is the better one; ``None`` where it describes."""
    definition: str
    """What it is, as docs/metrics.md has it."""
    family: str
    """The name with a word in capitals for what its members differ in: ``failures_orderK``."""
    is_count: bool
    """Whether its values have no fraction."""

    def __str__(self) -> str:
        return self.name


def policies() -> list[Policy]:
    """All policies, in the order in which they are compared."""
    return [
        Policy(name, tuple(aliases), "framewright" if is_ours else "linux", is_compared)
        for name, aliases, is_compared, is_ours in _framewright.policies()
    ]


def metrics() -> list[Metric]:
    """All figures that a replay may have, in the order in which rows have them."""
    return [
        Metric(name, unit, cast(Literal["lower", "higher"] | None, better), definition, family, is_count)
        for name, unit, better, definition, family, is_count in _framewright.metrics()
    ]
