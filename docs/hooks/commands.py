"""The help texts of the commands on their page, as the installed program prints them.

A line ``<!-- help: design -->`` becomes what ``seqdiff design --help`` prints.
"""

import os
import re
import subprocess
import sys
from typing import Any

MARK = re.compile(r"^<!-- help: ([\w ]*) -->$", re.MULTILINE)


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Fill in the marks of a page."""
    del kwargs
    return MARK.sub(lambda match: f"```text\n{_help(match[1].split())}\n```", markdown)


def _help(command: list[str]) -> str:
    words = [sys.executable, "-m", "seqdiff.cli", *command, "--help"]
    shown = subprocess.run(words, capture_output=True, text=True, check=True, env=os.environ | {"COLUMNS": "110"})
    return shown.stdout.rstrip().replace("usage: cli.py", "usage: seqdiff")
