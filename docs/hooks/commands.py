"""The help texts of the commands on their page, as the installed program prints them.

A line ``<!-- help: design -->`` becomes what ``seqdiff design --help`` prints. One process prints all of a page.
"""

import os
import re
import subprocess
import sys
from typing import Any

MARK = re.compile(r"^<!-- help: (\w+) -->$", re.MULTILINE)
PRINT_ALL = """
import contextlib, sys
from seqdiff.cli import main
for command in sys.argv[1:]:
    with contextlib.suppress(SystemExit):
        main([command, "--help"])
    print("\\f")
"""


def on_page_markdown(markdown: str, **kwargs: Any) -> str:
    """Fill in the marks of a page."""
    del kwargs
    commands = MARK.findall(markdown)
    if not commands:
        return markdown
    done = subprocess.run(
        [sys.executable, "-c", PRINT_ALL, *commands],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"COLUMNS": "110", "JAX_PLATFORMS": "cpu"},
    )
    texts = dict(zip(commands, done.stdout.split("\f\n"), strict=False))
    return MARK.sub(lambda match: f"```text\n{texts[match[1]].strip()}\n```", markdown)
