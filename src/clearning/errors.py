"""The errors a user meets: one sentence that says what is wrong and what would be right."""

from pathlib import Path


class ClearningError(Exception):
    """Something is wrong with the data, a file or the machine (exit code 1 on the command line)."""


class UsageError(ClearningError, ValueError):
    """The caller asked for something that does not exist or is out of range (exit code 2)."""


class WriteFailed(ClearningError):
    """The disk is full, the folder is read-only or the like; what was there before is as it was."""

    def __init__(self, path: Path, error: OSError):
        super().__init__(f"Could not write {path}: {error.strerror}.")
