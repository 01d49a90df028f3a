"""The report of a run: one HTML page that needs nothing else, neither files nor the net.

``page`` makes it of designs in memory, ``build_report`` of run folders: a page for one run, a comparison for several.
Tables need the base install, figures the extra ``plots``; where that is missing the page says so in their place.
"""

import os
from collections.abc import Sequence
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from seqdiff.core.errors import InputError
from seqdiff.request.designs import Designs
from seqdiff.request.stored import read_run, run_folders
from seqdiff.request.views.comparison import comparison
from seqdiff.request.views.diversity import LEVELS, diversity, draw_diversity
from seqdiff.request.views.drawing import degrees
from seqdiff.request.views.html import (
    GUARANTEES,
    STYLE,
    columns,
    document,
    facts,
    paragraph,
    picture,
    rate,
    section,
    several,
    table,
    tiles,
)
from seqdiff.request.views.properties import as_reference, histograms
from seqdiff.request.views.quality import score_against_nfe
from seqdiff.request.views.reference import Reference, nearest
from seqdiff.request.views.sequences import LOGO_MOST, entropy_trace, information, logo, order_map
from seqdiff.request.views.structure import trace
from seqdiff.request.views.table import MOST_ROWS, constraints_table, designs_table

__all__ = ["GUARANTEES", "build_report", "fragment", "page", "rate"]

NEAREST_MOST, CONSERVED = 200, 0.25


def build_report(folders: Sequence[Path], out: Path, reference: Path | None = None) -> None:
    """Write the page of a finished run, or one that compares several.

    Args:
        folders: of ``seqdiff design``, or folders that hold such, as of a sweep.
        out: the page; an older one is replaced.
        reference: FASTA of known sequences to compare designs with.

    Raises:
        InputError: a folder holds no run, a file of it is damaged, the reference cannot be read, or ``out`` cannot be
            written.
    """
    found = run_folders(folders)
    if not found:
        raise InputError("name one or more folders of 'seqdiff design'")
    runs = dict(zip(_names(found), map(read_run, found), strict=True))
    name, first = next(iter(runs.items()))
    known = as_reference(first, reference)
    for designs in runs.values():
        as_reference(designs, known)
    write_page(page(first, known, title=name) if len(runs) == 1 else comparison(runs, known), out)


def write_page(text: str, out: Path) -> None:
    """Write a page to ``out``, its folder too where there is none.

    Raises:
        InputError: it cannot be written.
    """
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"out={out} cannot be written: {error.strerror or error}") from None


def _names(folders: Sequence[Path]) -> list[str]:
    """Names of runs: their folders without what all of them start with."""
    full = [folder.resolve() for folder in folders]
    start = os.path.commonpath([folder.parent for folder in full])
    return [str(folder.relative_to(start)) for folder in full]


def page(designs: Designs, reference: Reference | str | Path | None = None, title: str = "") -> str:
    """The whole page of one run.

    Args:
        designs: what came out.
        reference: known sequences to compare with, or the FASTA file that holds them; for proteins.
        title: what the run is called.

    Raises:
        InputError: the reference cannot be read.
    """
    known = as_reference(designs, reference)
    body = (
        f"<h1>{_headline(designs)}</h1>{paragraph(title) if title else ''}"
        f"{tiles(_tiles(designs))}"
        f"{section('Spec as understood', _spec(designs))}"
        f"{section('Constraints, checked on every design', constraints_table(designs))}"
        f"{section('Designs', _drawn(designs), _filter(designs), designs_table(designs), _rest(designs, MOST_ROWS))}"
        f"{section('What stands where', _logo(designs), _structure(designs))}"
        f"{section('How the designs came about', _order(designs), _trace(designs))}"
        f"{section('Properties', _properties(designs, known), _degrees(designs))}"
        f"{section('Diversity and novelty', columns(_diversity(designs), _nearest(designs, known)))}"
        f"{section('Quality and cost', columns(_quality(designs), _timing(designs)))}"
        f"{section('Provenance', _provenance(designs))}"
    )
    return document(f"seqdiff: {title}" if title else "seqdiff designs", body)


