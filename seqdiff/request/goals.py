"""Soft goals of a spec: protein properties to raise, to lower or to bring near a value.

    goals:
      - {property: gravy, maximize: 5.0}                        # 5 nats per unit
      - {property: isoelectric_point, target: 6.0, width: 0.5}  # -(x - 6)^2 / (2 * 0.5^2)
      - {property: charge_at_pH7, target: [-3, 3], width: 1}    # all alike inside, Gaussian flanks

Names and values are those of ``domains.protein.properties`` (Biopython's ProtParam). Each is computed here from the
same tables, inside the compiled loop, so that no goal of a spec calls the host; ``host=True`` asks Biopython instead.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np
from Bio.SeqUtils.IsoelectricPoint import negative_pKs, pKcterminal, pKnterminal, positive_pKs
from Bio.SeqUtils.ProtParamData import DIWV
from jaxtyping import Array, Float, Int

from seqdiff.core.alphabet import Alphabet, PropertyScale
from seqdiff.core.errors import InputError, unknown_key
from seqdiff.core.fields import check_keys, number
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.domains.protein.properties import properties
from seqdiff.request.labels import LabelGoal
from seqdiff.sampling.goals import HostGoal, JaxGoal, between, maximise, minimise, target
from seqdiff.sampling.particles import Goal

Aim = Literal["maximize", "minimize", "target"]
_PI_RANGE = (4.05, 12.0)
_PI_STEPS = 17
_NEUTRAL = -100.0
_register = jax.tree_util.register_dataclass


@partial(_register, data_fields=["values", "offset"], meta_fields=["mean"])
@dataclass(frozen=True, eq=False)
class LetterScale:
    """A number per letter, summed or averaged: hydropathy, mass, aromaticity, absorbance."""

    values: Float[Array, "V"]
    offset: float
    mean: bool

    def __call__(self, tokens: Int[Array, "B L"], length: Int[Array, "B"]) -> Float[Array, "B"]:
        total = jnp.sum(_counts(tokens, length, len(self.values)) * self.values[None], axis=1)
        return (total / length.astype(jnp.float32) if self.mean else total) + self.offset


@partial(_register, data_fields=["table"], meta_fields=[])
@dataclass(frozen=True, eq=False)
class Instability:
    """``10 / L`` times the sum of a weight per pair of neighbours (Guruprasad et al. 1990)."""

    table: Float[Array, "V V"]

    def __call__(self, tokens: Int[Array, "B L"], length: Int[Array, "B"]) -> Float[Array, "B"]:
        letters = jnp.clip(tokens, 0, len(self.table) - 1)
        pair = self.table[letters[:, :-1], letters[:, 1:]]
        inside = jnp.arange(1, tokens.shape[1])[None, :] < length[:, None]
        return 10.0 * jnp.sum(jnp.where(inside, pair, 0.0), axis=1) / length.astype(jnp.float32)


@partial(_register, data_fields=["acids", "bases", "first", "last"], meta_fields=["isoelectric"])
@dataclass(frozen=True, eq=False)
class Charge:
    """Charge at pH 7 by Henderson-Hasselbalch, or the pH at which it vanishes (Bjellqvist et al. 1993).

    Attributes:
        acids: pK of each letter's acidic side chain, hugely basic where it has none [V].
        bases: of its basic side chain, hugely acidic where it has none [V].
        first: pK of the amino end by the first letter [V].
        last: pK of the carboxyl end by the last letter [V].
        isoelectric: whether to return the isoelectric point, by Biopython's bisection.
    """

    acids: Float[Array, "V"]
    bases: Float[Array, "V"]
    first: Float[Array, "V"]
    last: Float[Array, "V"]
    isoelectric: bool

    def __call__(self, tokens: Int[Array, "B L"], length: Int[Array, "B"]) -> Float[Array, "B"]:
        counts = _counts(tokens, length, len(self.acids))
        letters = jnp.clip(tokens, 0, len(self.acids) - 1)
        end = jnp.take_along_axis(letters, jnp.maximum(length - 1, 0)[:, None], axis=1)[:, 0]
        first, last = self.first[letters[:, 0]], self.last[end]

        def charge(ph: Float[Array, "B"]) -> Float[Array, "B"]:
            side = _charged(self.bases[None] - ph[:, None]) - _charged(ph[:, None] - self.acids[None])
            return jnp.sum(counts * side, axis=1) + _charged(first - ph) - _charged(ph - last)

        if not self.isoelectric:
            return charge(jnp.full(length.shape, 7.0))
        ends = tuple(jnp.full(length.shape, end) for end in _PI_RANGE)

        def halve(_: Any, ends: tuple[Array, Array]) -> tuple[Array, Array]:
            middle = 0.5 * (ends[0] + ends[1])
            positive = charge(middle) > 0.0
            return jnp.where(positive, middle, ends[0]), jnp.where(positive, ends[1], middle)

        low, high = jax.lax.fori_loop(0, _PI_STEPS, halve, (ends[0], ends[1]))
        return 0.5 * (low + high)


def _charged(margin: Float[Array, "*n"]) -> Float[Array, "*n"]:
    """Share that is charged, ``margin`` pH units on the charged side of its pK."""
    return jax.nn.sigmoid(float(np.log(10.0)) * margin)


def _counts(tokens: Int[Array, "B L"], length: Int[Array, "B"], vocab: int) -> Float[Array, "B V"]:
    valid = jnp.arange(tokens.shape[1])[None, :] < length[:, None]
    return jnp.sum(jax.nn.one_hot(jnp.where(valid, tokens, -1), vocab), axis=1)


def _letter_scale(scale: PropertyScale, alphabet: Alphabet) -> LetterScale:
    by_letter = dict(zip(PROTEIN.letters, scale.values, strict=True))
    values = jnp.asarray([by_letter[letter] for letter in alphabet.letters], jnp.float32)
    return LetterScale(values, scale.offset, scale.mean)


def _aromaticity(alphabet: Alphabet) -> LetterScale:
    return LetterScale(jnp.asarray([letter in "FWY" for letter in alphabet.letters], jnp.float32), 0.0, True)


def _instability(alphabet: Alphabet) -> Instability:
    return Instability(jnp.asarray([[DIWV[a][b] for b in alphabet.letters] for a in alphabet.letters], jnp.float32))


def _charge(isoelectric: bool, alphabet: Alphabet) -> Charge:
    def table(pks: dict[str, float], other: float) -> Float[Array, "V"]:
        return jnp.asarray([pks.get(letter, other) for letter in alphabet.letters], jnp.float32)

    return Charge(
        acids=table(negative_pKs, -_NEUTRAL),
        bases=table(positive_pKs, _NEUTRAL),
        first=table(pKnterminal, positive_pKs["Nterm"]),
        last=table(pKcterminal, negative_pKs["Cterm"]),
        isoelectric=isoelectric,
    )


PROPERTIES: dict[str, Callable[[Alphabet], Goal]] = {
    "molecular_weight": partial(_letter_scale, PROTEIN.scales["mass"]),
    "isoelectric_point": partial(_charge, True),
    "charge_at_pH7": partial(_charge, False),
    "gravy": partial(_letter_scale, PROTEIN.scales["gravy"]),
    "aromaticity": _aromaticity,
    "instability_index": _instability,
    "extinction_280nm": partial(_letter_scale, PROTEIN.scales["extinction"]),
}
"""What a goal can be about; units as in ``domains.protein.properties``."""


@dataclass(frozen=True)
class _Biopython:
    """ProtParam's value of a named property; equal to any other of the same name, so the loop compiles once."""

    property: str

    def __call__(self, sequences: list[str]) -> list[float]:
        return [properties(sequence)[self.property] for sequence in sequences]


