"""Evidence of the background panel against a transfer matrix written here in float64, from the words of the rules.

The matrix runs over the last six letters as far as any rule can see: longest suffixes that are a proper prefix of some
forbidden word, with the sequon and the runs spelt out as words.
"""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

from seqdiff.constraints import compile_constraints
from seqdiff.core.layout import Layout
from seqdiff.domains.protein.alphabet import PROTEIN
from tests.helpers import parse

PANEL = [
    {"forbid": {"letters": "C"}},
    {"pattern": {"prosite": "N-{P}-[ST]", "exactly": 0}},
    {"run": {"max": 3}},
    {"pattern": {"regex": "[KR][KR]", "exactly": 0}},
    {"pattern": {"regex": "ENLYFQ[GS]", "exactly": 0}},
    {"pattern": {"regex": "N[GD]", "exactly": 0}},
]
LETTERS = "ACDEFGHIKLMNPQRSTVWY"
FREQUENCIES = np.arange(3.0, 23.0)[np.random.default_rng(0).permutation(20)]


def transfer_log_evidence(p: np.ndarray, length: int) -> float:
    words = {"C", "NG", "ND", "ENLYFQG", "ENLYFQS"}
    words |= {a + b for a, b in itertools.product("KR", repeat=2)}
    words |= {"N" + x + y for x in LETTERS if x != "P" for y in "ST"}
    words |= {letter * 4 for letter in LETTERS}
    states = sorted({word[:n] for word in words for n in range(len(word))})
    index = {state: i for i, state in enumerate(states)}
    step = np.zeros((len(states), len(states)))
    for state in states:
        for letter, frequency in zip(LETTERS, p, strict=True):
            text = state + letter
            if any(text.endswith(word) for word in words):
                continue
            rest = next(text[n:] for n in range(len(text) + 1) if text[n:] in index)
            step[index[state], index[rest]] += frequency
    row, log_scale = np.zeros(len(states)), 0.0
    row[index[""]] = 1.0
    for _ in range(length):
        row = row @ step
        log_scale += np.log(row.sum())
        row /= row.sum()
    return log_scale


@pytest.mark.parametrize("length", [60, 100, 200])
def test_panel_evidence_is_the_closed_form(length: int):
    p = FREQUENCIES / FREQUENCIES.sum()
    compiled = compile_constraints(parse(PANEL, PROTEIN), Layout(PROTEIN, length, length))
    proposal = jnp.broadcast_to(jnp.log(jnp.asarray(p, jnp.float32)), (1, length, 20))
    canvas = jnp.full((1, length), PROTEIN.mask, jnp.int32)
    found = compiled.program(length).log_evidence(proposal, canvas, jnp.array([length], jnp.int32))
    assert float(found[0]) == pytest.approx(transfer_log_evidence(p, length), abs=1e-5)
