"""Soft goals about labels that the model itself gives to a sequence, such as AntiBERTy's species and chain.

    goals:
      - {classifier: species, label: Human, maximize: 2.0}             # 2 nats per nat of log p(Human | sequence)
      - {classifier: chain, label: Heavy, maximize: 1.0, chain: H}     # of one chain, where there are several

Each step costs one more call of the network.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from seqdiff.core.errors import InputError, unknown_key
from seqdiff.core.fields import check_keys, number
from seqdiff.models.chains import PerChain
from seqdiff.sampling.goals import maximise
from seqdiff.sampling.particles import Goal


@partial(jax.tree_util.register_dataclass, data_fields=["model"], meta_fields=["classifier", "index", "chain"])
@dataclass(frozen=True, eq=False)
class LogLabel:
    """Log-probability of a label given a complete sequence, in nats.

    Attributes:
        model: with a method ``classify``.
        classifier: which of its classifiers.
        index: of the label.
        chain: of the canvas, where there are several; else None.
    """

    model: Any
    classifier: str
    index: int
    chain: int | None

    def __call__(self, tokens: Int[Array, "B L"], length: Int[Array, "B"]) -> Float[Array, "B"]:
        valid = jnp.arange(tokens.shape[1])[None, :] < length[:, None]
        where = () if self.chain is None else (self.chain,)
        logits = self.model.classify(tokens, valid, *where)[self.classifier]
        return jax.nn.log_softmax(logits.astype(jnp.float32), axis=-1)[:, self.index]


@dataclass(frozen=True, kw_only=True)
class LabelGoal:
    """A preference for sequences to which the model gives a label.

    Attributes:
        classifier: name of the classifier.
        label: the label.
        weight: nats per nat of its log-probability.
        chain: which chain is meant, where the canvas holds several; else empty.
    """

    classifier: str
    label: str
    weight: float
    chain: str = ""

    @classmethod
    def from_spec(cls, item: object) -> "LabelGoal":
        """Read ``{classifier: species, label: Human, maximize: 2.0}``."""
        known = ("classifier", "label", "maximize", "chain")
        args = check_keys(item, known, required=("classifier", "label", "maximize"))
        return cls(
            classifier=str(args["classifier"]),
            label=str(args["label"]),
            weight=number(args["maximize"], "maximize", above=0),
            chain=str(args.get("chain", "")),
        )

    def to_spec(self) -> dict[str, Any]:
        """What :meth:`from_spec` reads back."""
        chain = {"chain": self.chain} if self.chain else {}
        return {"classifier": self.classifier, "label": self.label, "maximize": self.weight} | chain

    @property
    def title(self) -> str:
        """Name of its column."""
        return f"p({self.label})" + (f" {self.chain}" if self.chain else "")

    def describe(self) -> str:
        """One line for people."""
        chain = f" of chain {self.chain}" if self.chain else ""
        return f"{self.classifier}{chain} rather {self.label}, {self.weight:g} nats per nat"

    def measure(self, model: Any, chains: Sequence[str]) -> LogLabel:
        """The log-probability of the label, by the model that designs.

        Raises:
            InputError: the model has no such classifier or label, or the canvas no such chain.
        """
        inner = model.denoiser if isinstance(model, PerChain) else model
        heads = dict(getattr(getattr(inner, "config", None), "classifiers", ()))
        if self.classifier not in heads:
            raise InputError(f"goal {self.describe()}: {unknown_key('classifier', self.classifier, heads)}")
        if self.label not in heads[self.classifier]:
            raise InputError(f"goal {self.describe()}: {unknown_key('label', self.label, heads[self.classifier])}")
        number = None
        if isinstance(model, PerChain):
            if self.chain not in chains:
                raise InputError(f"goal {self.describe()}: add chain: one of {', '.join(chains)}")
            number = list(chains).index(self.chain)
        return LogLabel(model, self.classifier, heads[self.classifier].index(self.label), number)

    def goal(self, model: Any, chains: Sequence[str]) -> Goal:
        """The goal as the sampler takes it."""
        return maximise(self.measure(model, chains), self.weight)
