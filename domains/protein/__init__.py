"""Proteins: alphabet, FASTA in and out, properties."""
