"""Histograms of what designs are like, beside a reference set or beside one another."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from seqdiff.core.errors import InputError
from seqdiff.request.designs import Designs
from seqdiff.request.domains.base import Setting
from seqdiff.request.domains.protein import ProteinSetting
from seqdiff.request.views.figure import COLOURS, GREY, grid, label, some, title
from seqdiff.request.views.reference import Reference, read_reference

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS, MOST = 4, 500


def histograms(designs: Designs, reference: "str | Path | Reference | None" = None) -> "Figure":
    """Lengths, the domain's properties (of proteins: mass, pI, charge, hydropathy, aromaticity) and composition.

    Properties are of the first ``MOST`` chains, and of at most so many known sequences, evenly over the file.

    Args:
        designs: of any domain.
        reference: known sequences, or the FASTA file that holds them; for sequences only.

    Raises:
        InputError: the reference cannot be read, or the domain has no sequences to compare with it.
        MissingExtraError: matplotlib is not installed.
    """
    sets = {"designs": texts(designs)}
    if (known := as_reference(designs, reference)) is not None:
        sets[known.name] = list(known.sample(MOST))
    return compare_histograms(sets, designs.spec.setting, last_is_reference=known is not None)


def compare_histograms(
    sets: Mapping[str, Sequence[str]], setting: Setting, *, last_is_reference: bool = False
) -> "Figure":
    """The same for several sets of designs of one domain, one colour each; a reference comes last and is grey."""
    some(next(iter(sets.values()), ()), "design")
    tables = {name: property_table(members[:MOST], setting) for name, members in sets.items()}
    titles = [each for each in next(iter(tables.values())) if any(np.ptp(table[each]) for table in tables.values())]
    panels = len(titles) + setting.sequential
    some(range(panels), "property that differs")
    rows = -(-panels // COLUMNS)
    figure, axes = grid(rows, COLUMNS, 12.5, 1.9 * rows)
    colours = dict(zip(sets, COLOURS * len(sets), strict=False))
    if last_is_reference:
        colours[list(sets)[-1]] = GREY
    for axis, name in zip(axes.flat, titles, strict=False):
        _histogram(axis, {key: table[name] for key, table in tables.items()}, colours)
        title(axis, name)
    if setting.sequential:
        _composition(axes.flat[panels - 1], sets, colours, setting.alphabet.letters)
    for axis in axes.flat[panels:]:
        axis.set_visible(False)
    if len(sets) > 1:
        handles, names = axes.flat[0].get_legend_handles_labels()  # drawn last to first
        figure.legend(handles[::-1], names[::-1], loc="outside upper left", ncols=4, frameon=False, fontsize=8.5)
    return figure


def property_table(sequences: Sequence[str], setting: Setting) -> dict[str, np.ndarray]:
    """Values by title, one for each sequence: its length where designs are sequences, and the domain's properties."""
    rows = [setting.properties(text) for text in sequences]
    found = {"length": np.array([len(text) for text in sequences], float)} if setting.sequential else {}
    return found | {name: np.array([row[name] for row in rows], float) for name in rows[0]}


def texts(designs: Designs) -> list[str]:
    """What properties are taken of: chains where designs are sequences, else the designs themselves."""
    if designs.spec.setting.sequential:
        return [str(record.seq) for record in designs.records()]
    return designs.sequences


def as_reference(designs: Designs, reference: "str | Path | Reference | None") -> Reference | None:
    """The reference, read where it is a file.

    Raises:
        InputError: it cannot be read, or the designs are no proteins.
    """
    if reference is None:
        return None
    if not isinstance(designs.spec.setting, ProteinSetting):
        name = reference.name if isinstance(reference, Reference) else reference
        raise InputError(f"reference={name}: a reference set is for proteins, not for domain {designs.spec.domain}")
    return reference if isinstance(reference, Reference) else read_reference(reference)


def _histogram(axis, values: Mapping[str, np.ndarray], colours: Mapping[str, str]) -> None:
    pooled = np.concatenate(list(values.values()))
    # The middle 99 %: one giant of a reference set must not squeeze the rest into a bar.
    low, high = np.quantile(pooled, [0.005, 0.995])
    bins = int(np.clip(3 * np.sqrt(min(map(len, values.values()))), 6, 30))
    whole = bool((pooled == np.round(pooled)).all()) and high - low < 2 * bins
    edges = np.arange(low - 0.5, high + 1) if whole else np.linspace(low, max(high, low + 1e-6), bins + 1)
    for name, found in reversed(list(values.items())):
        weights = np.full(len(found), 100 / len(found))
        grey = colours[name] == GREY
        style = {"histtype": "stepfilled", "alpha": 0.55} if grey or len(values) <= 2 else {"histtype": "step"}
        axis.hist(
            np.clip(found, edges[0], edges[-1]),
            bins=edges,
            weights=weights,
            color=colours[name],
            label=label(name),
            **style,
        )
    axis.locator_params(axis="x", integer=whole, nbins=6)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)


def _composition(axis, sets: Mapping[str, Sequence[str]], colours: Mapping[str, str], letters: str) -> None:
    at, width = np.arange(len(letters)), 0.8 / len(sets)
    for i, (name, members) in enumerate(sets.items()):
        joined = "".join(members)
        shares = [100 * joined.count(letter) / max(1, len(joined)) for letter in letters]
        axis.bar(at + (i - (len(sets) - 1) / 2) * width, shares, width, color=colours[name])
    axis.set_xticks(at, letters, fontsize=7)
    title(axis, "composition (%)")
