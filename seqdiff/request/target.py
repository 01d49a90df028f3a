"""A structure to design sequences for: which of its residues are designed, which keep their letter, which look on.

The canvas holds the chains to design, in the file's order; residues of them that are not designed keep the letter that
they have. Other chains are context: the model sees their backbone and letters, the constraints do not see them. A
residue without a complete backbone (N, CA, C, O) keeps its letter; one that has no letter either is left out.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from seqdiff.constraints.positional import Fixed
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.core.fields import check_keys, number, whole_number
from seqdiff.core.layout import parse_regions
from seqdiff.core.structure import UNKNOWN, Structure
from seqdiff.domains.protein.structure import read_structure
from seqdiff.models.mpnn.denoiser import MPNNDenoiser
from seqdiff.models.mpnn.inputs import make_inputs
from seqdiff.models.mpnn.network import Encoding
from seqdiff.request.files import beside
from seqdiff.request.places import Places

_KEYS = (
    *("file", "design", "context", "fixed", "redesign", "models", "chain_ids"),
    *("noise", "ligands", "side_chains", "membrane"),
)


@dataclass(frozen=True, kw_only=True)
class Target:
    """A structure to design sequences for.

    Attributes:
        file: the structure file.
        digest: SHA-256 of its contents.
        design: chains on the canvas.
        context: other chains that the model sees.
        fixed: 1-based canvas positions that keep their letter.
        models: numbers of the models in the file whose predictions are averaged; empty for all.
        chain_ids: whether chains and residues go by the author's or the label's names (mmCIF).
        noise: standard deviation of the noise on backbone coordinates, in Angstrom.
        ligands: whether ligand atoms are seen, by models that read them.
        side_chains: whether the side chains of residues that are not designed are seen, by models that read them.
        membrane: class of each canvas position, by models that read it: 0 outside, 1 interface, 2 buried; empty for
            none.
        structures: one for each model.
        residues: index of each canvas position's residue in the structures.
        around: indices of the context's residues.
    """

    file: Path
    digest: str
    design: tuple[str, ...]
    context: tuple[str, ...]
    fixed: tuple[int, ...]
    models: tuple[int, ...] = (1,)
    chain_ids: str = "author"
    noise: float = 0.0
    ligands: bool = True
    side_chains: bool = False
    membrane: tuple[int, ...] = ()
    structures: tuple[Structure, ...] = field(compare=False, repr=False)
    residues: np.ndarray = field(compare=False, repr=False)
    around: np.ndarray = field(compare=False, repr=False)

    @classmethod
    def from_spec(cls, value: object, folder: Path, alphabet: Alphabet) -> "Target":
        """Read a file name, or a mapping with ``file`` and options.

        Raises:
            InputError: the file cannot be read, or an option names something that it does not have.
        """
        args = check_keys({"file": value} if isinstance(value, str | Path) else value, _KEYS, required=("file",))
        path = beside(str(args["file"]), folder)
        chain_ids = args.get("chain_ids", "author")
        if chain_ids not in ("author", "label"):
            raise InputError(f"chain_ids={chain_ids!r}: write author or label")
        models = _models(args.get("models", 1))
        try:
            structures = read_structure(path, models=models or None, chain_ids=chain_ids)
        except InputError as error:
            hint = "; or, to take letters from it, 'structure' needs 'contig' beside it" if path.is_file() else ""
            raise InputError(f"{error}{hint}") from None
        if not models and len(structures) == 1:
            models = (structures[0].model,)
        first = structures[0]
        design = _chains(args.get("design"), first.chains, "design", first)
        others = tuple(chain for chain in first.chains if chain not in design)
        context = _chains(args.get("context"), others, "context", first) if "context" in args else others
        usable = np.all([s.complete for s in structures], axis=0)
        known = np.array([letter != UNKNOWN for letter in first.letters])
        at = {chain: i for i, chain in enumerate(first.chains)}
        chain = np.array([at[name] for name in first.chain])
        residues = np.flatnonzero(np.isin(chain, [at[name] for name in design]) & (usable | known))
        around = np.flatnonzero(np.isin(chain, [at[name] for name in context]) & usable)
        target = cls(
            file=path,
            digest=hashlib.sha256(path.read_bytes()).hexdigest(),
            design=design,
            context=context,
            fixed=(),
            models=models,
            chain_ids=chain_ids,
            noise=number(args.get("noise", 0.0), "noise", above=-1e-9),
            ligands=_flag(args, "ligands", True),
            side_chains=_flag(args, "side_chains", False),
            structures=tuple(structures),
            residues=residues,
            around=around,
        )
        fixed = _fixed(args, target, usable[residues])
        membrane = _membrane(args.get("membrane"), target.places, len(residues))
        return replace(target, fixed=fixed, membrane=membrane)

    def to_spec(self) -> dict[str, Any]:
        """What :meth:`from_spec` reads back to an equal target."""
        labels = self.places.labels
        spec: dict[str, Any] = {"file": str(self.file), "design": list(self.design), "context": list(self.context)}
        if self.fixed:
            spec["fixed"] = ",".join(_colon(labels[p - 1], self.places.chain[p - 1]) for p in self.fixed)
        spec |= {"models": list(self.models) or "all"} if self.models != (1,) else {}
        spec |= {"chain_ids": "label"} if self.chain_ids == "label" else {}
        spec |= {"noise": self.noise} if self.noise else {}
        spec |= {} if self.ligands else {"ligands": False}
        spec |= {"side_chains": True} if self.side_chains else {}
        if self.membrane:
            named = {name: [p for p, c in enumerate(self.membrane, 1) if c == code] for name, code in _CLASSES.items()}
            spec["membrane"] = {name: ",".join(map(str, found)) for name, found in named.items() if found}
        return spec

    @property
    def places(self) -> Places:
        """What the canvas's positions are called in the file."""
        first = self.structures[0]
        return Places(
            chain=tuple(first.chain[i] for i in self.residues),
            number=tuple(f"{first.number[i]}{first.insertion[i]}" for i in self.residues),
            source=self.file.name,
        )

    @property
    def native(self) -> str:
        """Letters of the canvas's residues in the file; X where there is none."""
        return "".join(self.structures[0].letters[i] for i in self.residues)

    def encode(self, model: MPNNDenoiser, size: int, seed: int) -> Encoding:
        """What the model knows of the structure, for a canvas of ``size`` positions; computed once for all designs.

        Raises:
            InputError: an option that the model does not read, or labels that it needs.
        """
        kind = model.config.kind
        if self.side_chains and kind != "ligand":
            raise InputError("side_chains is read by LigandMPNN only; leave it out or take model: ligandmpnn")
        if bool(self.membrane) != (kind == "membrane"):
            needs = "needs structure.membrane: true, false or {buried: ..., interface: ...}"
            raise InputError(f"the model {needs if kind == 'membrane' else 'reads no membrane labels'}")
        stay = self.residues[[p - 1 for p in self.fixed]]
        inputs = make_inputs(
            self.structures,
            self.residues,
            self.around,
            size=size,
            atoms=model.config.atoms,
            ligands=self.ligands,
            side_chains_of=np.concatenate([stay, self.around]) if self.side_chains else None,
            labels=np.array(self.membrane, np.int32) if self.membrane else None,
            # One label for the whole protein is also that of the chains around.
            labels_around=self.membrane[0] if len(set(self.membrane)) == 1 else 0,
            noise=self.noise,
            seed=seed,
        )
        return model.encode(inputs)

    def recovery(self, sequence: str) -> float:
        """Share of the designed residues with the letter that they have in the file; nan where there is none."""
        stay = set(self.fixed)
        open = [p for p, letter in enumerate(self.native, 1) if p not in stay and letter != UNKNOWN]
        return sum(sequence[p - 1] == self.native[p - 1] for p in open) / len(open) if open else float("nan")

    def given(self) -> Fixed | None:
        """The letters that stay, as a constraint."""
        return Fixed(tuple((p, self.native[p - 1]) for p in self.fixed)) if self.fixed else None


