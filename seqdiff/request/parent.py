"""The parent of a spec: one protein, or several chains side by side, with the names of their residues."""

from collections.abc import Mapping
from pathlib import Path

from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.domains.protein.antibody import number_domains
from seqdiff.domains.protein.fasta import read_fasta
from seqdiff.request.files import beside, sequence
from seqdiff.request.places import Places

BREAK = "/"
"""Stands between chains where several are written as one word."""


def read_parent(value: object, numbering: object, folder: Path, alphabet: Alphabet) -> tuple[str, Places | None]:
    """Letters of the parent, chains one after the other, and what their positions are called.

    Several chains are written ``EVQL.../DIQM...``, or are the records of a FASTA file. With ``numbering`` they are
    antibody domains called H and L; else A, B, ... and their residues count from 1. A single chain without numbering
    has no names.

    Raises:
        InputError: a file or a word that cannot be read, or chains that cannot be numbered.
    """
    chains = _chains(value, folder, alphabet)
    letters = "".join(chains)
    if numbering is not None:
        return letters, _antibody(chains, str(numbering).lower())
    if len(chains) == 1:
        return letters, None
    if len(chains) > 26:
        raise InputError(f"parent has {len(chains)} chains; 26 can be named, A to Z")
    names = [(chr(ord("A") + c), str(i)) for c, chain in enumerate(chains) for i in range(1, len(chain) + 1)]
    chain, number = (tuple(column) for column in zip(*names, strict=True))
    return letters, Places(chain, number, source="the parent")


def _chains(value: object, folder: Path, alphabet: Alphabet) -> list[str]:
    text = "" if isinstance(value, Mapping) else str(value)
    if BREAK in text and set(text) <= {*alphabet.letters, BREAK}:
        return [sequence(part, folder, alphabet, "parent") for part in text.split(BREAK)]
    if text and not set(text) <= set(alphabet.letters) and beside(text, folder).is_file():
        return [str(record.seq) for record in read_fasta(beside(text, folder))]
    return [sequence(value, folder, alphabet, "parent")]


def _antibody(chains: list[str], scheme: str) -> Places:
    domains = number_domains(chains, scheme)
    names = [domain.chain for domain in domains]
    if len(set(names)) < len(names):
        raise InputError(
            f"parent has {len(names)} domains of chain {names[0]}; give one heavy, one light, or one of each"
        )
    first, loops = 0, {}
    for domain in domains:
        loops |= {(domain.chain, name): tuple(first + p for p in found) for name, found in domain.loops.items()}
        first += len(domain.numbers)
    return Places(
        chain=tuple(domain.chain for domain in domains for _ in domain.numbers),
        number=tuple(number for domain in domains for number in domain.numbers),
        loops=loops,
        source=f"the parent ({scheme})",
    )
