"""What the command line says to people, apart from its results."""

import sys


def say(text: str) -> None:
    print(text, file=sys.stderr)
