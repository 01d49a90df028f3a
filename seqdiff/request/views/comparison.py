"""The page that compares runs: what was varied, what came out, what it cost."""

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from seqdiff.request.designs import Designs
from seqdiff.request.views.diversity import diversity
from seqdiff.request.views.html import document, facts, paragraph, picture, rate, section, table
from seqdiff.request.views.properties import MOST, compare_histograms, texts
from seqdiff.request.views.quality import score_against_nfe, scored
from seqdiff.request.views.reference import Reference, nearest

DRAWN, NEAREST_MOST, WORDS = 8, 50, 60


def comparison(runs: Mapping[str, Designs], reference: Reference | None = None) -> str:
    """The whole page.

    Args:
        runs: designs by the folder of the run.
        reference: known sequences to compare with; for proteins.
    """
    rows = table_of_runs(runs, reference)
    header = list(rows[0])
    words = "Runs that differ in no key but the folder are repeats." if len(varied(runs)) == 0 else ""
    body = (
        f"<h1>{len(runs)} runs, {sum(map(len, runs.values()))} designs</h1>"
        + section(
            "Runs", f'<div class="scroll">{table(header, [list(row.values()) for row in rows])}</div>', paragraph(words)
        )
        + section(
            "Quality against denoiser calls", picture(partial(score_against_nfe, runs), "Score against NFE", _CAPTION)
        )
        + section("Properties", _properties(runs, reference))
        + section("Same in all runs", facts(shared(runs)))
    )
    return document("seqdiff: comparison of runs", body)


_CAPTION = "A dot is a design, a diamond the mean of a run."


def table_of_runs(runs: Mapping[str, Designs], reference: Reference | None = None) -> list[dict[str, str]]:
    """One row for each run: its folder, the keys that were varied, and what came out."""
    keys, rows = varied(runs), []
    for name, designs in runs.items():
        spec = flat(designs.spec.to_mapping()) | {"guarantee": designs.guarantee}
        row = {"run": name} | {key: _short(spec.get(key, "")) for key in keys}
        rows.append(row | _outcome(designs) | _novelty(designs, reference))
    titles = dict.fromkeys(title for row in rows for title in row)
    return [{title: row.get(title, "") for title in titles} for row in rows]


def varied(runs: Mapping[str, Designs]) -> list[str]:
    """Keys of the specs, dots between levels, that are not the same in all runs."""
    specs = [flat(designs.spec.to_mapping()) | {"guarantee": designs.guarantee} for designs in runs.values()]
    keys = dict.fromkeys(key for spec in specs for key in spec)
    return [key for key in keys if len({json.dumps(spec.get(key), default=str) for spec in specs}) > 1]


def shared(runs: Mapping[str, Designs]) -> list[tuple[str, str]]:
    """Keys of the specs that are the same in all runs, with their values."""
    different = varied(runs)
    spec = flat(next(iter(runs.values())).spec.to_mapping())
    return [(key, _text(value)) for key, value in spec.items() if key not in different]


def _outcome(designs: Designs) -> dict[str, str]:
    found = {"designs": str(len(designs)), "satisfied": str(designs.satisfied)}
    points = scored(designs)
    found["score"] = f"{points[:, 1].mean():.3f} ± {points[:, 1].std():.3f}" if len(points) else ""
    for title in ("recovery", *(designs[0].goals if len(designs) else ())):
        values = [design.recovery if title == "recovery" else design.goals[title] for design in designs]
        if values and None not in values:
            found[title] = f"{np.mean(np.array(values, float)):.4g} ± {np.std(np.array(values, float)):.2g}"
    found["acceptance"] = ("" if designs.guarantee == "exact" else "at most ") + rate(designs.acceptance)
    found["NFE"] = f"{np.mean([design.calls for design in designs]):.4g}" if len(designs) else ""
    if len(designs) > 1:
        compared = diversity(designs)
        found["identity of two (%)"] = f"{100 * compared.pairs.mean():.1f}"
    return found | {"seconds": f"{designs.run['seconds']:.4g}" if "seconds" in designs.run else ""}


def _novelty(designs: Designs, reference: Reference | None) -> dict[str, str]:
    if reference is None:
        return {}
    found = [near.identity for near in nearest(texts(designs)[:NEAREST_MOST], reference)]
    shared = [identity for identity in found if np.isfinite(identity)]
    return {"nearest known (%)": f"{100 * np.mean(shared):.1f}" if shared else "none"}


def _properties(runs: Mapping[str, Designs], reference: Reference | None) -> str:
    drawn = dict(list(runs.items())[:DRAWN])
    first = next(iter(drawn.values()))
    if len({designs.spec.domain for designs in drawn.values()}) > 1 or not all(map(len, drawn.values())):
        return ""
    sets: dict[str, Any] = {name: texts(designs) for name, designs in drawn.items()}
    if reference is not None:
        sets[reference.name] = reference.sample(MOST)
    draw = partial(compare_histograms, sets, first.spec.setting, last_is_reference=reference is not None)
    return picture(draw, "Properties", f"The first {DRAWN} runs." if len(runs) > DRAWN else "")


def flat(mapping: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, with dotted keys."""
    found: dict[str, Any] = {}
    for key, value in mapping.items():
        found |= flat(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return found


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _short(value: Any) -> str:
    text = _text(value)
    return text if len(text) <= WORDS else text[: WORDS - 1] + "…"
