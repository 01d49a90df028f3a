"""Codons as letters: an alphabet of 64, the residue of each, how often a host uses them, and restriction sites."""

from functools import cache
from itertools import product

import numpy as np
from Bio.Data.CodonTable import unambiguous_dna_by_id
from Bio.Data.IUPACData import ambiguous_dna_values
from Bio.Seq import Seq

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError, missing_extra, unknown_key

DNA = Alphabet("DNA", "ACGT", {"strong": "CG", "weak": "AT"}, complement="TGCA")
"""Nucleotides, with complements."""

TRIPLETS: tuple[str, ...] = tuple("".join(triplet) for triplet in product("ACGT", repeat=3))
"""The 64 codons in id order."""

CODONS = Alphabet("codon", "".join(chr(0x100 + i) for i in range(64)))
"""One letter per codon, for programs that choose codons."""

_STANDARD = unambiguous_dna_by_id[1]
RESIDUE: tuple[str, ...] = tuple(
    "*" if triplet in _STANDARD.stop_codons else _STANDARD.forward_table[triplet] for triplet in TRIPLETS
)
"""The residue of each codon in the standard genetic code (NCBI table 1), ``*`` for stops."""


@cache
def usage(host: str) -> np.ndarray:
    """Share of each codon among those of its residue in a host, float64 [64] (Kazusa's codon usage tables).

    Args:
        host: a name such as ``e_coli``, ``h_sapiens`` or ``s_cerevisiae``.

    Raises:
        InputError: an unknown host; names the nearest one.
        MissingExtraError: the tables are not installed.
    """
    try:
        import python_codon_tables
    except ImportError:
        raise missing_extra("python-codon-tables", "dna") from None
    hosts = {name.rsplit("_", 1)[0]: name for name in python_codon_tables.available_codon_tables_names}
    if host not in hosts:
        raise unknown_key("host", host, hosts)
    table = python_codon_tables.get_codons_table(hosts[host])
    return np.array([table[residue][triplet] for triplet, residue in zip(TRIPLETS, RESIDUE, strict=True)])


def site_regex(site: str) -> str:
    """A regular expression for a restriction site on either strand.

    Args:
        site: an enzyme's name as REBASE spells it (``BsaI``), or its sequence in IUPAC letters.

    Raises:
        InputError: neither.
    """
    from Bio import Restriction

    sequence = site
    if site in Restriction.AllEnzymes:
        sequence = str(getattr(Restriction, site).site)
    elif not sequence or set(sequence) - set("ACGTRYSWKMBDHVN"):
        near = unknown_key("restriction enzyme", site, (str(enzyme) for enzyme in Restriction.CommOnly))
        raise InputError(f"{near}; or write the site in IUPAC letters, such as GGTCTC")
    strands = dict.fromkeys((sequence, str(Seq(sequence).reverse_complement())))
    return "|".join("".join(f"[{ambiguous_dna_values[base]}]" for base in strand) for strand in strands)
