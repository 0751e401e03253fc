"""What the command line says to people, apart from its results."""

import sys
from contextlib import suppress


def say(text: str) -> None:
    with suppress(OSError):  # a log on a full disk must not change how a command ends
        print(text, file=sys.stderr)
