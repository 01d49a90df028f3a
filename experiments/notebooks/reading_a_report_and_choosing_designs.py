# ---
# jupyter:
#   jupytext:
#     text_representation: {extension: .py, format_name: percent}
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # Reading a report and choosing designs
#
# *I have two dozen variants of a protein, all of which obey my rules, and money for four genes. Which four?*
#
# Rules do not rank designs: every one obeys them. Choosing means looking at what was **not** enforced: how likely the model finds them, whether
# their properties are those of proteins that behave, and how different they are from one another and from what is known.

# %%
import seqdiff

parent = "MTYKLILNGKTLKGETTTEAVDAATAEKVFKQYANDNGVDGEWTYDDATKTFTVTE"  # the B1 domain of protein G
designs = seqdiff.design(
    parent=parent,
    n=24,
    constraints=[
        {"fixed": {1: "M"}},
        {"forbid": {"letters": "C"}},
        {"mutations": {"min": 10, "max": 16}},
        {"mutations": {"max": 4, "region": "23-36"}},  # the helix
        {"pattern": {"prosite": "N-{P}-[ST]", "exactly": 0}},
        {"run": {"max": 3}},
    ],
    sampling={"planner": "random", "steps": 14, "batch": 24},
)

# %% [markdown]
# ## The folder of a run
#
# `seqdiff design spec.yaml` writes a folder; from Python `write` makes the same one. It is never overwritten.

# %%
from pathlib import Path

from seqdiff.request.output import free_name, write

folder = free_name(Path("outputs/protein_g"))
write(designs, folder)
for path in sorted(folder.iterdir()):
    print(f"{path.name:<16}{path.stat().st_size:>8} bytes")

# %% [markdown]
# `report.html` opens in any browser, offline. Read it from the top: the spec *as understood* (if that is not what you meant, nothing below
# matters), what was satisfied, the guarantee, then the designs. `designs.csv` is the same for a spreadsheet: a row for each design and for every
# constraint what the check found.

# %%
import csv

with open(folder / "designs.csv", newline="") as handle:
    rows = list(csv.DictReader(handle))
for name, value in rows[0].items():
    print(name, "|", value)

# %% [markdown]
# A folder is read back, here or on another machine, as what it was:

# %%
from seqdiff.request.stored import read_run

designs = read_run(folder)
designs

# %% [markdown]
# ## Do they look like proteins?
#
# The grey reference: seven small domains of the folding literature. Use your own set in earnest: a FASTA file, plain or compressed, as in
# `designs.histograms(reference="swissprot.fasta.gz")`.

# %%
known = {
    "ubiquitin": "MQIFVKTLTGKTITLEVEPSDTIENVKAKIQDKEGIPPDQQRLIFAGKQLEDGRTLSDYNIQKESTLHLVLRLRGG",
    "protein_G_B1": parent,
    "protein_L_B1": "MEEVTIKANLIFANGSTQTAEFKGTFEKATSEAYAYADTLKKDNGEYTVDVADKGYTLNIKFAG",
    "spectrin_SH3": "MDETGKELVLALYDYQEKSPREVTMKKGDILTLLNSTNKDWWKVEVNDRQGFVPAAYVKKLD",
    "chymotrypsin_inhibitor_2": "MKTEWPELVGKSVEEAKKVILQDKPEAQIIVLPVGTIVTMEYRIDRVRLFVDKLDNIAQVPRVG",
    "engrailed_homeodomain": "RPRTAFSSEQLARLKREFNENRYLTERRRQQLSSELGLNEAQIKIWFQNKRAKI",
    "villin_headpiece": "MLSDEDFKAVFGMTRSAFANLPLWKQQNLKKEKGLF",
}
reference = Path("small_domains.fasta")
reference.write_text("".join(f">{name}\n{sequence}\n" for name, sequence in known.items()))
designs.histograms(reference=reference)

# %% [markdown]
# ## Filters
#
# Properties that were not asked for, with limits that you would defend in front of a colleague. (If you are sure of one, make it a constraint and
# lose nothing.)

# %%
from Bio.SeqUtils.ProtParam import ProteinAnalysis


def passes(sequence: str) -> bool:
    """Not near the pH of the buffer (7.4), and an instability index (Guruprasad et al. 1990) that is called stable."""
    protein = ProteinAnalysis(sequence)
    return abs(protein.isoelectric_point() - 7.4) > 0.8 and protein.instability_index() < 40


shortlist = [i for i, sequence in enumerate(designs.sequences) if passes(sequence)]
print(f"{len(shortlist)} of {len(designs)} pass")

# %% [markdown]
# ## Rank by something that was not enforced
#
# `score` was taken along each design's own path, early residues with little context. The pseudo-log-likelihood asks about each residue given all
# others, for every design alike. In earnest ask a *larger* model, or a folding model: `seqdiff score designs.fasta model=... method=pseudo`.

# %%
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.process.pseudo import pseudo_log_likelihood

model = seqdiff.load("protein-small")
letters = [PROTEIN.encode(designs.sequences[i]) for i in shortlist]
likelihood = pseudo_log_likelihood(model, letters, mask=PROTEIN.mask) / [len(each) for each in letters]
ranked = sorted(zip(likelihood, shortlist, strict=True), reverse=True)
for value, i in ranked[:6]:
    changes = "".join(new if new != old else "." for new, old in zip(designs.sequences[i], parent, strict=True))
    print(f"{designs[i].id}  {value:.3f} nats per residue  {changes}")

# %% [markdown]
# ## Choose four that differ
#
# The best four may be near-copies, which is one experiment paid for four times. Start from the best; then always take the design, among the better
# half, that is farthest from all that were taken.

# %%
import numpy as np

from seqdiff.request.views import diversity, draw_diversity

found = diversity(designs)
print(f"{found.distinct} different designs, {found.clusters(0.7)} clusters at 70 % identity")
draw_diversity(found)

# %%
pool = [i for _, i in ranked[: max(4, len(ranked) // 2)]]
chosen = pool[:1]
while len(chosen) < 4:
    chosen.append(min(set(pool) - set(chosen), key=lambda i: (found.identity[i, chosen].max(), i)))


def closest(rows: list[int]) -> float:
    """Identity of the two most alike."""
    return float(np.max([found.identity[i, j] for i in rows for j in rows if i < j]))


print(f"most alike of the four chosen: {closest(chosen):.0%} identity; of the four likeliest: {closest(pool[:4]):.0%}")

# %% [markdown]
# ## Novelty, and the order form

# %%
from Bio import SeqIO

from seqdiff.request.views import nearest, read_reference

sequences = [designs[i].sequence for i in chosen]
for i, near in zip(chosen, nearest(sequences, read_reference(reference)), strict=True):
    words = f"{near.identity:.0%} identical to {near.name}" if near.name else "shares no word of four letters with any"
    print(f"{designs[i].id}: {words}")
records = designs.records()
SeqIO.write([records[i] for i in chosen], "chosen.fasta", "fasta")
print(Path("chosen.fasta").read_text())

# %% [markdown]
# For DNA, `seqdiff backtranslate chosen.fasta host=e_coli 'avoid=[BsaI]'`.
#
# ## The promise

# %%
assert designs.satisfied == len(designs) == len(rows) == 24
assert all(row["satisfied"] == "True" for row in rows)
assert len(set(sequences)) == 4
assert all(designs[i].ok and passes(designs[i].sequence) for i in chosen)
assert closest(chosen) <= closest(pool[:4])
