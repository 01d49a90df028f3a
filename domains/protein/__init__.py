"""Proteins: alphabet, FASTA in and out, properties."""

from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.domains.protein.fasta import read_fasta, read_one, write_fasta
from seqdiff.domains.protein.properties import BACKGROUND, properties

__all__ = ["BACKGROUND", "PROTEIN", "properties", "read_fasta", "read_one", "write_fasta"]
