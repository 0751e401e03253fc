"""One writer to a folder: a lock that the system takes back when its process ends, in whatever way."""

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from clearning.errors import ClearningError, WriteFailed

try:
    import fcntl
except ImportError:  # Windows, where nobody is kept out
    fcntl = None

NAME = ".lock"


class Locked(ClearningError):
    """Another process is at work in a folder."""


@contextmanager
def locked(folder: Path, also: str = "") -> Iterator[int]:
    """Keep other writers out of a folder meanwhile; gives the descriptor that holds the lock.

    The file stays behind, and that means nothing: the system's lock on it dies with the last process that
    holds the descriptor, which no child inherits unless it is handed on. `also` names who that may be.
    """
    try:
        lock = os.open(folder / NAME, os.O_CREAT | os.O_RDWR, 0o644)
    except OSError as error:
        raise WriteFailed(folder / NAME, error) from error
    try:
        _take(lock, folder, also)
        with suppress(OSError):  # a full disk has no room for our name; the lock holds without
            os.ftruncate(lock, 0)
            os.write(lock, f"Process {os.getpid()} on {platform.node()}\n".encode())
        yield lock
    finally:
        os.close(lock)


def _take(lock: int, folder: Path, also: str) -> None:
    if fcntl is None:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.read(lock, 200).decode(errors="replace").strip() or "Another process"
        raise Locked(f"{holder}{also} is at work in {folder}: wait for its end, or stop it.") from error
    except OSError:
        return  # a file system without locks