def fragment(designs: Designs, most: int = 24) -> str:
    """What a notebook shows: verdicts and an aligned, coloured table of the first ``most`` designs."""
    return (
        f'<style>{STYLE}</style><div class="seqdiff"><p><b>{_headline(designs)}</b></p>'
        f"{constraints_table(designs)}<p></p>{_drawn(designs)}{designs_table(designs, most)}"
        f"{_rest(designs, most)}</div>"
    )


def _rest(designs: Designs, most: int) -> str:
    return paragraph(f"the first {most} of {len(designs)} designs" if len(designs) > most else "")


def _headline(designs: Designs) -> str:
    mark = "good" if designs.satisfied == len(designs) else "bad"
    words = (
        f'{several(len(designs), "design")}, <span class="{mark}">{designs.satisfied} satisfy every constraint</span>'
    )
    return words + (f' <span class="bad">(stopped: {escape(designs.stopped)})</span>' if designs.stopped else "")


def _tiles(designs: Designs) -> list[tuple[str, str]]:
    shown = [("guarantee", designs.guarantee), ("model", designs.spec.model)]
    scores = np.array([design.score for design in designs if np.isfinite(design.score)])
    if len(scores):
        spread = f" ± {scores.std():.2f}" if len(scores) > 1 else ""
        shown.append(("mean score (nats per position)", f"{scores.mean():.2f}{spread}"))
    shown.append(("different designs", f"{len(set(designs.sequences))} of {len(designs)}"))
    if len(designs):
        shown.append(("denoiser calls per design", f"{np.mean([design.calls for design in designs]):.4g}"))
    if "seconds" in designs.run:
        shown.append(("seconds", f"{designs.run['seconds']:.4g}"))
    return shown


def _spec(designs: Designs) -> str:
    most = "" if designs.guarantee == "exact" else "at most "
    meaning = [
        ("guarantee", GUARANTEES.get(designs.guarantee, designs.guarantee)),
        ("law", str(designs.run.get("law", ""))),
        ("plain rejection from the model's first proposal would accept", f"{most}{rate(designs.acceptance)}"),
        ("score", "mean log-probability (nats) of the designed positions when they were committed"),
    ]
    return columns(f"<pre>{escape(designs.spec.to_yaml())}</pre>", facts(meaning))


def _drawn(designs: Designs) -> str:
    drawn = designs.spec.setting.picture([design.id for design in designs], designs.sequences)
    return "" if drawn is None else f'<div class="scroll">{drawn}</div><p></p>'


def _filter(designs: Designs) -> str:
    what = "id, or a motif such as C..C" if designs.spec.setting.sequential else "id"
    words = f"{several(len(designs), 'design')}; click a heading to sort"
    return f'<p><input placeholder="{what}" aria-label="filter"> <span class="muted">{words}</span></p>'


def _logo(designs: Designs) -> str:
    if not designs.spec.setting.sequential or len(designs) < 2:
        return ""
    lengths = [len(text) for text in designs.sequences]
    most = information(designs.sequences, designs.spec.setting.alphabet.letters).sum(axis=1).max()
    if most < CONSERVED:
        return paragraph(
            f"No sequence logo: no position holds more than {most:.2g} bits; every letter stands everywhere."
        )
    words = "Sequence logo: heights in bits of this set of designs, not corrected for its size."
    if len(set(lengths)) > 1:
        words += " Lengths differ: positions count from the first residue, up to where half of the designs end."
    words += f" The first {LOGO_MOST} positions." if max(lengths) > LOGO_MOST else ""
    return picture(partial(logo, designs), "Sequence logo", words)


def _structure(designs: Designs) -> str:
    if designs.spec.structure is None or not len(designs):
        return ""
    words = "C-alpha trace, coloured by the probability of the residue when it was committed."
    return picture(partial(trace, designs), "C-alpha trace", words)


def _order(designs: Designs) -> str:
    most = 60
    words = "Order of commitment: the denoiser call at which each position was decided."
    words += f" The first {most} of {len(designs)} designs." if len(designs) > most else ""
    return picture(partial(order_map, designs, most), "Order of commitment", words)


