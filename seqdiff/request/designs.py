"""The result of a request: designs with their scores, verdicts and how they came about."""

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from Bio.Seq import Seq
from Bio.SeqRecord import SeqRecord

from seqdiff.constraints.base import Constraint, Verdict
from seqdiff.request.dna import Coding
from seqdiff.request.spec import DesignSpec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from seqdiff.request.views import Drawing, Reference


@dataclass(frozen=True)
class Design:
    """One design.

    Attributes:
        id: its name in files.
        index: its number in the request; with the seed it determines the design.
        sequence: its letters.
        log_p: log-probability of each residue under the model when it was committed [L]; 0 where it was not designed.
        order: denoiser call (from 0) at which each residue was committed [L]; -1 where the constraints or the parent
            gave it.
        calls: denoiser calls used (NFE).
        log_evidence: log-probability that a draw from the model's first proposal satisfies all constraints.
        verdicts: the independent check of each constraint, in the spec's order.
        log_normaliser: with particles, estimated log-probability that the sampler without constraints meets them (times
            the mean of the goals' ``exp``); else 0.
        ess: with particles, the smallest effective sample size on the way, as a share; else 1.
        recovery: share of the designed residues with the letter of the structure; None without a structure.
        goals: value of each property that the spec has a goal for.
        coding: DNA that encodes it, where the spec asks for DNA and there is some.
        no_coding: why there is none.
    """

    id: str
    index: int
    sequence: str
    log_p: np.ndarray
    order: np.ndarray
    calls: int
    log_evidence: float
    verdicts: tuple[Verdict, ...]
    log_normaliser: float = 0.0
    ess: float = 1.0
    recovery: float | None = None
    goals: dict[str, float] = field(default_factory=dict)
    coding: Coding | None = None
    no_coding: str = ""

    @property
    def score(self) -> float:
        """Mean log-probability (nats) of the designed residues when they were committed; nan if none was designed."""
        designed = self.order >= 0
        return float(self.log_p[designed].mean()) if designed.any() else float("nan")

    @property
    def ok(self) -> bool:
        """Whether every constraint holds."""
        rules = () if self.coding is None else self.coding.verdicts.values()
        return all(verdict.ok for verdict in (*self.verdicts, *rules))


