"""The design spec: one schema for Python, YAML and notebooks. Data only: names of constraints, never import paths.

Reading refuses what it does not know, with the nearest name it does; ``to_mapping`` writes the spec back as it was
understood, so that a result can be made again from its own ``spec.yaml``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import yaml

from seqdiff.constraints.base import REGISTRY, Constraint, parse_constraint
from seqdiff.constraints.positional import Fixed
from seqdiff.core.alphabet import Alphabet
from seqdiff.core.contracts import Planner
from seqdiff.core.errors import InputError, unknown_key
from seqdiff.core.fields import check_keys, number, whole_number
from seqdiff.core.layout import Layout, Region, parse_regions
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.domains.protein.fasta import read_one
from seqdiff.sampling.planners import PLANNERS, EntropyBound

MAX_SEED = 2**32 - 1
_KEYS = ("model", "length", "n", "seed", "parent", "keep", "constraints", "bias", "sampling")


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
        planner: which positions to commit at a step.
        steps: most denoiser calls per design.
        temperature: of the denoiser's distribution, above 0.
        batch: designs sampled side by side; changes speed and memory, never a design.
    """

    planner: Planner = field(default_factory=EntropyBound)
    steps: int = 32
    temperature: float = 1.0
    batch: int = 16

    @classmethod
    def from_spec(cls, item: object) -> "Sampling":
        """Read ``{planner: entropy_bound, steps: 32, temperature: 1.0, batch: 16}``; every key may be left out."""
        args = check_keys(item, ("planner", "steps", "temperature", "batch"))
        values: dict[str, Any] = {}
        if "planner" in args:
            values["planner"] = _planner(args["planner"])
        for key in ("steps", "batch"):
            if key in args:
                values[key] = whole_number(args[key], key, low=1)
        if "temperature" in args:
            values["temperature"] = number(args["temperature"], "temperature", above=0)
        return cls(**values)

    def to_spec(self) -> dict[str, Any]:
        """What :meth:`from_spec` reads back."""
        name = next(name for name, planner in PLANNERS.items() if type(self.planner) is planner)
        options = {item.name: getattr(self.planner, item.name) for item in fields(PLANNERS[name])}
        planner = {name: options} if options else name
        return {"planner": planner, "steps": self.steps, "temperature": self.temperature, "batch": self.batch}


