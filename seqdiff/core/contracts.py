"""The contracts: one page that explains the system. Protocols with documentation and no code.

How one design comes about (``seqdiff.sampling.loop`` is the only place that runs this)::

    request -> layout, constraints --compile--> Program           host, strings and numpy
    canvas of MASK
    repeat:  logits    = Denoiser(canvas, valid, time, conditions)
             proposal  = log_softmax(logits / temperature + bias)
             witness, marginals, evidence = Program.condition(keys, proposal, tokens, length, hint)
             moves     = Planner.plan(keys, state, view, process)  which positions to commit, which to reopen
             tokens    = witness where committed, MASK where open
             canvas    = tokens; at open positions noise           one jit, one while_loop
    tokens -> decoded designs --Constraint.holds--> verdicts      host, plain Python

Everything that varies between two runs of the same shape is an array inside a pytree argument (weights, automata,
canvases, keys, lengths), so it never causes a compilation; everything static is a hashable dataclass.

Axis words: ``batch`` rows (one design each), ``length`` canvas positions padded to a bucket, ``vocab`` letters. Rows
never interact: row i of any output depends on row i of the inputs only.
"""

from typing import Any, NamedTuple, Protocol

from jaxtyping import Array, Bool, Float, Int, Key

GIVEN, OPEN = -1, 1 << 30
"""The order of letters that were there at the start, and of positions that have none yet."""


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
        """Logits over the letters: the posterior P(x_i | canvas) of the clean letter, given the whole canvas.

        A denoiser whose attribute ``self_conditioning`` is true is also given ``previous``: the distribution that it
        predicted at the step before, [batch, length, vocab], all zero where there is none.

        One whose attribute ``reads_order`` is true is also given ``order``, int32 [batch, length]: when each position's
        letter was committed, ``GIVEN`` where it was there at the start, ``OPEN`` where there is none yet. An any-order
        autoregressive network such as ProteinMPNN then returns ``P(x_i | letters committed before x_i)``, which for
        open positions is the same as given the whole canvas.

        Args:
            canvas: token ids; noise where open (MASK, or random letters for a uniform process).
            valid: false beyond a row's length.
            time: noise level of the canvas, 1 - alpha in [0, 1]: the share of positions that show noise.
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


class View(NamedTuple):
    """What a planner sees at a step.

    Attributes:
        marginals: conditioned on the constraints; one-hot where committed.
        log_model: the denoiser's log-probabilities at temperature 1, at every position, committed ones included.
        tokens: committed letters, MASK where open.
        canvas: what the denoiser saw.
        open: positions that may be committed now.
        held: committed letters that may be reopened (not those that were given).
        total: positions that were open at the start.
        quota: positions to commit now so that an even pace ends within the steps; all of them at the last one.
        step: from 0.
        steps: most denoiser calls.
        alpha: survival of the process's schedule at this step.
        alpha_next: at the next one, 1 after the last.
        witness: the drawn letters, for planners that declare ``reads_witness``; else None.
    """

    marginals: Float[Array, "batch length vocab"]
    log_model: Float[Array, "batch length vocab"]
    tokens: Int[Array, "batch length"]
    canvas: Int[Array, "batch length"]
    open: Bool[Array, "batch length"]
    held: Bool[Array, "batch length"]
    total: Int[Array, "batch"]
    quota: Int[Array, "batch"]
    step: Int[Array, ""]
    steps: Int[Array, ""]
    alpha: Float[Array, ""]
    alpha_next: Float[Array, ""]
    witness: Int[Array, "batch length"] | None = None


class Moves(NamedTuple):
    """What a planner decides; None stands for the plain case.

    Attributes:
        commit: open positions that take the witness's letter for good.
        reopen: held positions that are forgotten; None for none.
        canvas: what positions that stay open show to the denoiser next; None for fresh noise of the process.
        settled: rows that end once nothing is open; None for all. A row that is not settled goes on.
        stop: rows that end now, with everything open committed; None for none.
    """

    commit: Bool[Array, "batch length"]
    reopen: Bool[Array, "batch length"] | None = None
    canvas: Int[Array, "batch length"] | None = None
    settled: Bool[Array, "batch"] | None = None
    stop: Bool[Array, "batch"] | None = None


class Process(Protocol):
    """What the sampler needs of a forward process; see ``seqdiff.process.noise``."""

    @property
    def mask(self) -> int:
        """Id of MASK and number of letters."""
        ...

    @property
    def absorbing(self) -> bool:
        """Whether a letter, once seen, is certain."""
        ...

    def noise(self, key: Key[Array, ""], shape: tuple[int, ...]) -> Int[Array, "..."]:
        """Noise tokens."""
        ...

    def posterior(
        self,
        key: Key[Array, ""],
        z: Int[Array, "length"],
        x0: Int[Array, "length"],
        alpha_t: Float[Array, ""],
        alpha_s: Float[Array, ""],
    ) -> Int[Array, "length"]:
        """A draw of q(z_s | z_t = z, x_0)."""
        ...

    def flow(
        self,
        key: Key[Array, ""],
        z: Int[Array, "length"],
        x0: Int[Array, "length"],
        alpha_t: Float[Array, ""],
        alpha_s: Float[Array, ""],
        stochasticity: float,
    ) -> Int[Array, "length"]:
        """A step of discrete flow matching towards x_0."""
        ...


class Planner(Protocol):
    """The unmasking schedule: which open positions to commit now, which committed ones to reopen.

    A pytree whose hyperparameters are static. Rows never interact; ties break at random, by noise from the row's own
    key. At the last step the loop commits whatever is open, so a planner may commit less than the quota.

    Attributes:
        reads_marginals: whether :meth:`plan` looks at the marginals; where nobody does they are never computed.
        reads_witness: whether it sees the letters that were drawn.
        value_dependent: whether which positions are committed depends on the letters drawn. Other planners follow the
            model's law exactly at one position per step; these do not, and results say so.
        reopens: whether it may reopen positions.
        holds: whether letters are committed step by step; false where everything stays open until the end.
        commits_mode: whether the last commit takes the likeliest letters instead of drawn ones.
    """

    @property
    def reads_marginals(self) -> bool: ...

    @property
    def reads_witness(self) -> bool: ...

    @property
    def value_dependent(self) -> bool: ...

    @property
    def reopens(self) -> bool: ...

    @property
    def holds(self) -> bool: ...

    @property
    def commits_mode(self) -> bool: ...

    def init(self, keys: Key[Array, "batch"], open: Bool[Array, "batch length"], vocab: int) -> Any:
        """What the planner remembers from step to step, a pytree with the batch first in every leaf."""
        ...

    def plan(self, keys: Key[Array, "batch"], state: Any, view: View, process: Process) -> tuple[Moves, Any]:
        """Decide on the step.

        Args:
            keys: one per row, fresh at every step.
            state: from :meth:`init` or the step before.
            view: see there.
            process: whose noise the canvas shows.
        """
        ...
