"""Outcomes of compiled code are values, each with one sentence; the host raises."""

from enum import IntEnum


class Outcome(IntEnum):
    """How the sampling of one row ended."""

    DONE = 0
    NOT_FINITE = 1
    NO_COMPLETION = 2

    @property
    def sentence(self) -> str:
        """What happened, in one sentence."""
        return _SENTENCES[self]


_SENTENCES = {
    Outcome.DONE: "the design is complete",
    Outcome.NOT_FINITE: "the denoiser returned logits that are not finite; check the model's weights",
    Outcome.NO_COMPLETION: "the given canvas leaves no completion that satisfies the constraints",
}
