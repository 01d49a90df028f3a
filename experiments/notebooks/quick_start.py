# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Quick start
#
# *I want eight small proteins with an RGD integrin-binding motif, exactly two cysteines for one disulfide, and no N-glycosylation site.
# Every single one, without filtering.*
#
# This notebook needs `pip install 'seqdiff[notebooks]'` and nothing else: the model `protein-small` comes with seqdiff.

# %%
import seqdiff

designs = seqdiff.design(
    length=[44, 52],  # a length is drawn for each design
    n=8,
    constraints=[
        {"fixed": {1: "M"}},  # positions count from 1
        {"pattern": {"regex": "RGD"}},  # at least once, anywhere
        {"count": {"letters": "C", "exactly": 2}},
        {"spacing": {"letters": "C", "min": 10}},  # far enough apart to close a loop
        {"pattern": {"prosite": "N-{P}-[ST]", "exactly": 0}},  # the sequon
        {"run": {"max": 3}},  # no four equal letters in a row
    ],
    sampling={"planner": "random", "steps": 16},
)
designs

# %% [markdown]
# A `Designs` shows itself. The upper table has a row for each constraint and how many designs an *independent* check in plain Python finds it
# satisfied on; open *reasons* for what it found. Below, one row for each design: residues coloured by chemical class, the motif framed, given residues underlined.
#
# `score` is the mean log-probability of the designed residues in nats, at the moment they were committed. Higher is likelier; compare within one
# run only.
#
# ## One design

# %%
design = designs[0]
print(design.sequence)
print(f"score {design.score:.2f} nats per residue, {design.calls} calls of the model")
for constraint, verdict in zip(designs.constraints, design.verdicts, strict=True):
    print("kept" if verdict.ok else "BROKEN", "|", constraint.describe(), "|", verdict.reason)

# %% [markdown]
# ## How the designs came about
#
# Sampling starts from a fully masked sequence and commits residues over several calls of the model. Early residues are chosen with little context,
# late ones with nearly all of it.

# %%
designs.order_map()

# %%
designs.entropy_trace()

# %% [markdown]
# ## How much work the constraints do
#
# `acceptance` estimates which share of unconstrained draws from the model's first prediction would pass. Its inverse is what
# sampling and filtering would cost.

# %%
print(f"{designs.acceptance:.1e} of free draws would pass: about one in {1 / designs.acceptance:,.0f}")
print(f"guarantee: {designs.guarantee}")

# %% [markdown]
# `exact` means more than that the constraints hold: residues are drawn from the model's own distribution *given* all constraints.
#
# ## Asking for too much
#
# Constraints that exclude each other are refused before the model runs, with a smallest set that clashes and what would help.

# %%
try:
    seqdiff.design(
        length=20,
        constraints=[
            {"pattern": {"regex": "RGD"}},
            {"charge": {"max": -8}},
            {"count": {"letters": "DE", "max": 4}},
        ],
    )
except seqdiff.core.errors.InputError as error:
    refusal = str(error)
print(refusal)

# %% [markdown]
# ## Trust, but check
#
# The rules once more, in your own words rather than ours:

# %%
import re

for sequence in designs.sequences:
    assert re.match("M.*RGD", sequence)
    assert sequence.count("C") == 2
    assert not re.search("N[^P][ST]", sequence)
    assert not re.search(r"(.)\1{3}", sequence)
assert designs.satisfied == len(designs) == 8

# %% [markdown]
# To keep them: `designs.to_csv()`, `designs.records()` (Biopython), `designs.report("report.html")`. The same run from a shell is
# `seqdiff design spec.yaml`.