@dataclass(frozen=True, kw_only=True)
class DesignSpec:
    """A design problem and how to sample it.

    Attributes:
        model: bundled name or folder.
        length: shortest and longest design.
        n: number of designs.
        seed: design i depends on (seed, i) only.
        parent: letters of the protein that ``keep`` refers to; empty without one.
        keep: stretches of the parent that stay.
        constraints: what every design must obey, beside ``keep``.
        bias: what designs should rather have.
        sampling: how to sample.
    """

    length: tuple[int, int]
    model: str = "protein-small"
    n: int = 16
    seed: int = 0
    parent: str = ""
    keep: tuple[Region, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    bias: tuple[Bias, ...] = ()
    sampling: Sampling = Sampling()

    @classmethod
    def from_mapping(cls, mapping: object, *, folder: Path = Path(), alphabet: Alphabet = PROTEIN) -> "DesignSpec":
        """Read a spec.

        Args:
            mapping: keys as in the class's attributes; constraints as one-key mappings from name to arguments.
            folder: where relative file names are looked up first; then in the current folder.
            alphabet: the letters.

        Raises:
            InputError: an unknown key, or a value that cannot be used; names the key.
        """
        args = check_keys(mapping, _KEYS)
        values: dict[str, Any] = {}
        if "model" in args:
            values["model"] = _model_name(args["model"], folder)
        if "n" in args:
            values["n"] = whole_number(args["n"], "n", low=1)
        if "seed" in args:
            values["seed"] = whole_number(args["seed"], "seed")
            if values["seed"] > MAX_SEED:
                raise InputError(f"seed={args['seed']} is larger than {MAX_SEED}")
        parent = _parent(args["parent"], folder, alphabet) if "parent" in args else ""
        values["length"] = _length(args, parent)
        if ("keep" in args) != bool(parent):
            have, lack = ("parent", "keep") if parent else ("keep", "parent")
            raise InputError(f"{have!r} needs {lack!r} beside it, such as parent: protein.fasta and keep: 20-45")
        if parent:
            values |= {"parent": parent, "keep": _keep(args["keep"], parent)}
        values["constraints"] = tuple(
            item if type(item) in REGISTRY.values() else _named(f"constraints[{i}]", parse_constraint, item, alphabet)
            for i, item in enumerate(_list(args, "constraints"), 1)
        )
        values["bias"] = tuple(
            _named(f"bias[{i}]", Bias.from_spec, item, alphabet) for i, item in enumerate(_list(args, "bias"), 1)
        )
        if "sampling" in args:
            values["sampling"] = _named("sampling", Sampling.from_spec, args["sampling"])
        return cls(**values)

    def to_mapping(self) -> dict[str, Any]:
        """What :meth:`from_mapping` reads back to an equal spec."""
        low, high = self.length
        mapping: dict[str, Any] = {"model": self.model, "length": low if low == high else [low, high]}
        mapping |= {"n": self.n, "seed": self.seed}
        if self.parent:
            mapping |= {"parent": self.parent, "keep": ",".join(str(region) for region in self.keep)}
        mapping["constraints"] = [{item.name: item.to_spec()} for item in self.constraints]
        if self.bias:
            mapping["bias"] = [item.to_spec() for item in self.bias]
        return mapping | {"sampling": self.sampling.to_spec()}

    def to_yaml(self) -> str:
        """The spec as YAML."""
        return yaml.safe_dump(self.to_mapping(), sort_keys=False, default_flow_style=None, width=120)

    def layout(self, alphabet: Alphabet) -> Layout:
        """The canvas."""
        return Layout(alphabet, *self.length)

    def all_constraints(self) -> tuple[Constraint, ...]:
        """The constraints, the kept stretches of the parent first."""
        if not self.keep:
            return self.constraints
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


def _planner(item: object) -> Planner:
    name, options = (item, {}) if isinstance(item, str) else (None, item)
    if name is None:
        if not isinstance(options, Mapping) or len(options) != 1:
            raise InputError(
                f"planner={item!r}: write a name, or one name with options: {{entropy_bound: {{gamma: 0.1}}}}"
            )
        name, options = next(iter(options.items()))
    if name not in PLANNERS:
        raise unknown_key("planner", name, PLANNERS)
    known = tuple(item.name for item in fields(PLANNERS[name]))
    values = {key: number(value, key) for key, value in check_keys(options or {}, known).items()}
    return PLANNERS[name](**values)


def _model_name(value: object, folder: Path) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"model={value!r} is not a name or a folder")
    return str(folder / value) if (folder / value).is_dir() else value


def _beside(name: str, folder: Path) -> Path:
    """The file of that name in ``folder`` if there is one, else in the current folder."""
    return folder / name if (folder / name).exists() else Path(name)


def _parent(value: object, folder: Path, alphabet: Alphabet) -> str:
    """Letters of the parent: a FASTA file, ``{fasta: file, id: name}``, or the letters themselves."""
    if isinstance(value, Mapping):
        args = check_keys(value, ("fasta", "id"), required=("fasta",))
        return str(read_one(_beside(str(args["fasta"]), folder), args.get("id")).seq)
    text = str(value)
    if "." in text or "/" in text:
        return str(read_one(_beside(text, folder)).seq)
    if not text:
        raise InputError("parent is empty; name a FASTA file or write the letters")
    return _named("parent", lambda: alphabet.decode(alphabet.encode(text)))


def _length(args: Mapping[str, Any], parent: str) -> tuple[int, int]:
    if "length" not in args:
        if not parent:
            raise InputError("needs 'length', such as length: 100 or length: [90, 110]")
        return len(parent), len(parent)
    value = args["length"]
    ends = list(value) if isinstance(value, list | tuple) else [value, value]
    if len(ends) != 2:
        raise InputError(f"length={value!r}: write a number or [shortest, longest]")
    low, high = (whole_number(end, "length", low=1) for end in ends)
    if low > high:
        raise InputError(f"length={value!r} runs backwards; write [shortest, longest]")
    if parent and (low, high) != (len(parent), len(parent)):
        raise InputError(f"length={value!r}, but the parent has {len(parent)} residues; leave 'length' out")
    return low, high


def _keep(value: object, parent: str) -> tuple[Region, ...]:
    regions = parse_regions(value)
    for region in regions:
        if max(region.first, region.last or 0) > len(parent):
            raise InputError(f"keep: {region} is out of range; the parent has {len(parent)} residues")
    return regions
