"""The errors a user meets: one sentence that says what is wrong and what would be right."""


class ClearningError(Exception):
    """Something is wrong with the data, a file or the machine (exit code 1 on the command line)."""


class UsageError(ClearningError, ValueError):
    """The caller asked for something that does not exist or is out of range (exit code 2)."""