@dataclass(frozen=True, kw_only=True)
class PropertyGoal:
    """A preference about one property.

    Attributes:
        property: a key of :data:`PROPERTIES`.
        aim: raise it, lower it, or bring it near a value.
        weight: nats per unit; unused with a target.
        target: lower and upper end of the values that are all alike; unused without a target.
        width: standard deviation of the Gaussian outside them; unused without a target.
    """

    property: str
    aim: Aim
    weight: float = 0.0
    target: tuple[float, float] = (0.0, 0.0)
    width: float = 0.0

    @classmethod
    def from_spec(cls, item: object) -> "PropertyGoal":
        """Read ``{property: gravy, maximize: 5.0}`` or ``{property: gravy, target: 0.1, width: 0.2}``."""
        args = check_keys(item, ("property", "maximize", "minimize", "target", "width"), required=("property",))
        name = args["property"]
        if name not in PROPERTIES:
            raise unknown_key("property", name, PROPERTIES)
        aims = [key for key in get_args(Aim) if key in args]
        if len(aims) != 1:
            raise InputError(f"{name}: give one of maximize, minimize and target")
        (aim,) = aims
        if aim != "target":
            if "width" in args:
                raise InputError(f"{name}: width goes with target, not with {aim}")
            return cls(property=name, aim=aim, weight=number(args[aim], aim, above=0))
        if "width" not in args:
            raise InputError(f"{name}: target needs 'width', the deviation that is still fine, such as width: 0.5")
        given = args["target"]
        ends = list(given) if isinstance(given, list | tuple) else [given, given]
        if len(ends) != 2:
            raise InputError(f"target={given!r}: write a number or [low, high]")
        low, high = (number(end, "target") for end in ends)
        if low > high:
            raise InputError(f"target={given!r} runs backwards; write [low, high]")
        return cls(property=name, aim=aim, target=(low, high), width=number(args["width"], "width", above=0))

    def to_spec(self) -> dict[str, Any]:
        """What :meth:`from_spec` reads back."""
        if self.aim != "target":
            return {"property": self.property, self.aim: self.weight}
        low, high = self.target
        return {"property": self.property, "target": low if low == high else [low, high], "width": self.width}

    def describe(self) -> str:
        """One line for people."""
        words = self.property.replace("_", " ")
        if self.aim != "target":
            way = "high" if self.aim == "maximize" else "low"
            return f"{words} rather {way}, {self.weight:g} nats per unit"
        low, high = self.target
        near = f"near {low:g}" if low == high else f"within {low:g} to {high:g}"
        return f"{words} {near}, give or take {self.width:g}"

    def value(self, sequence: str) -> float:
        """The property of a sequence, by Biopython."""
        return properties(sequence)[self.property]

    def potential(self, sequence: str) -> float:
        """What the goal adds to the log-weight of a sequence, in nats."""
        value, (low, high) = self.value(sequence), self.target
        if self.aim != "target":
            return self.weight * value if self.aim == "maximize" else -self.weight * value
        return -0.5 * (max(low - value, value - high, 0.0) / self.width) ** 2

    def goal(self, alphabet: Alphabet = PROTEIN, *, host: bool = False) -> Goal:
        """The goal as the sampler takes it.

        Args:
            alphabet: amino acids in one-letter code.
            host: whether to let Biopython compute the property, outside the compiled loop.

        Raises:
            InputError: a letter is no canonical amino acid.
        """
        if extra := set(alphabet.letters) - set(PROTEIN.letters):
            raise InputError(
                f"{self.property} is defined for amino acids, not for the {alphabet.name} letter {min(extra)!r}"
            )
        measure: Goal = PROPERTIES[self.property](alphabet)
        if host:
            measure = HostGoal(_Biopython(self.property), alphabet, name=self.property)
        if self.aim == "target":
            low, high = self.target
            return target(measure, low, self.width) if low == high else between(measure, low, high, self.width)
        return maximise(measure, self.weight) if self.aim == "maximize" else minimise(measure, self.weight)


