"""The design spec: one schema for Python, YAML and notebooks. Data only: names of constraints, never import paths.

Reading refuses what it does not know, with the nearest name it does; ``to_mapping`` writes the spec back as it was
understood, so that a result can be made again from its own ``spec.yaml``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

from seqdiff.constraints.base import REGISTRY, Constraint, parse_constraint
from seqdiff.constraints.contig import Contig
from seqdiff.constraints.positional import Fixed
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.errors import InputError
from seqdiff.core.fields import check_keys, number, whole_number
from seqdiff.core.layout import Layout, Region, parse_regions
from seqdiff.request.dna import DnaRules
from seqdiff.request.domains import domain_named
from seqdiff.request.domains.base import Setting
from seqdiff.request.domains.protein import ProteinSetting
from seqdiff.request.files import read_contig, resolve, uses_parent
from seqdiff.request.goals import goals_to_spec, parse_goals
from seqdiff.request.lengths import read_length
from seqdiff.request.parent import BREAK, read_parent
from seqdiff.request.places import Places
from seqdiff.request.planners import parse_planner, planner_name, planner_spec
from seqdiff.request.target import Target
from seqdiff.sampling.planners import BasePlanner, EntropyBound, FixedOrder

MAX_SEED = 2**32 - 1
_KEYS = ("domain", "model", "n", "seed", "constraints", "bias", "goals", "sampling")
"""Keys of every domain's specs."""


@dataclass(frozen=True)
class Bias:
    """A preference, not a rule: added to the scaled log-probabilities of some letters at some positions.

    Attributes:
        letters: the letters.
        add: nats.
        regions: where.
    """

    letters: str
    add: float
    regions: tuple[Region, ...] = (Region(),)

    @classmethod
    def from_spec(cls, item: object, alphabet: Alphabet) -> "Bias":
        """Read ``{letters: KR, add: -1.0, positions: "1-20"}``."""
        args = check_keys(item, ("letters", "add", "positions"), required=("letters", "add"))
        regions = parse_regions(args["positions"]) if "positions" in args else (Region(),)
        return cls(alphabet.letter_set(str(args["letters"])), number(args["add"], "add"), regions)

    def to_spec(self) -> dict[str, Any]:
        """What :meth:`from_spec` reads back."""
        return {"letters": self.letters, "add": self.add, "positions": ",".join(str(r) for r in self.regions)}


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """How to sample.

    Attributes:
        planner: which positions to commit and to reopen at a step.
        steps: most denoiser calls per design.
        temperature: of the denoiser's distribution, above 0: one number, or that of the first step and the limit that a
            linear schedule approaches.
        particles: attempts per design that are weighed against each other; 1 for none.
        drafts: positions that speculative sampling drafts per call; 0 for none. One position at a time in law.
        batch: attempts sampled side by side; changes speed and memory, never a design.
    """

    planner: BasePlanner = field(default_factory=EntropyBound)
    steps: int = 32
    temperature: float | tuple[float, float] = 1.0
    particles: int = 1
    drafts: int = 0
    batch: int = 16

    def __post_init__(self):
        if self.drafts and not isinstance(self.planner, FixedOrder):
            raise InputError(
                f"drafts={self.drafts} needs an order known beforehand; set planner to random, left_to_right, spread "
                "or order"
            )
        if self.drafts and self.particles > 1:
            raise InputError(
                f"drafts={self.drafts} and particles={self.particles}: speculation has no particles; drop one"
            )
        if self.drafts and isinstance(self.temperature, tuple):
            raise InputError(f"drafts={self.drafts} needs one temperature, not a schedule")
        if self.particles > 1 and (self.planner.reopens or self.planner.value_dependent or not self.planner.holds):
            name = planner_name(self.planner)
            raise InputError(
                f"particles={self.particles} cannot be weighed under planner {name}, which takes letters back or ranks "
                "by them; use one that does not, such as random, spread or entropy_bound"
            )

    @classmethod
    def from_spec(cls, item: object) -> "Sampling":
        """Read ``{planner: entropy_bound, steps: 32, temperature: 1.0, particles: 1, batch: 16}``; all optional."""
        args = check_keys(item, ("planner", "steps", "temperature", "particles", "drafts", "batch"))
        values: dict[str, Any] = {}
        if "planner" in args:
            values["planner"] = parse_planner(args["planner"])
        for key in ("steps", "particles", "drafts", "batch"):
            if key in args:
                values[key] = whole_number(args[key], key, low=1)
        if "temperature" in args:
            given = args["temperature"]
            ends = list(given) if isinstance(given, list | tuple) else [given]
            if len(ends) > 2 or not ends:
                raise InputError(f"temperature={given!r}: write a number, or [first, limit] for a linear schedule")
            read = tuple(number(end, "temperature", above=0) for end in ends)
            values["temperature"] = read[0] if len(read) == 1 else (read[0], read[1])
        return cls(**values)

    def to_spec(self) -> dict[str, Any]:
        """What :meth:`from_spec` reads back."""
        given = self.temperature
        temperature = list(given) if isinstance(given, tuple) else given
        extra = {"particles": self.particles} if self.particles > 1 else {}
        extra |= {"drafts": self.drafts} if self.drafts else {}
        planner = planner_spec(self.planner)
        return {"planner": planner, "steps": self.steps, "temperature": temperature, **extra, "batch": self.batch}


