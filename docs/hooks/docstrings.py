"""Docstrings for the site: reStructuredText roles become code, ``::`` before a literal block becomes ``:``.

``Example:`` becomes the section ``Examples:``, which is shown as code.
"""

import re
from typing import Any

import griffe

ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc):`~?(?:[\w.]*\.)?([\w]+)`")


class PlainRoles(griffe.Extension):
    """Rewrites every docstring as it is read."""

    def on_instance(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for each object of the package."""
        del kwargs
        if obj.docstring is not None:
            text = ROLE.sub(r"`\1`", obj.docstring.value)
            text = re.sub(r"^( *)Example:$", r"\1Examples:", text, flags=re.MULTILINE)
            obj.docstring.value = re.sub(r"::$", ":", text, flags=re.MULTILINE)
