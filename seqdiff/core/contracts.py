"""The contracts: one page that explains the system. Protocols with documentation and no code.

How one design comes about (``seqdiff.sampling.loop`` is the only place that runs this)::

    request -> layout, constraints --compile--> Program           host, strings and numpy
    canvas of MASK
    repeat:  logits    = Denoiser(canvas, valid, time, conditions)
             proposal  = log_softmax(logits / temperature + bias)
             witness, marginals, evidence = Program.condition(keys, proposal, canvas, length, hint)
             commit    = Planner.plan(keys, marginals, open, budget)
             canvas    = witness where committed                  one jit, one while_loop
    tokens -> decoded designs --Constraint.holds--> verdicts      host, plain Python

Everything that varies between two runs of the same shape is an array inside a pytree argument (weights, automata,
canvases, keys, lengths), so it never causes a compilation; everything static is a hashable dataclass.

Axis words: ``batch`` rows (one design each), ``length`` canvas positions padded to a bucket, ``vocab`` letters. Rows
never interact: row i of any output depends on row i of the inputs only.
"""

from typing import Any, ClassVar, NamedTuple, Protocol

from jaxtyping import Array, Bool, Float, Int, Key


class Denoiser(Protocol):
    """A pytree that predicts the clean letter of every position.

    Weights are leaves; structure is static. Predictions at positions that are not MASK are ignored, padding must not
    influence them, and specials are never predicted (the last axis holds the V letters).
    """

    def __call__(
        self,
        canvas: Int[Array, "batch length"],
        valid: Bool[Array, "batch length"],
        time: Float[Array, "batch"],
        conditions: Any = None,
    ) -> Float[Array, "batch length vocab"]:
        """Logits over the letters.

        Args:
            canvas: token ids; MASK where open.
            valid: false beyond a row's length.
            time: fraction of the row's positions that are still MASK, in [0, 1].
            conditions: a pytree of structure, labels or relations that the network understands, or None.
        """
        ...


class Conditioned(NamedTuple):
    """A proposal conditioned on the constraints.

    Attributes:
        witness: a complete canvas that satisfies every constraint and agrees with all committed letters, drawn from
            the conditioned proposal; beyond a row's length it repeats the canvas. int32 [batch, length].
        marginals: probability of each letter at each position given the constraints, float32 [batch, length, vocab];
            zero beyond a row's length.
        log_evidence: log probability under the proposal that the constraints hold, float32 [batch].
    """

    witness: Int[Array, "batch length"]
    marginals: Float[Array, "batch length vocab"]
    log_evidence: Float[Array, "batch"]


class Program(Protocol):
    """All constraints compiled for one canvas: a pytree of tables and pure functions over them."""

    def condition(
        self,
        keys: Key[Array, "batch"],
        log_proposal: Float[Array, "batch length vocab"],
        canvas: Int[Array, "batch length"],
        length: Int[Array, "batch"],
        hint: Int[Array, "batch length"],
    ) -> Conditioned:
        """Draw a witness and compute marginals and evidence.

        Args:
            keys: one per row.
            log_proposal: log-probabilities; finite, so that no feasible completion is ruled out.
            canvas: letters where committed, MASK where open, PAD beyond the length.
            length: of each row.
            hint: the row's last witness, which agrees with the canvas; the canvas itself at the first step. Programs
                that search start from it.
        """
        ...

    def log_evidence(
        self,
        log_proposal: Float[Array, "batch length vocab"],
        canvas: Int[Array, "batch length"],
        length: Int[Array, "batch"],
    ) -> Float[Array, "batch"]:
        """The evidence alone; minus infinity where no completion satisfies the constraints."""
        ...


class Planner(Protocol):
    """The unmasking schedule: which open positions to commit now. A frozen dataclass of hyperparameters.

    It sees conditioned marginals and never the witness, so that committing one position per step follows the model's
    law exactly. Ties break at random, by noise from the row's own key.

    Attributes:
        reads_marginals: whether :meth:`plan` looks at the marginals; where it does not they are never computed.
    """

    reads_marginals: ClassVar[bool]

    def plan(
        self,
        keys: Key[Array, "batch"],
        marginals: Float[Array, "batch length vocab"],
        open: Bool[Array, "batch length"],
        quota: Int[Array, "batch"],
    ) -> Bool[Array, "batch length"]:
        """Positions to commit, a subset of ``open``.

        Args:
            keys: one per row, fresh at every step.
            marginals: conditioned on the constraints.
            open: positions that are still MASK.
            quota: fewest positions to commit so that the run ends within its steps; at least one while any is open.
        """
        ...
