# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Inpainting and motif scaffolding
#
# *A stretch of my protein does the work. I want to keep it, residue for residue, and redesign everything around it.*
#
# Three forms of the job, from strict to free: the stretch stays **where it is** (`keep`); motifs stay in order and the **gaps between them vary**
# (`contig`); the whole protein may change, but **only a little** (`mutations`). The example is ubiquitin; its helix and the loop after it stay.

# %%
from importlib.resources import files

import seqdiff

SPECS = files("seqdiff.experiments") / "specs"
fasta = str(SPECS / "ubiquitin.fasta")
ubiquitin = "MQIFVKTLTGKTITLEVEPSDTIENVKAKIQDKEGIPPDQQRLIFAGKQLEDGRTLSDYNIQKESTLHLVLRLRGG"

# %% [markdown]
# ## Residues at their places
#
# `keep` names what stays. Constraints speak of the whole protein, the kept part included, and patterns that span its border count.

# %%
inpainted = seqdiff.design(
    parent=fasta,
    keep="20-45",
    n=6,
    constraints=[
        {"forbid": {"letters": "C"}},
        {"pattern": {"prosite": "N-{P}-[ST]", "exactly": 0}},
        {"charge": {"min": -2, "max": 2}},
    ],
    sampling={"planner": "random", "steps": 10},
)
inpainted

# %% [markdown]
# The logo shows the kept stretch at full height. In the map of commitment it is grey: nothing was designed there. (The
# column *charge at pH 7* uses pK values and free ends; the constraint counts K and R minus D and E.)

# %%
inpainted.logo()

# %%
inpainted.order_map()

# %% [markdown]
# Kept residues that break a rule are refused before anything runs, because no redesign of the rest could help:

# %%
try:
    seqdiff.design(parent=fasta, keep="20-45", constraints=[{"forbid": {"letters": "P"}}])
except seqdiff.core.errors.InputError as error:
    refusal = str(error)
print(refusal)

# %% [markdown]
# ## Motifs with gaps of drawn length
#
# A contig lists stretches of a structure or FASTA file in the order of the design, and how many residues to design between them. Here the
# helix (20-35) and the strand (41-48) of ubiquitin, 10 to 16 residues apart. How long each gap becomes is drawn for each design.

# %%
scaffolds = seqdiff.design(
    structure=fasta,
    contig="5/A20-35/10-16/A41-48/8",
    n=6,
    constraints=[{"forbid": {"letters": "C"}}, {"run": {"max": 3}}],
    sampling={"planner": "random", "steps": 10},
)
scaffolds

# %%
helix, strand = ubiquitin[19:35], ubiquitin[40:48]
for sequence in scaffolds.sequences:
    between = sequence.index(strand) - sequence.index(helix) - len(helix)
    print(f"{len(sequence)} residues, {between} between the motifs")

# %% [markdown]
# ## Close to the parent
#
# Between 6 and 12 substitutions, at most two of them in the helix, and no acidic residue at the seven lysines.

# %%
variants = seqdiff.design(
    parent=fasta,
    n=6,
    constraints=[
        {"mutations": {"min": 6, "max": 12}},
        {"mutations": {"max": 2, "region": "20-35"}},
        {"forbid": {"positions": "6,11,27,29,33,48,63", "letters": "DE"}},
    ],
    sampling={"planner": "random", "steps": 10},
)
for sequence in variants.sequences:
    print("".join(new if new != old else "." for new, old in zip(sequence, ubiquitin, strict=True)))

# %% [markdown]
# `protein-small` knows how residues follow one another, not how they sit in space. Fold what comes out to see whether the motif kept its
# geometry; to design *for* a backbone, see the notebook on fixed-backbone design.
#
# ## The promise

# %%
assert all(sequence[19:45] == ubiquitin[19:45] for sequence in inpainted.sequences)
assert all(0 <= sequence.index(helix) < sequence.index(strand) for sequence in scaffolds.sequences)
for sequence in variants.sequences:
    changed = [i for i, (new, old) in enumerate(zip(sequence, ubiquitin, strict=True), 1) if new != old]
    assert 6 <= len(changed) <= 12
    assert sum(20 <= i <= 35 for i in changed) <= 2
assert all(designs.satisfied == len(designs) == 6 for designs in (inpainted, scaffolds, variants))
