"""Importing is cheap: the front door loads no JAX, and no module touches a device."""

import subprocess
import sys

_LAZY = "import sys, seqdiff; assert 'jax' not in sys.modules and 'numpy' not in sys.modules; seqdiff.design"
_QUIET = """
import importlib, pkgutil
import seqdiff
names = [info.name for info in pkgutil.walk_packages(seqdiff.__path__, "seqdiff.")]
for name in names:
    importlib.import_module(name)
from jax._src import xla_bridge
assert len(names) > 50, names
assert not xla_bridge.backends_are_initialized()
"""


def test_the_front_door_is_lazy():
    subprocess.run([sys.executable, "-c", _LAZY], check=True)


def test_importing_every_module_touches_no_device():
    subprocess.run([sys.executable, "-c", _QUIET], check=True)