@dataclass(frozen=True)
class Designs(Sequence[Design]):
    """The designs of one request; a sequence of :class:`Design` that shows itself as a table in a notebook.

    Attributes:
        spec: what was asked for.
        constraints: what was checked, in the order of the verdicts.
        guarantee: ``exact`` when draws follow the model's proposal given the constraints.
        designs: the designs.
        run: versions, timings and devices.
        stopped: why there are fewer designs than asked for; empty when there are not.
    """

    spec: DesignSpec
    constraints: tuple[Constraint, ...]
    guarantee: str
    designs: tuple[Design, ...]
    run: dict[str, Any] = field(default_factory=dict)
    stopped: str = ""

    def __len__(self) -> int:
        return len(self.designs)

    def __getitem__(self, index: Any) -> Any:
        return self.designs[index]

    def __iter__(self) -> Iterator[Design]:
        return iter(self.designs)

    @property
    def sequences(self) -> list[str]:
        """Letters of each design."""
        return [design.sequence for design in self.designs]

    @property
    def objects(self) -> list[Any]:
        """Each design as its field's own object: a string of residues, a ``networkx`` graph, an array of digits."""
        return [self.spec.setting.decode(design.sequence) for design in self.designs]

    @property
    def satisfied(self) -> int:
        """Number of designs that obey every constraint, by the independent check."""
        return sum(design.ok for design in self.designs)

    def records(self) -> list[SeqRecord]:
        """The designs as Biopython records, one for each chain; the description holds seed and score."""
        return [
            SeqRecord(
                Seq(letters),
                id=name,
                name=name,
                description=f"seed={self.spec.seed} index={design.index} score={design.score:.4f}",
            )
            for design in self.designs
            for name, letters in self._chains(design).items()
        ]

    def _chains(self, design: Design) -> dict[str, str]:
        """Letters by name of a record: the design's, with its chain's where there are several."""
        chains = self.spec.by_chain(design.sequence)
        return {design.id if len(chains) == 1 else f"{design.id}_{chain}": part for chain, part in chains.items()}

    @property
    def acceptance(self) -> float:
        """Share of draws from the model's first proposal that would satisfy everything: what rejection would accept.

        With constraints that a solver keeps, an upper bound: it leaves those out.
        """
        return float(np.mean(np.exp([design.log_evidence for design in self.designs]))) if self.designs else 0.0

    def coding_records(self) -> list[SeqRecord]:
        """Coding sequences of the designs that have one."""
        return [
            SeqRecord(Seq(design.coding.dna), id=design.id, name=design.id, description="coding sequence")
            for design in self.designs
            if design.coding is not None
        ]

    def columns(self) -> list[str]:
        """Column names of a row: one per constraint at the end, and one per rule for DNA."""
        return [
            *("id", "seed", "index", "length", "sequence", "score", "log_evidence", "nfe"),
            *(("log_normaliser", "ess") if self.spec.sampling.particles > 1 else ()),
            *(("recovery",) if self.spec.structure else ()),
            *self._goals(),
            "satisfied",
            *(f"{n}: {constraint.describe()}" for n, constraint in enumerate(self.constraints, 1)),
            *(["dna", *(f"DNA: {words}" for words in self._rules())] if self.spec.dna else []),
        ]

    def _goals(self) -> list[str]:
        return list(self.designs[0].goals) if self.designs else []

    def _rules(self) -> list[str]:
        return list(
            dict.fromkeys(words for design in self.designs if design.coding for words in design.coding.verdicts)
        )

    def _coded(self, design: Design) -> list[str]:
        if self.spec.dna is None:
            return []
        if design.coding is None:
            return ["", *(design.no_coding for _ in self._rules())]
        return [design.coding.dna, *map(_words, design.coding.verdicts.values())]

    def _weighed(self, design: Design) -> list[float]:
        if self.spec.sampling.particles == 1:
            return []
        return [round(design.log_normaliser, 4), round(design.ess, 4)]

    def rows(self) -> list[dict[str, Any]]:
        """One plain row per design."""
        return [
            dict(
                zip(
                    self.columns(),
                    [
                        *(design.id, self.spec.seed, design.index, len(design.sequence)),
                        "/".join(self._chains(design).values()),
                        *(round(design.score, 4), round(design.log_evidence, 4), design.calls),
                        *self._weighed(design),
                        *(() if design.recovery is None else (round(design.recovery, 4),)),
                        *(round(value, 4) for value in design.goals.values()),
                        design.ok,
                        *map(_words, design.verdicts),
                        *self._coded(design),
                    ],
                    strict=True,
                )
            )
            for design in self.designs
        ]

    def to_csv(self) -> str:
        """A table with one row per design and one column per verdict."""
        buffer = io.StringIO()
        writer = csv.DictWriter(buffer, self.columns(), lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows())
        return buffer.getvalue()

    def to_json(self) -> str:
        """Everything, per-residue arrays included."""
        designs = [
            {item.name: getattr(design, item.name) for item in fields(design)}
            | {
                "log_p": [round(float(p), 4) for p in design.log_p],
                "order": design.order.tolist(),
                "score": design.score if design.score == design.score else None,
                "verdicts": [verdict._asdict() for verdict in design.verdicts],
                "coding": None if design.coding is None else design.coding.dna,
            }
            for design in self.designs
        ]
        document = {
            "spec": self.spec.to_mapping(),
            "constraints": [constraint.describe() for constraint in self.constraints],
            "guarantee": self.guarantee,
            "residues": None if self.spec.places is None else self.spec.places.labels,
            "run": self.run,
            "stopped": self.stopped,
            "designs": designs,
        }
        return json.dumps(document, indent=1, default=str)

    def logo(self, first: int = 1, last: int | None = None) -> "Figure":
        """Sequence logo; see :func:`seqdiff.request.views.logo`."""
        from seqdiff.request import views

        return views.logo(self, first, last)

    def order_map(self, most: int = 60) -> "Figure":
        """When each position was committed; see :func:`seqdiff.request.views.order_map`."""
        from seqdiff.request import views

        return views.order_map(self, most)

    def entropy_trace(self) -> "Figure":
        """How sure the model was, call by call; see :func:`seqdiff.request.views.entropy_trace`."""
        from seqdiff.request import views

        return views.entropy_trace(self)

    def histograms(self, reference: "Reference | str | Path | None" = None) -> "Figure":
        """Properties, beside a reference set; see :func:`seqdiff.request.views.histograms`."""
        from seqdiff.request import views

        return views.histograms(self, reference)

    def drawings(self) -> "Drawing":
        """Rows of residues, graphs or boards as SVG; see :func:`seqdiff.request.views.drawings`."""
        from seqdiff.request import views

        return views.drawings(self)

    def view3d(self, index: int = 0) -> Any:
        """A design on its structure, coloured by confidence; see :func:`seqdiff.request.views.view3d`."""
        from seqdiff.request import views

        return views.view3d(self, index)

    def report(self, out: str | Path, reference: "Reference | str | Path | None" = None) -> None:
        """Write the report page; see :func:`seqdiff.request.report.page`.

        Raises:
            InputError: the reference cannot be read, or ``out`` cannot be written.
        """
        from seqdiff.request.report import page, write_page

        write_page(page(self, reference), Path(out))

    def _repr_html_(self) -> str:
        from seqdiff.request.report import fragment

        return fragment(self)

    def __repr__(self) -> str:
        return (
            f"Designs({len(self)} designs, {self.satisfied} satisfy all {len(self.constraints)} constraints, "
            f"guarantee {self.guarantee!r})"
        )


def _words(verdict: Verdict) -> str:
    return f"{'yes' if verdict.ok else 'NO'}: {verdict.reason}"
