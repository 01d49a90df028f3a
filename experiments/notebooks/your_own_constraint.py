# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Your own constraint
#
# *My rule is not in the list. Can I add it, and will it be kept like the others?*
#
# Yes: a constraint is a small class with two halves that share no code. `lower` turns the rule into parts that the engine can keep at every step;
# `holds` checks a finished design in plain Python. Because they are independent, one checks the other.
#
# The rule here: **no sticky window**. Among any five neighbouring residues at most three are hydrophobic. (`stretch` limits residues in a row;
# this one also catches `VIGLF`.)

# %% [markdown]
# ## The memory: an automaton
#
# Read the sequence from left to right. To judge the next residue it is enough to remember which of the last four were hydrophobic. That is the
# state. `row` says where each of the twenty letters leads, `-1` where it is refused; `accepts` says whether a sequence may end in a state.

# %%
import numpy as np


class Windows:
    """Any ``width`` neighbours have at most ``most`` sticky letters; bit k: the letter k + 1 places back is sticky."""

    start = 0

    def __init__(self, sticky: np.ndarray, width: int, most: int):
        self.sticky, self.width, self.most = sticky, width, most

    def row(self, state: int) -> np.ndarray:
        inside = state.bit_count() + self.sticky
        after = ((state << 1) | self.sticky) & ((1 << (self.width - 1)) - 1)
        return np.where(inside <= self.most, after, -1).astype(np.int32)

    def accepts(self, state: int) -> bool:
        return True


# %% [markdown]
# ## The constraint
#
# A frozen dataclass, registered under the name that specs use. `from_spec` reads the user's words and refuses unknown keys.

# %%
from dataclasses import dataclass
from typing import ClassVar

from seqdiff.constraints import Verdict, register
from seqdiff.constraints.parts import Lowered, Scan
from seqdiff.core.fields import check_keys, whole_number
from seqdiff.core.layout import WHOLE

STICKY = "AVILMFWYC"


@register
@dataclass(frozen=True)
class NoStickyWindow:
    """``no_sticky_window: {width: 5, max: 3}``"""

    name: ClassVar[str] = "no_sticky_window"
    width: int
    max: int

    @classmethod
    def from_spec(cls, args, alphabet):
        args = check_keys(args, ("width", "max"), required=("width", "max"))
        return cls(whole_number(args["width"], "width", low=2), whole_number(args["max"], "max"))

    def to_spec(self):
        return {"width": self.width, "max": self.max}

    def describe(self):
        return f"at most {self.max} hydrophobic among {self.width} neighbours"

    def lower(self, layout):
        sticky = np.array([letter in STICKY for letter in layout.alphabet.letters], int)
        return Lowered(scans=(Scan(Windows(sticky, self.width, self.max), WHOLE),))

    def holds(self, text):
        worst = max(sum(letter in STICKY for letter in text[i : i + self.width]) for i in range(len(text)))
        return Verdict(worst <= self.max, f"at most {worst} in one window")


# %% [markdown]
# ## Use it
#
# From here on it is a constraint like any other: it combines with patterns, counts and charges, works with every planner, and takes part in
# error messages and reports.

# %%
import seqdiff

designs = seqdiff.design(
    length=50,
    n=8,
    constraints=[
        {"no_sticky_window": {"width": 5, "max": 3}},
        {"count": {"letters": "hydrophobic", "percent": [40, 60]}},  # plenty of them, but spread out
        {"pattern": {"prosite": "N-{P}-[ST]", "exactly": 0}},
    ],
    sampling={"planner": "random", "steps": 10},
)
designs

# %% [markdown]
# Does it change anything? The same request without the rule:

# %%
free = seqdiff.design(
    length=50,
    n=8,
    constraints=[
        {"count": {"letters": "hydrophobic", "percent": [40, 60]}},
        {"pattern": {"prosite": "N-{P}-[ST]", "exactly": 0}},
    ],
    sampling={"planner": "random", "steps": 10},
)
rule = NoStickyWindow(width=5, max=3)
lucky = sum(rule.holds(sequence).ok for sequence in free.sequences)
print(f"without the rule {lucky} of {len(free)} designs obey it, with it {designs.satisfied} of {len(designs)}")

# %% [markdown]
# ## Test it
#
# The two halves must agree on *every* sequence, not only on those that come out. Walk the automaton over random sequences and compare:

# %%
from seqdiff.domains.protein.alphabet import PROTEIN

sticky = np.array([letter in STICKY for letter in PROTEIN.letters], int)
automaton = Windows(sticky, 5, 3)


def walks(text: str) -> bool:
    state = automaton.start
    for letter in text:
        state = automaton.row(state)[PROTEIN.letters.index(letter)]
        if state < 0:
            return False
    return automaton.accepts(state)


random = np.random.default_rng(0)
texts = ["".join(random.choice(list(PROTEIN.letters), size=12)) for _ in range(2000)]
obeying = sum(rule.holds(text).ok for text in texts)
assert all(walks(text) == rule.holds(text).ok for text in texts)
assert 0 < obeying < len(texts)
assert designs.satisfied == len(designs) == 8
assert lucky < len(free)
print(f"both halves agree on {len(texts)} random sequences, {obeying} of which obey")

# %% [markdown]
# Other parts that a rule can lower to: `allowed` letters by position, `sums`, `pairs` of positions, `ties`, and more in
# `seqdiff.constraints.parts`. The page *Extending* has a planner, a model and a domain beside this.
