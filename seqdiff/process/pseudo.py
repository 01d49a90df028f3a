"""Scores that mask a few letters and see all others: pseudo-log-likelihood and the log-odds of mutations.

Log-odds of a mutant with sites S against the wild type x (Meier et al. 2021), each summed over the sites::

    masked marginal      sum_i log p(mut_i | x without S) - log p(wt_i | x without S)     all sites of S masked at once
    wild-type marginal   sum_i log p(mut_i | x)           - log p(wt_i | x)               nothing masked

The first costs one row per distinct set of sites, so all 19 L single mutants cost L rows; the second costs one row in
all. The second reads predictions at positions whose letter is in plain sight. A network that was trained on masked
positions only was never told what to say there, and one that copies what it sees would put infinite odds on the wild
type: measure it before use (``docs/scoring.md``).
"""

from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from jaxtyping import Float

from seqdiff.core.contracts import Denoiser
from seqdiff.process.readout import TOKENS_PER_BATCH, Hide, Progress, ask, hide_nothing, hide_places

Mutant = Sequence[tuple[int, int]]
"""(0-based position, letter id) of each changed site; empty for the wild type itself."""

Marginal = Literal["masked", "wild_type"]
MARGINALS: tuple[Marginal, ...] = get_args(Marginal)


def pseudo_log_likelihood(
    denoiser: Denoiser,
    sequences: Sequence[np.ndarray],
    *,
    mask: int,
    tokens_per_batch: int = TOKENS_PER_BATCH,
    progress: Progress | None = None,
) -> Float[np.ndarray, "n"]:
    """Sum over positions of the log-probability of the letter given all others, in nats (Salazar et al. 2020).

    Args:
        denoiser: the model.
        sequences: letter ids of each sequence.
        mask: id of MASK.
        tokens_per_batch: rows times padded length of a call.
        progress: called after each call with the number of letters scored.
    """
    count = np.array([len(sequence) for sequence in sequences], int)
    owner = np.repeat(np.arange(len(count)), count)
    total = np.zeros(len(count))
    if not len(owner):
        return total
    letters = np.concatenate(list(sequences))
    places = np.concatenate([np.arange(length) for length in count])[:, None]
    answers = ask(
        denoiser,
        sequences,
        owner,
        places,
        hide_places(places),
        mask=mask,
        tokens_per_batch=tokens_per_batch,
        progress=progress,
    )
    for questions, log_p in answers:
        np.add.at(total, owner[questions], log_p[np.arange(len(questions)), 0, letters[questions]])
    return total


def single_site_log_probabilities(
    denoiser: Denoiser,
    tokens: np.ndarray,
    *,
    mask: int,
    marginal: Marginal = "masked",
    tokens_per_batch: int = TOKENS_PER_BATCH,
    progress: Progress | None = None,
) -> Float[np.ndarray, "L V"]:
    """Log-probability of every letter at every position, that position masked, or nothing masked.

    Args:
        denoiser: the model.
        tokens: letter ids [L].
        mask: id of MASK.
        marginal: see the module.
        tokens_per_batch: rows times padded length of a call.
        progress: called after each call with the number of rows.
    """
    if marginal == "wild_type":
        return _at_sites(
            denoiser, tokens, np.arange(len(tokens))[None], hide_nothing, mask, tokens_per_batch, progress
        )[0]
    places = np.arange(len(tokens))[:, None]
    return _at_sites(denoiser, tokens, places, hide_places(places), mask, tokens_per_batch, progress)[:, 0]


def mutation_scan(
    denoiser: Denoiser,
    tokens: np.ndarray,
    *,
    mask: int,
    marginal: Marginal = "masked",
    tokens_per_batch: int = TOKENS_PER_BATCH,
    progress: Progress | None = None,
) -> Float[np.ndarray, "L V"]:
    """Log-odds of every letter against the wild type at every position; the arguments are those of the above."""
    log_p = single_site_log_probabilities(
        denoiser, tokens, mask=mask, marginal=marginal, tokens_per_batch=tokens_per_batch, progress=progress
    )
    return log_p - log_p[np.arange(len(tokens)), tokens][:, None]


def mutant_log_odds(
    denoiser: Denoiser,
    tokens: np.ndarray,
    mutants: Sequence[Mutant],
    *,
    mask: int,
    marginal: Marginal = "masked",
    tokens_per_batch: int = TOKENS_PER_BATCH,
    progress: Progress | None = None,
) -> Float[np.ndarray, "n"]:
    """Log-odds of each mutant against the wild type, in nats.

    Args:
        denoiser: the model.
        tokens: letter ids of the wild type [L].
        mutants: see :data:`Mutant`; sites of one mutant are distinct.
        mask: id of MASK.
        marginal: see the module.
        tokens_per_batch: rows times padded length of a call.
        progress: called after each call with the number of rows.
    """
    odds = np.zeros(len(mutants))
    if not any(len(mutant) for mutant in mutants):
        return odds
    if marginal == "wild_type":
        scan = mutation_scan(
            denoiser, tokens, mask=mask, marginal=marginal, tokens_per_batch=tokens_per_batch, progress=progress
        )
        return np.array([sum(float(scan[site]) for site in mutant) for mutant in mutants])
    sets = site_sets(mutants)
    number = {sites: row for row, sites in enumerate(sets)}
    widest = max(map(len, sets))
    width = 1 << (widest - 1).bit_length()
    places = np.array([[*sites, *([sites[-1]] * (width - len(sites)))] for sites in sets])
    log_p = _at_sites(denoiser, tokens, places, hide_places(places), mask, tokens_per_batch, progress)
    for i, mutant in enumerate(mutants):
        sites = tuple(sorted(place for place, _ in mutant))
        for place, letter in mutant:
            at = log_p[number[sites], sites.index(place)]
            odds[i] += float(at[letter]) - float(at[tokens[place]])
    return odds


def site_sets(mutants: Sequence[Mutant]) -> list[tuple[int, ...]]:
    """The distinct sets of sites of mutants, ascending: the rows that masked marginals cost."""
    return sorted({tuple(sorted(place for place, _ in mutant)) for mutant in mutants} - {()})


def _at_sites(
    denoiser: Denoiser,
    tokens: np.ndarray,
    places: np.ndarray,
    hide: Hide,
    mask: int,
    tokens_per_batch: int,
    progress: Progress | None,
) -> Float[np.ndarray, "n m V"]:
    """Log-probabilities at the places of each row of questions about one sequence."""
    owner = np.zeros(len(places), int)
    found = np.zeros((*places.shape, mask), np.float32)
    answers = ask(
        denoiser, [tokens], owner, places, hide, mask=mask, tokens_per_batch=tokens_per_batch, progress=progress
    )
    for questions, log_p in answers:
        found[questions] = log_p
    return found
