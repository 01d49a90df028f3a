# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Soft goals with particles
#
# *My rules must hold. Beyond that I would like an isoelectric point near 6, and high values of a score of my own.*
#
# A rule is kept by every design. A **goal** is what designs should rather be. It is met by particles: several attempts per design run side by
# side, are weighed at every step by what they promise, and are resampled. Rules hold for every particle, so no goal can break one.

# %%
import numpy as np

import seqdiff

rules = [{"forbid": {"letters": "C"}}, {"pattern": {"prosite": "N-{P}-[ST]", "exactly": 0}}, {"run": {"max": 3}}]
ordinary = seqdiff.design(length=40, n=10, constraints=rules, sampling={"planner": "random", "steps": 8})

# %% [markdown]
# ## A property near a value
#
# `target` with `width` takes `(x - target)^2 / (2 width^2)` nats from a design. `particles: 8` means eight attempts for each design.

# %%
aimed = seqdiff.design(
    length=40,
    n=10,
    constraints=rules,
    goals=[{"property": "isoelectric_point", "target": 6.0, "width": 0.5}],
    sampling={"planner": "random", "steps": 8, "particles": 8, "batch": 80},
)
aimed

# %%
from seqdiff.request.views import compare_histograms

compare_histograms({"with the goal": aimed.sequences, "without": ordinary.sequences}, aimed.spec.setting)

# %%
from Bio.SeqUtils.ProtParam import ProteinAnalysis


def miss(designs) -> float:
    """Mean distance from pI 6, computed by Biopython."""
    return float(np.mean([abs(ProteinAnalysis(text).isoelectric_point() - 6) for text in designs.sequences]))


print(f"mean distance from pI 6: {miss(ordinary):.2f} without the goal, {miss(aimed):.2f} with it")

# %% [markdown]
# ## Is it a draw or a pick?
#
# `ess` is the smallest effective share of the particles on the way. Near 1 the goal hardly mattered. At 1/8 one particle decided alone: the
# design is the best of eight rather than a draw of the tilted distribution. Then take more particles, or a wider goal.

# %%
for design in aimed:
    print(f"{design.id}  pI {design.goals['isoelectric_point']:5.2f}  ess {design.ess:.2f}")

# %% [markdown]
# ## Your own score
#
# Any Python function of complete sequences, larger is better: a call to a predictor, a table, a web service. It is called once per step with all
# particles. Here: the hydrophobic moment of an ideal helix (Eisenberg 1982) with the Kyte-Doolittle scale, which is high for amphipathic helices.

# %%
from Bio.SeqUtils.ProtParamData import kd

from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.sampling.goals import HostGoal


def moment(sequence: str) -> float:
    """Hydrophobic moment per residue at 100 degrees."""
    turns = np.exp(1j * np.deg2rad(100) * np.arange(len(sequence)))
    return float(abs(np.array([kd[letter] for letter in sequence]) @ turns) / len(sequence))


def moments(sequences: list[str]) -> list[float]:
    return [moment(sequence) for sequence in sequences]


amphipathic = seqdiff.design(
    length=21,
    n=8,
    constraints=[{"forbid": {"letters": "CPG"}}, {"charge": {"min": 3, "max": 6}}],
    goals=[HostGoal(moments, PROTEIN, weight=8.0, name="hydrophobic moment")],
    sampling={"planner": "random", "steps": 10, "particles": 16, "batch": 128},
)
amphipathic

# %%
random = np.random.default_rng(0)
shuffled = ["".join(random.permutation(list(text))) for text in amphipathic.sequences for _ in range(50)]
reached, by_chance = np.mean(moments(amphipathic.sequences)), np.mean(moments(shuffled))
print(f"hydrophobic moment {reached:.2f}, of the same residues shuffled {by_chance:.2f}")

# %% [markdown]
# A goal is no place for a rule: a huge weight wastes particles on what a constraint would keep for nothing. Weights are in nats: of two otherwise
# equal designs that differ by one nat, the better one comes 2.7 times as often.
#
# ## The promise

# %%
assert miss(aimed) < 0.5 * miss(ordinary)
assert reached > 1.3 * by_chance
assert all(designs.satisfied == len(designs) for designs in (ordinary, aimed, amphipathic))
