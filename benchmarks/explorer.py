"""What the explorer's benchmarks share: a real `clearning explore` in a process of its own, and a browser."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple


class Served(NamedTuple):
    url: str
    process: int


@contextmanager
def explorer(*runs: Path) -> Iterator[Served]:
    """`clearning explore` on a free port, ended afterwards."""
    command = [sys.executable, "-m", "clearning", "explore", *map(str, runs), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.STDOUT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            said = process.stdout.readline()
            found = re.search(r"http://\S+", said)
            if found is None:
                sys.exit(said + process.stdout.read())
            yield Served(found[0], process.pid)
        finally:
            process.terminate()


@contextmanager
def browser() -> Iterator[Any]:
    """Debian's Chromium, or the one that Playwright brought."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("chromium-browser")
        launched = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield launched
        finally:
            launched.close()


def load() -> str:
    """How busy the machine was, for the record."""
    return f"{os.getloadavg()[0]:.1f} runnable on {os.cpu_count()} cores"
