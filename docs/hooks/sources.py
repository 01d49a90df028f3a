"""Links that leave ``docs/`` work on the site as they do in the repository: their targets become pages of the site.

A page links to a file of the repository by its relative path (``../constraints/panels.yaml``). For every such target
the site gets a page ``source/<path>.md`` that shows the file, and the link is pointed there. Folders get a list of
their files, Markdown is shown as Markdown. A link whose target does not exist is a warning, so a strict build fails.
"""

import logging
import os
import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

LOG = logging.getLogger("mkdocs.plugins.sources")
LINK = re.compile(r"(?<!!)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s#:]+)(#[^)\s]*)?\)")
LANGUAGES = {".py": "python", ".yaml": "yaml", ".json": "json", ".sh": "bash", ".toml": "toml", ".csv": "text"}
HIDDEN = {"__init__.py", "__pycache__"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every file of the repository that a page links to, and for those that these link to."""
    docs, root = Path(config.docs_dir), Path(config.docs_dir).parent
    waiting = [
        target
        for file in files.documentation_pages()
        for target in _outside(file.content_string, f"{docs.name}/{file.src_uri}", docs.name)
    ]
    done: set[str] = set()
    while waiting:
        target = waiting.pop()
        if target in done or not (root / target).exists():
            continue
        done.add(target)
        text = _page(root / target, target)
        waiting += _outside(text, target, docs.name)
        waiting += [f"{target}/{name}" for name in _listed(root / target)] if (root / target).is_dir() else []
        files.append(File.generated(config, _uri(target), content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Point links at the pages that :func:`on_files` added."""
    del files
    docs = Path(config.docs_dir).name
    here = page.file.src_uri
    origin = here.removeprefix("source/").removesuffix(".md") if here.startswith("source/") else f"{docs}/{here}"

    def point(match: re.Match[str]) -> str:
        text, link, anchor = match[1], match[2], match[3] or ""
        target = posixpath.normpath(posixpath.join(posixpath.dirname(origin), link))
        if not (Path(config.docs_dir).parent / target).exists():
            if link.startswith("../") or here.startswith("source/"):
                LOG.warning("%s links to %s, which does not exist", origin, link)
            return match[0]
        inside = target.startswith(docs + "/")
        uri = target.removeprefix(docs + "/") if inside else _uri(target)
        return f"[{text}]({posixpath.relpath(uri, posixpath.dirname(here) or '.')}{anchor})"

    return "".join(part if code else LINK.sub(point, part) for part, code in _fences(markdown))


def _uri(target: str) -> str:
    return f"source/{target}.md"


def _outside(markdown: str, origin: str, docs: str) -> list[str]:
    """Targets of the links of a page that lie in the repository but not in ``docs``."""
    folder = posixpath.dirname(origin)
    links = [link for part, code in _fences(markdown) if not code for _, link, _ in LINK.findall(part)]
    targets = [posixpath.normpath(posixpath.join(folder, link)) for link in links]
    return [target for target in targets if not target.startswith((docs + "/", "../"))]


def _page(path: Path, target: str) -> str:
    if path.suffix == ".md":
        return path.read_text()
    aside = "---\nsearch: {exclude: true}\n---\n"
    if path.is_dir():
        names = _listed(path)
        return f"{aside}# {target}\n\n" + "".join(f"- [{name}]({os.path.basename(target)}/{name})\n" for name in names)
    fence = "````"
    return f"{aside}# {target}\n\n{fence}{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text()}\n{fence}\n"


def _listed(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name not in HIDDEN) if folder.is_dir() else []


def _fences(markdown: str) -> list[tuple[str, bool]]:
    """The text in pieces, and whether each is a fenced code block."""
    pieces = re.split(r"(^(?P<fence>`{3,}).*?^(?P=fence)[ ]*$)", markdown, flags=re.MULTILINE | re.DOTALL)
    return [(piece, index % 3 == 1) for index, piece in enumerate(pieces) if index % 3 != 2]