_CLASSES = {"interface": 1, "buried": 2}


def _colon(label: str, chain: str) -> str:
    return f"{chain}:{label[len(chain) :]}"


def _models(value: object) -> tuple[int, ...]:
    if value == "all":
        return ()
    items = value if isinstance(value, list | tuple) else [value]
    return tuple(whole_number(item, "models", low=1) for item in items)


def _flag(args: Mapping[str, Any], key: str, default: bool) -> bool:
    value = args.get(key, default)
    if not isinstance(value, bool):
        raise InputError(f"{key}={value!r} must be true or false")
    return value


def _chains(value: object, known: tuple[str, ...], key: str, structure: Structure) -> tuple[str, ...]:
    """The chains that a list or comma-separated words name, in the file's order; all of them without a value."""
    if value is None:
        return known
    names = [str(item) for item in value] if isinstance(value, list | tuple) else str(value).split(",")
    names = [name.strip() for name in names if name.strip()]
    for name in names:
        if name not in known:
            left = ", ".join(known) or "none"
            raise InputError(f"{key}: {structure.source} has no chain {name!r} for it; there is {left}")
    if not names and key == "design":
        raise InputError("design names no chain")
    return tuple(chain for chain in known if chain in names)


def _fixed(args: Mapping[str, Any], target: Target, usable: np.ndarray) -> tuple[int, ...]:
    """Positions that keep their letter: those asked for, and those whose backbone is incomplete."""
    if "fixed" in args and "redesign" in args:
        raise InputError("'fixed' and 'redesign' say the same from two sides; keep one")
    places, native = target.places, target.native
    everything = range(1, len(native) + 1)
    asked: set[int] = set()
    for key in ("fixed", "redesign"):
        if key in args:
            words = args[key] if isinstance(args[key], str) else ",".join(map(str, args[key]))
            asked = _numbered(words, places, len(native), key)
            asked = asked if key == "fixed" else set(everything) - asked
    fixed = tuple(p for p in everything if p in asked or not usable[p - 1])
    for p in fixed:
        if native[p - 1] == UNKNOWN:
            name = target.structures[0].name[target.residues[p - 1]]
            raise InputError(
                f"{places.labels[p - 1]} ({name}) is none of the twenty residues and cannot stay; design it"
            )
    return fixed


def _numbered(words: str, places: Places, length: int, key: str) -> set[int]:
    found: set[int] = set()
    for region in parse_regions(places.translate(words)):
        last = length if region.last is None else region.last
        if last > length:
            raise InputError(f"{key}: position {last} is out of range; the canvas has {length}")
        found |= set(range(region.first, last + 1))
    return found


def _membrane(value: object, places: Places, length: int) -> tuple[int, ...]:
    """Class of each position; ``true`` or ``false`` says of the whole protein whether it is a membrane protein."""
    if value is None:
        return ()
    if isinstance(value, bool):
        return (int(value),) * length
    args = check_keys(value, tuple(_CLASSES))
    classes = [0] * length
    for name, code in _CLASSES.items():
        for p in _numbered(str(args[name]), places, length, name) if name in args else ():
            classes[p - 1] = code
    return tuple(classes)
