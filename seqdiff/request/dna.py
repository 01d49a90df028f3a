"""From a finished protein to DNA that encodes it: codons drawn by the host's usage, given hard rules about the DNA.

The protein is not changed: each codon is one of its residue's. Rules are the same parts that protein constraints lower
to, over an alphabet of 64 codons: an automaton over nucleotides reads a codon as three letters, GC content is a sum. So
sites across codon borders, long homopolymers and GC windows are kept together, exactly where they fit one automaton.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from Bio.Seq import Seq
from Bio.SeqRecord import SeqRecord

from seqdiff.constraints.automaton import MatchCounter
from seqdiff.constraints.base import Verdict
from seqdiff.constraints.parts import Automaton, Lowered, Scan, Sum
from seqdiff.constraints.program import Compiled, compile_constraints
from seqdiff.constraints.regex import parse_regex
from seqdiff.core.errors import InputError
from seqdiff.core.fields import check_keys, number, whole_number
from seqdiff.core.layout import WHOLE, Layout, Region
from seqdiff.domains.protein.codons import CODONS, DNA, RESIDUE, TRIPLETS, site_regex, usage
from seqdiff.domains.protein.fasta import read_fasta, write_fasta
from seqdiff.sampling.loop import LOG_FLOOR, row_keys

BUCKET = 32
_GC = np.array([triplet.count("G") + triplet.count("C") for triplet in TRIPLETS])
_KEYS = ("host", "avoid", "gc", "window", "window_gc", "rare", "run", "stop")


@dataclass(frozen=True, kw_only=True)
class DnaRules:
    """Hard rules for a coding sequence.

    Attributes:
        host: whose codon usage is drawn from.
        avoid: restriction enzymes or sites in IUPAC letters, absent on both strands.
        gc: least and largest GC content of the whole sequence, in percent.
        window: length in nucleotides of sliding windows, one starting at every codon; 0 for none.
        window_gc: least and largest GC content of every window, in percent.
        rare: codons used less often than this share among their synonyms are not used (unless all are rarer).
        run: longest run of one nucleotide.
        stop: stop codon at the end: ``TAA``, ``TAG``, ``TGA``, ``any`` or ``none``.
    """

    host: str = "e_coli"
    avoid: tuple[str, ...] = ()
    gc: tuple[float, float] = (0.0, 100.0)
    window: int = 0
    window_gc: tuple[float, float] = (0.0, 100.0)
    rare: float = 0.0
    run: int = 0
    stop: str = "any"

    @classmethod
    def from_mapping(cls, mapping: Any) -> "DnaRules":
        """Read ``{host: e_coli, avoid: [BsaI], gc: [40, 60], rare: 0.1, run: 5}``; every key may be left out.

        Raises:
            InputError: an unknown key or a value that cannot be used.
        """
        args = check_keys(mapping, _KEYS)
        values: dict[str, Any] = {}
        if "host" in args:
            values["host"] = str(args["host"])
        if "avoid" in args:
            items = args["avoid"]
            values["avoid"] = tuple(map(str, items if isinstance(items, list | tuple) else [items]))
        for key in ("gc", "window_gc"):
            if key in args:
                values[key] = _percent(args[key], key)
        if "window" in args:
            values["window"] = whole_number(args["window"], "window", low=3)
        if ("window" in args) != ("window_gc" in args):
            raise InputError("'window' and 'window_gc' need each other, such as window: 60, window_gc: [30, 70]")
        if "rare" in args:
            values["rare"] = number(args["rare"], "rare")
        if "run" in args:
            values["run"] = whole_number(args["run"], "run", low=1)
        if "stop" in args:
            values["stop"] = str(args["stop"])
            if values["stop"] not in ("TAA", "TAG", "TGA", "any", "none"):
                raise InputError(f"stop={values['stop']!r}: write TAA, TAG, TGA, any or none")
        return cls(**values)

    def to_spec(self) -> dict[str, Any]:
        """What :meth:`from_mapping` reads back."""
        spec: dict[str, Any] = {"host": self.host, "stop": self.stop}
        for key in ("avoid", "gc", "window", "window_gc", "rare", "run"):
            value = getattr(self, key)
            if value != getattr(type(self)(), key):
                spec[key] = list(value) if isinstance(value, tuple) else value
        return spec


@dataclass(frozen=True)
class Coding:
    """A protein with DNA that encodes it.

    Attributes:
        protein: the residues.
        dna: nucleotides, with the stop codon if one was asked for.
        log_usage: mean over codons of the log of their share among synonyms.
        verdicts: the independent check of each rule, by its words.
        guarantee: ``exact``: codons follow the host's usage given the rules; ``feasible``: all rules hold.
    """

    protein: str
    dna: str
    log_usage: float
    verdicts: Mapping[str, Verdict]
    guarantee: str


def backtranslate(
    protein: str, rules: DnaRules | Mapping[str, Any] | None = None, /, *, seed: int = 0, row: int = 0
) -> Coding:
    """DNA that encodes ``protein`` and obeys every rule.

    Args:
        protein: canonical residues.
        rules: hard rules, or the mapping that :meth:`DnaRules.from_mapping` reads.
        seed: of the draw; the same seed and row give the same codons.
        row: number of the protein among those of one request.

    Raises:
        InputError: letters that are no residues, an unknown host or enzyme, or rules that nothing satisfies; names a
            minimal set of rules that clash for this protein.

    Example:
        >>> coding = backtranslate("MKTAYIAKQR", {"host": "e_coli", "avoid": ["BsaI"], "gc": [40, 60]})
        >>> len(coding.dna), all(verdict.ok for verdict in coding.verdicts.values())
        (33, True)
    """
    rules = rules if isinstance(rules, DnaRules) else DnaRules.from_mapping(rules or {})
    if not protein:
        raise InputError("there is no residue to encode")
    if wrong := next((a for a in protein if a not in RESIDUE or a == "*"), None):
        raise InputError(f"{wrong!r} at position {protein.index(wrong) + 1} has no codon")
    facts = _facts(protein, rules)
    steps = len(protein) + (rules.stop != "none")
    compiled = compile_constraints(facts, Layout(CODONS, steps, steps))
    shares = usage(rules.host)
    log_usage = np.log(np.maximum(shares, 1e-4))
    chosen = _draw(compiled, log_usage, steps, seed, row)
    dna = "".join(TRIPLETS[codon] for codon in chosen)
    verdicts = {fact.words: fact.check(dna) for fact in facts}
    return Coding(protein, dna, float(log_usage[chosen].mean()), verdicts, compiled.guarantee)


def _draw(compiled: Compiled, log_usage: np.ndarray, steps: int, seed: int, row: int) -> np.ndarray:
    size = -(-steps // BUCKET) * BUCKET
    proposal = np.broadcast_to(np.maximum(log_usage, LOG_FLOOR).astype(np.float32), (1, size, len(CODONS)))
    canvas = np.full((1, size), CODONS.mask, np.int32)
    program = compiled.program(size)
    condition = jax.jit(type(program).condition)
    keys = row_keys(seed, jnp.full((1,), row, jnp.int32))
    return np.asarray(condition(program, keys, proposal, canvas, np.full((1,), steps, np.int32), canvas).witness)[
        0, :steps
    ]


@dataclass(frozen=True, eq=False)
class _Fact:
    """One rule: what the compiler needs of a constraint, and a check of the finished DNA in plain Python."""

    words: str
    parts: Lowered
    check: Callable[[str], Verdict] = field(repr=False)

    def describe(self) -> str:
        return self.words

    def lower(self, layout: Layout) -> Lowered:
        return self.parts


class _ByCodon:
    """An automaton over nucleotides that reads a codon at a time."""

    def __init__(self, automaton: Automaton):
        self._automaton, self.start = automaton, automaton.start
        self._codes = np.array([DNA.encode(triplet) for triplet in TRIPLETS])

    def row(self, state: int) -> np.ndarray:
        states = np.full(len(TRIPLETS), state)
        for k in range(3):
            for at in np.unique(states[states >= 0]).tolist():
                here = states == at
                states[here] = -2 - np.asarray(self._automaton.row(at))[self._codes[here, k]]
            states = np.where(states < -1, -2 - states, -1)
        return states

    def accepts(self, state: int) -> bool:
        return self._automaton.accepts(state)


def _facts(protein: str, rules: DnaRules) -> list[Any]:
    shares, steps = usage(rules.host), len(protein) + (rules.stop != "none")
    facts = [_encodes(protein, rules, shares)]
    facts += [_absent(site_regex(site), f"no {site} site") for site in rules.avoid]
    if rules.run:
        repeats = "|".join(f"{base}{{{rules.run + 1}}}" for base in DNA.letters)
        facts.append(_absent(repeats, f"no run of one nucleotide longer than {rules.run}"))
    if rules.gc != (0.0, 100.0):
        words = f"GC content {rules.gc[0]:g}-{rules.gc[1]:g} %"
        facts.append(_gc(words, [(0, steps)], rules.gc, steps))
    if rules.window:
        size = -(-rules.window // 3)
        starts = range(max(1, steps - size + 1))
        low, high = rules.window_gc
        words = f"GC content {low:g}-{high:g} % in every window of {3 * size}"
        facts.append(_gc(words, [(start, min(start + size, steps)) for start in starts], rules.window_gc, steps))
    return facts


def _encodes(protein: str, rules: DnaRules, shares: np.ndarray) -> _Fact:
    residues = [*protein, *(["*"] if rules.stop != "none" else [])]
    allowed = np.array([[residue == wanted for residue in RESIDUE] for wanted in residues])
    if rules.stop in TRIPLETS:
        allowed[-1] = [triplet == rules.stop for triplet in TRIPLETS]
    common = allowed & (shares >= rules.rare)
    allowed = np.where(common.any(axis=1, keepdims=True), common, allowed)
    rare = f", no codon rarer than {rules.rare:g} in {rules.host}" if rules.rare else ""

    def check(dna: str) -> Verdict:
        read = str(Seq(dna).translate())
        codons = [dna[i : i + 3] for i in range(0, len(dna), 3)]
        used = sorted({codon for codon in codons if shares[TRIPLETS.index(codon)] < rules.rare})
        avoidable = [codon for codon in used if _avoidable(codon, rules.rare, shares)]
        ok = read == "".join(residues) and not avoidable
        return Verdict(ok, f"rare codons {', '.join(avoidable)}" if avoidable else f"translates to {len(read)} letters")

    return _Fact(f"encodes the protein{rare}", Lowered(allowed=allowed), check)


def _avoidable(codon: str, rare: float, shares: np.ndarray) -> bool:
    residue = str(Seq(codon).translate())
    return any(share >= rare for share, other in zip(shares, RESIDUE, strict=True) if other == residue)


def _absent(regex: str, words: str) -> _Fact:
    counter = MatchCounter(parse_regex(regex, DNA), 0, 0)

    def check(dna: str) -> Verdict:
        found = re.search(regex, dna)
        return Verdict(found is None, f"{found[0]} at nucleotide {found.start() + 1}" if found else "none found")

    return _Fact(words, Lowered(scans=(Scan(_ByCodon(counter), WHOLE),)), check)


def _gc(words: str, stretches: list[tuple[int, int]], percent: tuple[float, float], steps: int) -> _Fact:
    low, high = (Fraction(str(end)) / 100 for end in percent)
    sums = []
    for first, last in stretches:
        weights = np.zeros((steps, len(TRIPLETS)), np.int64)
        weights[first:last] = _GC
        region = Region(first + 1, last)
        sums.append(Sum(weights, lambda n: (math.ceil(low * 3 * n), math.floor(high * 3 * n)), region))

    def check(dna: str) -> Verdict:
        contents = [Fraction(sum(base in "GC" for base in dna[3 * a : 3 * b]), 3 * (b - a)) for a, b in stretches]
        spread = f"{100 * float(min(contents)):.1f}-{100 * float(max(contents)):.1f} %"
        return Verdict(all(low <= content <= high for content in contents), spread)

    return _Fact(words, Lowered(sums=tuple(sums)), check)


def _percent(value: object, key: str) -> tuple[float, float]:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise InputError(f"{key}={value!r}: write [lowest, highest] in percent, such as [40, 60]")
    low, high = (number(end, key) for end in value)
    if not 0 <= low <= high <= 100:
        raise InputError(f"{key}={value!r}: need 0 <= lowest <= highest <= 100")
    return low, high


def backtranslate_file(fasta: Path, options: Mapping[str, Any], out: Path | None) -> list[tuple[str, Coding]]:
    """Encode every protein of a FASTA file.

    Args:
        fasta: proteins, plain or gzip.
        options: rules, and ``seed``.
        out: where to write the coding sequences; not written where an error comes first.

    Raises:
        InputError: as :func:`backtranslate`, naming the record; nothing is written then.
    """
    options = dict(options)
    seed = whole_number(options.pop("seed", 0), "seed")
    rules = DnaRules.from_mapping(options)
    if out is not None and out.exists():
        raise InputError(f"out={out} exists; name another file")
    found: list[tuple[str, Coding]] = []
    for row, record in enumerate(read_fasta(fasta)):
        name = str(record.id)
        try:
            found.append((name, backtranslate(str(record.seq), rules, seed=seed, row=row)))
        except InputError as error:
            raise type(error)(f"{fasta}, record {name}: {error}") from None
    if out is not None:
        records = [
            SeqRecord(Seq(coding.dna), id=name, description=f"{rules.host} log_usage={coding.log_usage:.3f}")
            for name, coding in found
        ]
        write_fasta(out, records)
    return found
