"""Properties of a protein that designers look at, through Biopython's ProtParam, and background frequencies."""

import numpy as np
from Bio.SeqUtils.ProtParam import ProteinAnalysis

# Share of each of PROTEIN.letters in the training set of protein-small (Swiss-Prot at 50 % redundancy, 21,255,538
# residues): collections.Counter over read_fasta("train.fasta.xz").
_COUNTED = np.array(
    [
        *(0.08183, 0.01497, 0.05229, 0.06468, 0.04087, 0.06937, 0.02204, 0.06148, 0.05984, 0.09904),
        *(0.02377, 0.04123, 0.04670, 0.03713, 0.05443, 0.06794, 0.05240, 0.06833, 0.01128, 0.03036),
    ]
)
BACKGROUND: np.ndarray = _COUNTED / _COUNTED.sum()
"""Background frequencies of ``PROTEIN.letters``, float64 [20], summing to one."""


def properties(sequence: str) -> dict[str, float]:
    """Properties of a chain of canonical residues.

    Args:
        sequence: the residues.

    Returns:
        ``length``; ``molecular_weight`` (Da, average isotopes, free chain); ``isoelectric_point`` and ``charge_at_pH7``
        (Bjellqvist et al. 1993 pK values; elementary charges); ``gravy`` (mean Kyte-Doolittle hydropathy, 1982);
        ``aromaticity`` (share of F, W, Y; Lobry & Gautier 1994); ``instability_index`` (Guruprasad et al. 1990, above
        40 predicts instability); ``extinction_280nm`` (M^-1 cm^-1 with all cysteines reduced; Pace et al. 1995).

    Example:
        >>> round(properties("MKTAYIAKQR")["isoelectric_point"], 1)
        10.3
    """
    analysis = ProteinAnalysis(sequence)
    return {
        "length": float(len(sequence)),
        "molecular_weight": analysis.molecular_weight(),
        "isoelectric_point": analysis.isoelectric_point(),
        "charge_at_pH7": analysis.charge_at_pH(7.0),
        "gravy": analysis.gravy(),
        "aromaticity": analysis.aromaticity(),
        "instability_index": analysis.instability_index(),
        "extinction_280nm": float(analysis.molar_extinction_coefficient()[0]),
    }
