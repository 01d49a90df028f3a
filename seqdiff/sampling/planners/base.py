"""What planners share: the registry, plain defaults, ranks and per-row noise.

A planner is a frozen dataclass registered as a pytree. Its hyperparameters are static; a field made by ``leaf`` holds
arrays or a network and may change without a compilation.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, ClassVar, TypeVar, dataclass_transform

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from seqdiff.core.contracts import Moves, Process, View
from seqdiff.core.errors import InputError

TIE = 1e-5
PLANNERS: dict[str, type["BasePlanner"]] = {}
"""Planner classes by the name that a spec uses."""


def leaf(**options: Any) -> Any:
    """A field that holds arrays instead of a hyperparameter."""
    return field(metadata={"leaf": True}, **options)


_Class = TypeVar("_Class", bound=type)


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field, leaf))
def planner(name: str) -> Callable[[_Class], _Class]:
    """Class decorator: a frozen keyword-only dataclass, a pytree, known by ``name``."""

    def register(cls: _Class) -> _Class:
        cls = dataclass(frozen=True, kw_only=True)(cls)
        data = [item.name for item in fields(cls) if item.metadata.get("leaf")]
        meta = [item.name for item in fields(cls) if item.name not in data]
        jax.tree_util.register_dataclass(cls, data_fields=data, meta_fields=meta)
        PLANNERS[name] = cls
        return cls

    return register


@dataclass(frozen=True, kw_only=True)
class BasePlanner(ABC):
    """Defaults of the ``Planner`` contract: no memory, commits letters for good, sees no letters."""

    reads_marginals: ClassVar[bool] = True
    reads_witness: ClassVar[bool] = False
    value_dependent: ClassVar[bool] = False
    reopens: ClassVar[bool] = False
    holds: ClassVar[bool] = True
    commits_mode: ClassVar[bool] = False

    def init(self, keys: Key[Array, "B"], open: Bool[Array, "B L"], vocab: int) -> Any:
        """Nothing to remember."""
        del keys, open, vocab
        return ()

    @abstractmethod
    def plan(self, keys: Key[Array, "B"], state: Any, view: View, process: Process) -> tuple[Moves, Any]:
        """See ``core.contracts.Planner``."""


@dataclass(frozen=True, kw_only=True)
class Wrapper(BasePlanner):
    """A planner around another one; it is what its inner planner is, except where it says otherwise.

    Attributes:
        inner: the planner inside.
    """

    inner: BasePlanner = field(metadata={"leaf": True})

    reads_marginals = property(lambda self: self.inner.reads_marginals)  # pyright: ignore[reportAssignmentType]
    reads_witness = property(lambda self: self.inner.reads_witness)  # pyright: ignore[reportAssignmentType]
    value_dependent = property(lambda self: self.inner.value_dependent)  # pyright: ignore[reportAssignmentType]
    reopens = property(lambda self: self.inner.reopens)  # pyright: ignore[reportAssignmentType]
    holds = property(lambda self: self.inner.holds)  # pyright: ignore[reportAssignmentType]
    commits_mode = property(lambda self: self.inner.commits_mode)  # pyright: ignore[reportAssignmentType]


def rank(score: Float[Array, "B L"], keys: Key[Array, "B"], among: Bool[Array, "B L"]) -> Int[Array, "B L"]:
    """Rank by ascending score of each position ``among``, ties in random order; L for the others.

    Scores within ``TIE`` count as tied, so that rounding, which differs from batch to batch, does not decide.
    """
    rounded = jnp.where(among, jnp.round(score / TIE), jnp.inf)
    order = jnp.lexsort((uniform(keys, among), rounded), axis=-1)
    return jnp.where(among, jnp.argsort(order, axis=-1), among.shape[1])


def uniform(keys: Key[Array, "B"], like: Array) -> Float[Array, "B L"]:
    """Uniform noise for each position from the row's own key, whatever the padding."""
    return jax.vmap(partial(jax.random.uniform, shape=like.shape[1:2]))(keys)


def gumbel(keys: Key[Array, "B"], like: Array) -> Float[Array, "B L"]:
    """Gumbel noise for each position."""
    return jax.vmap(partial(jax.random.gumbel, shape=like.shape[1:2]))(keys)


def split(keys: Key[Array, "B"], parts: int) -> list[Key[Array, "B"]]:
    """Several independent keys of each row."""
    fresh = jax.vmap(partial(jax.random.split, num=parts))(keys)
    return [fresh[:, part] for part in range(parts)]


def step_keys(keys: Key[Array, "B"], step: Int[Array, ""], parts: int) -> list[Key[Array, "B"]]:
    """Several independent keys of each row for one step."""
    return split(jax.vmap(partial(jax.random.fold_in, data=step))(keys), parts)


def confidence(marginals: Float[Array, "B L V"]) -> Float[Array, "B L"]:
    """Probability of the likeliest letter."""
    return jnp.max(marginals, axis=-1)


def margin(marginals: Float[Array, "B L V"]) -> Float[Array, "B L"]:
    """Probability of the likeliest letter less that of the next."""
    top = jnp.max(marginals, axis=-1, keepdims=True)
    at_top = jax.nn.one_hot(jnp.argmax(marginals, axis=-1), marginals.shape[-1], dtype=bool)
    return top[..., 0] - jnp.max(jnp.where(at_top, -jnp.inf, marginals), axis=-1)


def entropy(marginals: Float[Array, "B L V"]) -> Float[Array, "B L"]:
    """Entropy in nats."""
    return jnp.sum(jax.scipy.special.entr(marginals), axis=-1)


def letter_log_probability(log_p: Float[Array, "B L V"], letters: Int[Array, "B L"]) -> Float[Array, "B L"]:
    """Log-probability of the letter at each position; of letter V - 1 where there is none."""
    safe = jnp.clip(letters, 0, log_p.shape[-1] - 1)
    return jnp.take_along_axis(log_p, safe[..., None], axis=-1)[..., 0]


def check(condition: bool, message: str) -> None:
    """Refuse a hyperparameter."""
    if not condition:
        raise InputError(message)
