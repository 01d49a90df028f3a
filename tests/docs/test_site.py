"""The site: it builds without a warning, needs nothing from elsewhere, and its tables are those of the program."""

import logging
import re
import tomllib
from html.parser import HTMLParser
from pathlib import Path

import pytest

from seqdiff.cli import main
from seqdiff.sampling.planners import PLANNERS

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\(([^)\s#:]+)(?:#[^)\s]*)?\)")


class Fetched(HTMLParser):
    """Addresses that a browser loads with a page: scripts, styles, pictures, frames."""

    def __init__(self):
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.addresses.append(named.get("src") or "")
        if tag == "link" and named.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.addresses.append(named.get("href") or "")


@pytest.mark.filterwarnings("ignore")  # of the site's generator and its plugins, about themselves
def test_the_site_builds_without_a_warning_and_is_whole(tmp_path: Path, monkeypatch, caplog):
    pytest.importorskip("mkdocs", reason="the site needs pip install 'seqdiff[docs]'")
    pytest.importorskip("material", reason="the site needs pip install 'seqdiff[docs]'")
    pytest.importorskip("mkdocstrings", reason="the site needs pip install 'seqdiff[docs]'")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    monkeypatch.chdir(ROOT)
    with caplog.at_level(logging.WARNING, logger="mkdocs"):
        build(load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True))
    assert [record.getMessage() for record in caplog.records if record.name.startswith("mkdocs")] == []
    pages = sorted(tmp_path.rglob("*.html"))
    assert len(pages) > 60
    for page in pages:
        found = Fetched()
        found.feed(page.read_text())
        for address in filter(None, found.addresses):
            assert "://" not in address, (page, address)
            if page.name != "404.html":
                assert (page.parent / address.partition("?")[0]).exists(), (page, address)
    styles = "".join(path.read_text() for path in tmp_path.rglob("*.css"))
    assert not re.search(r"url\(['\"]?(https?:)?//", styles)


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_links_work_in_the_repository(page: Path):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    dead = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    assert dead == []


def test_every_extra_is_in_the_table():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    rows = re.findall(r"^\| (`.*?) \|", (DOCS / "install.md").read_text(), re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert set(extras) <= named


def test_every_command_is_on_the_page(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    commands = re.findall(r"^    (\w+)  +\w", capsys.readouterr().out, re.MULTILINE)
    page = (DOCS / "cli.md").read_text()
    assert len(commands) >= 9
    assert [name for name in commands if f"## seqdiff {name}\n" not in page] == []


def test_every_planner_is_on_the_page():
    page = (DOCS / "samplers.md").read_text()
    assert [name for name in PLANNERS if f"`{name}`" not in page] == []
    assert f"{len(PLANNERS)} planners" in (DOCS / "comparison.md").read_text()
