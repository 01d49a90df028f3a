"""The twenty canonical amino acids, the groups that protein designers name, and properties that add up."""

from Bio.Data.IUPACData import protein_weights
from Bio.SeqUtils.ProtParamData import kd

from seqdiff.core.alphabet import Alphabet, PropertyScale

_LETTERS = "ACDEFGHIKLMNPQRSTVWY"
_WATER = 18.0153
_EXTINCTION = {"W": 5500.0, "Y": 1490.0}

PROTEIN = Alphabet(
    name="protein",
    letters=_LETTERS,
    scales={
        # Average masses in Da: residues lose a water each, a chain keeps one (Biopython's table).
        "mass": PropertyScale(tuple(protein_weights[a] - _WATER for a in _LETTERS), 1.0, offset=_WATER),
        # Kyte and Doolittle 1982; GRAVY is the mean.
        "gravy": PropertyScale(tuple(kd[a] for a in _LETTERS), 0.1, mean=True),
        # Pace et al. 1995, 1/(M cm) at 280 nm, cysteines reduced.
        "extinction": PropertyScale(tuple(_EXTINCTION.get(a, 0.0) for a in _LETTERS), 10.0),
    },
    groups={
        "any": _LETTERS,
        "hydrophobic": "AVILMFWYC",
        "aliphatic": "AVIL",
        "aromatic": "FWYH",
        "polar": "STNQHYDEKR",
        "charged": "DEKR",
        "positive": "KR",
        "basic": "KRH",
        "negative": "DE",
        "acidic": "DE",
        "small": "AGSTC",
        "tiny": "AGS",
        "helix": "AELMQKRH",
        "sheet": "VIYFWT",
        "turn": "GNPSD",
    },
)