@dataclass(frozen=True, kw_only=True)
class DesignSpec:
    """A design problem and how to sample it.

    Attributes:
        model: bundled name or folder.
        length: shortest and longest design.
        draw: how each design's length is drawn: ``uniform`` over the feasible ones, ``evidence`` (in proportion to the
            probability that background letters of that length satisfy the constraints), or (length, weight) pairs.
        n: number of designs.
        seed: design i depends on (seed, i) only.
        parent: letters of the protein that ``keep`` and ``mutations`` refer to, chain after chain; empty without one.
        keep: stretches of the parent that stay.
        constraints: what every design must obey, beside ``keep``.
        bias: what designs should rather have.
        goals: what designs should rather be, by particles; see ``request.goals``. Python may also give functions.
        sampling: how to sample.
        domain: what is designed.
        setting: the domain as its own keys set it up.
        dna: rules for DNA that encodes the designs; None for no DNA.
        structure: what designs should fold to, for models that read structures.
        places: what the canvas's positions are called; None where they are numbers only.
    """

    length: tuple[int, int]
    draw: str | tuple[tuple[int, float], ...] = "uniform"
    model: str = "protein-small"
    n: int = 16
    seed: int = 0
    parent: str = ""
    keep: tuple[Region, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    bias: tuple[Bias, ...] = ()
    goals: tuple[Any, ...] = ()
    sampling: Sampling = Sampling()
    domain: str = "protein"
    setting: Setting = field(default_factory=ProteinSetting)
    dna: DnaRules | None = None
    structure: Target | None = None
    places: Places | None = field(default=None, compare=False)

    @classmethod
    def from_mapping(cls, mapping: object, *, folder: Path = Path(), alphabet: Alphabet | None = None) -> "DesignSpec":
        """Read a spec.

        Args:
            mapping: keys as in the class's attributes; constraints as one-key mappings from name to arguments.
            folder: where relative file names are looked up first; then in the current folder.
            alphabet: the letters, instead of those of the domain.

        Raises:
            InputError: an unknown key, or a value that cannot be used; names the key.

        Example:
            >>> spec = DesignSpec.from_mapping({"length": [90, 110], "constraints": [{"run": {"max": 3}}]})
            >>> spec.length, spec.n, [rule.describe() for rule in spec.constraints]
            ((90, 110), 16, ['run of one letter at most 3'])
        """
        name = mapping.get("domain", "protein") if isinstance(mapping, Mapping) else "protein"
        domain = domain_named(name)
        args = check_keys(mapping, (*_KEYS, *domain.KEYS))
        setting = domain.read(args, folder)
        alphabet = setting.alphabet if alphabet is None else alphabet
        values: dict[str, Any] = {"domain": name, "setting": setting, "model": domain.MODEL}
        if "model" in args:
            values["model"] = _model_name(args["model"], folder)
        if "n" in args:
            values["n"] = whole_number(args["n"], "n", low=1)
        if "seed" in args:
            values["seed"] = whole_number(args["seed"], "seed")
            if values["seed"] > MAX_SEED:
                raise InputError(f"seed={args['seed']} is larger than {MAX_SEED}")
        parent, places = "", None
        if "parent" in args:
            parent, places = read_parent(args["parent"], args.get("numbering"), folder, alphabet)
        elif "numbering" in args:
            raise InputError("'numbering' needs 'parent' beside it, the antibody domain that is numbered")
        if "structure" in args and "contig" not in args:
            if parent:
                raise InputError("'parent' and 'structure' both say what is designed; keep one")
            values["structure"] = _named("structure", Target.from_spec, args["structure"], folder, alphabet)
            places = values["structure"].places
        values["places"] = places
        constraints = [
            constraint
            for i, item in enumerate(_list(args, "constraints"), 1)
            for constraint in _named(f"constraints[{i}]", _constraints, item, folder, alphabet, parent, places)
        ]
        if "contig" in args:
            constraints.insert(0, read_contig(args, folder, alphabet))
        contigs = [item for item in constraints if isinstance(item, Contig)]
        native = values["structure"].native if "structure" in values else parent
        values["length"], values["draw"] = setting.lengths or read_length(
            args, native, contigs[0] if contigs else None, folder
        )
        if "keep" in args and not parent:
            raise InputError("'keep' needs 'parent' beside it, such as parent: protein.fasta and keep: 20-45")
        if parent and "keep" not in args and not any(map(uses_parent, constraints)):
            raise InputError("'parent' needs 'keep' or a 'mutations' constraint beside it, such as keep: 20-45")
        if parent:
            keep = _keep(args["keep"], parent, places) if "keep" in args else ()
            values |= {"parent": parent, "keep": keep}
        values["constraints"] = tuple(constraints)
        values["bias"] = tuple(
            _named(f"bias[{i}]", _bias, item, alphabet, places) for i, item in enumerate(_list(args, "bias"), 1)
        )
        values["goals"] = parse_goals(args.get("goals") or [])
        if "sampling" in args:
            values["sampling"] = _named("sampling", Sampling.from_spec, args["sampling"])
        if "dna" in args:
            values["dna"] = _named("dna", DnaRules.from_mapping, args["dna"])
        spec = cls(**values)
        if spec.goals and spec.sampling.particles == 1:
            raise InputError("goals are met by choosing among particles; add sampling: {particles: 8} or more")
        return spec

    def to_mapping(self) -> dict[str, Any]:
        """What :meth:`from_mapping` reads back to an equal spec."""
        low, high = self.length
        length: Any = low if low == high else [low, high]
        if self.draw != "uniform":
            draw = self.draw if isinstance(self.draw, str) else {str(n): weight for n, weight in self.draw}
            length = {"range": [low, high], "draw": draw}
        mapping: dict[str, Any] = {"model": self.model}
        if own := self.setting.to_spec():
            mapping = {"domain": self.domain} | own | mapping
        else:
            mapping |= {"structure": self.structure.to_spec()} if self.structure else {"length": length}
        mapping |= {"n": self.n, "seed": self.seed}
        if self.parent:
            mapping["parent"] = BREAK.join(self.by_chain(self.parent).values())
        if self.keep:
            mapping["keep"] = ",".join(str(region) for region in self.keep)
        mapping["constraints"] = [{item.name: item.to_spec()} for item in self.constraints]
        if self.bias:
            mapping["bias"] = [item.to_spec() for item in self.bias]
        if self.goals:
            mapping["goals"] = goals_to_spec(self.goals)
        dna = {} if self.dna is None else {"dna": self.dna.to_spec()}
        return mapping | {"sampling": self.sampling.to_spec()} | dna

    def to_yaml(self) -> str:
        """The spec as YAML."""
        return yaml.safe_dump(self.to_mapping(), sort_keys=False, default_flow_style=None, width=120)

    def layout(self, alphabet: Alphabet) -> Layout:
        """The canvas."""
        return Layout(alphabet, *self.length)

    def by_chain(self, letters: str) -> dict[str, str]:
        """A design's letters by chain; one chain without a name where positions have none."""
        if self.places is None:
            return {"": letters}
        spans = {chain: self.places.span(chain) for chain in self.places.chains}
        return {chain: letters[first - 1 : last] for chain, (first, last) in spans.items()}

    def all_constraints(self) -> tuple[Constraint, ...]:
        """The constraints, those of the domain and the residues that stay first."""
        if self.structure is not None and (given := self.structure.given()):
            return (given, *self.constraints)
        if not self.keep:
            return (*self.setting.constraints, *self.constraints)
        positions = sorted({p for r in self.keep for p in range(r.first, (r.last or len(self.parent)) + 1)})
        return (Fixed(tuple((p, self.parent[p - 1]) for p in positions)), *self.constraints)


def read_mapping(path: Path) -> dict[str, Any]:
    """The mapping in a YAML file.

    Raises:
        InputError: no such file, not YAML (names the line), a key that stands twice, or not a mapping.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot read the spec {path}: {getattr(error, 'strerror', None) or 'not a text file'}"
        ) from None
    try:
        mapping = yaml.load(text, _UniqueKeyLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else "?"
        raise InputError(f"{path}, line {line}: {error.problem or 'not valid YAML'}") from None
    except yaml.YAMLError:
        raise InputError(f"{path} is not valid YAML") from None
    if not isinstance(mapping, dict):
        raise InputError(f"{path} has no keys; a spec starts like: length: 100")
    return mapping


class _UniqueKeyLoader(yaml.SafeLoader):
    """YAML's safe loader, which otherwise keeps the last of two equal keys without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = key_node.value
            if key in seen:
                raise yaml.MarkedYAMLError(problem=f"key {key!r} stands twice", problem_mark=key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _named(where: str, read: Any, *args: Any) -> Any:
    try:
        return read(*args)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _list(args: Mapping[str, Any], key: str) -> list[Any]:
    items = args.get(key) or []
    if not isinstance(items, list | tuple):
        raise InputError(f"{key} must be a list, each item starting with a dash")
    return list(items)


def _model_name(value: object, folder: Path) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"model={value!r} is not a name or a folder")
    return str(folder / value) if (folder / value).is_dir() else value


def _constraints(
    item: object, folder: Path, alphabet: Alphabet, parent: str, places: Places | None
) -> list[Constraint]:
    """The constraint that an item describes; one for each chain where it looks at neighbours and there are several."""
    if type(item) in REGISTRY.values():
        return [cast(Constraint, item)]
    item = resolve(item, folder, alphabet, parent)
    return [parse_constraint(each, alphabet) for each in (places.rewrite(item) if places else [item])]


def _bias(item: object, alphabet: Alphabet, places: Places | None) -> Bias:
    if places and isinstance(item, Mapping) and "positions" in item:
        item = {**item, "positions": places.translate(item["positions"])}
    return Bias.from_spec(item, alphabet)


def _keep(value: object, parent: str, places: Places | None) -> tuple[Region, ...]:
    regions = parse_regions(places.translate(value) if places else value)
    for region in regions:
        if max(region.first, region.last or 0) > len(parent):
            raise InputError(f"keep: {region} is out of range; the parent has {len(parent)} residues")
    return regions