def _trace(designs: Designs) -> str:
    words = (
        "Left: -log p of the letters committed at each call, which estimates the entropy of the distribution that they "
        "were drawn from; mean, and the middle 80 %."
    )
    return picture(partial(entropy_trace, designs), "Surprise by denoiser call", words)


def _properties(designs: Designs, known: Reference | None) -> str:
    words = "Of each chain. " if designs.spec.places is not None and len(designs.spec.places.chains) > 1 else ""
    if known is not None:
        words += f"Grey: {known.name}, {len(known)} sequences"
        words += f" ({known.skipped} skipped for other letters)" if known.skipped else ""
        words += "; heights are shares of each set, the ends hold what lies beyond."
    return picture(partial(histograms, designs, known), "Properties", words)


def _degrees(designs: Designs) -> str:
    graphs = len(designs) and isinstance(designs.objects[0], nx.Graph)
    return picture(partial(degrees, designs), "Degrees") if graphs else ""


def _diversity(designs: Designs) -> str:
    if len(designs) < 2:
        return ""
    found = diversity(designs)
    rows = [("different designs", f"{found.distinct} of {len(designs)}")]
    rows += [(f"clusters at {level:.0%} identity", str(found.clusters(level))) for level in LEVELS]
    note = f"compared with one another: the first {found.compared}" if found.compared < len(designs) else ""
    return facts(rows) + paragraph(note) + picture(partial(draw_diversity, found), "Identity of two designs")


def _nearest(designs: Designs, known: Reference | None) -> str:
    if not designs.spec.setting.sequential:
        return ""
    if known is None:
        return paragraph("For the nearest known sequence of each design: seqdiff report RUN reference=FASTA")
    chains = designs.records()[:NEAREST_MOST]
    found = nearest([str(chain.seq) for chain in chains], known)
    pairs = sorted(zip(chains, found, strict=True), key=lambda pair: -np.nan_to_num(pair[1].identity, nan=-1.0))
    rows = [
        (str(chain.id), f"{100 * near.identity:.1f}" if near.name else "", near.name or "none shares four letters")
        for chain, near in pairs
    ]
    note = f" The first {NEAREST_MOST} designs." if len(designs.records()) > NEAREST_MOST else ""
    words = f"Identical residues of the alignment as a share of the design's; of {len(known)} in {known.name}.{note}"
    listed = table(("design", "identity (%)", "nearest"), rows)
    return f'<h3>Nearest known sequence</h3><div class="scroll short">{listed}</div>{paragraph(words)}'


def _quality(designs: Designs) -> str:
    if len({design.calls for design in designs}) < 2:
        return ""
    return picture(partial(score_against_nfe, {"designs": designs}), "Score against denoiser calls")


def _timing(designs: Designs) -> str:
    seconds = designs.run.get("seconds")
    calls = sum(design.calls for design in designs)
    rows = [("denoiser calls of all designs", f"{calls}")]
    if seconds and len(designs):
        rows += [
            ("seconds, compilation included", f"{seconds}"),
            ("designs per second", f"{len(designs) / seconds:.3g}"),
        ]
    return facts(rows)


def _provenance(designs: Designs) -> str:
    run: dict[str, Any] = designs.run
    shown = {
        "versions",
        "devices",
        "seed",
        "states",
        "constraints",
        "guarantee",
        "law",
        "seconds",
        "designs",
        "satisfied",
        "acceptance",
        "stopped",
    }
    rows = [
        ("model", designs.spec.model),
        ("seed", str(designs.spec.seed)),
        ("devices", ", ".join(map(str, run.get("devices", [])))),
        ("versions", ", ".join(f"{name} {version}" for name, version in run.get("versions", {}).items())),
    ]
    if designs.spec.structure is not None:
        rows.append(("structure", f"{designs.spec.structure.file.name}, SHA-256 {designs.spec.structure.digest}"))
    rows += [(str(key), str(value)) for key, value in run.items() if key not in shown and value not in ("", None)]
    return facts(rows)
