"""Planners: which open positions to commit at a step, which committed ones to reopen.

A planner scores positions, chooses how many, and may take some back. ``PLANNERS`` holds every class by its spec name.
"""

from seqdiff.sampling.planners.adaptive import (
    Accept,
    Blocks,
    EntropyBound,
    Klass,
    Threshold,
    UntilStable,
    diffusion_gemma,
)
from seqdiff.sampling.planners.base import PLANNERS, BasePlanner
from seqdiff.sampling.planners.ranking import (
    Ancestral,
    Confidence,
    Entropy,
    FixedOrder,
    Flow,
    LeftToRight,
    Margin,
    MaskGIT,
    Order,
    Random,
    Spread,
)
from seqdiff.sampling.planners.remasking import P2, RDM, WINO, Gibbs, ReMDM

__all__ = [
    "P2",
    "PLANNERS",
    "RDM",
    "WINO",
    "Accept",
    "Ancestral",
    "BasePlanner",
    "Blocks",
    "Confidence",
    "Entropy",
    "EntropyBound",
    "FixedOrder",
    "Flow",
    "Gibbs",
    "Klass",
    "LeftToRight",
    "Margin",
    "MaskGIT",
    "Order",
    "Random",
    "ReMDM",
    "Spread",
    "Threshold",
    "UntilStable",
    "diffusion_gemma",
]
