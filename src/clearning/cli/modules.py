"""Modules of the user's own that a command names."""

import os
import sys


def look_here_too() -> None:
    """Modules in the current folder can be named as well, as with `python -m`; installed ones go first."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())