def parse_goals(items: object) -> tuple[Any, ...]:
    """The goals that a spec lists; Python may put goals and functions of (tokens, length) beside them.

    Raises:
        InputError: names the goal by its number and says what is wrong.
    """
    if not isinstance(items, list | tuple):
        raise InputError("goals must be a list, each item starting with a dash")
    goals = []
    for n, item in enumerate(items, 1):
        try:
            goals.append(item if callable(item) or isinstance(item, SpecGoal) else _kind(item).from_spec(item))
        except InputError as error:
            raise InputError(f"goals[{n}]: {error}") from None
    return tuple(goals)


SpecGoal = PropertyGoal | LabelGoal
"""Goals that a spec can name."""


def _kind(item: object) -> type[PropertyGoal] | type[LabelGoal]:
    return LabelGoal if isinstance(item, Mapping) and "classifier" in item else PropertyGoal


def compile_goals(
    goals: Sequence[Any], alphabet: Alphabet, model: Any = None, chains: Sequence[str] = ()
) -> tuple[Goal, ...]:
    """Goals as the sampler takes them; a plain function of (tokens, length) becomes one of weight 1.

    Args:
        goals: of a spec.
        alphabet: the letters.
        model: that designs, for goals about labels that it gives.
        chains: names of the chains of the canvas, where there are several.
    """
    found = []
    for goal in goals:
        if isinstance(goal, PropertyGoal):
            goal = goal.goal(alphabet)
        elif isinstance(goal, LabelGoal):
            goal = goal.goal(model, chains)
        elif jax.tree_util.all_leaves([goal]):
            goal = JaxGoal(goal)
        found.append(goal)
    return tuple(found)


def goals_to_spec(goals: Sequence[Any]) -> list[Any]:
    """What :func:`parse_goals` reads back to equal goals; goals from Python leave their name only."""
    return [goal.to_spec() if isinstance(goal, SpecGoal) else f"<{_title(goal)}>" for goal in goals]


def _title(goal: Any) -> str:
    return getattr(goal, "__name__", type(goal).__name__)
