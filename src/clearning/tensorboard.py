"""TensorBoard event files, when asked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from clearning.errors import UsageError, WriteFailed
from clearning.runs import RunFolder


@contextmanager
def tensorboard_rows(folder: RunFolder | None, wanted: bool) -> Iterator[Callable[[dict[str, Any]], None]]:
    """A function that writes a row of metrics as events; it does nothing unless wanted."""
    if not wanted or folder is None:
        yield lambda row: None
        return
    try:
        from tensorboard.summary import Writer
    except ImportError as error:
        raise UsageError("TensorBoard files need the extra: pip install 'clearning[tensorboard]'.") from error
    writer = Writer(str(folder.path / "tensorboard"))

    def write(row: dict[str, Any]) -> None:
        try:
            for name, value in row.items():
                if isinstance(value, float):
                    writer.add_scalar(name, value, step=row["env_steps"])
            writer.flush()
        except OSError as error:
            raise WriteFailed(folder.path / "tensorboard", error) from error

    try:
        yield write
    finally:
        with suppress(OSError):  # what the writer met before was told then
            writer.close()
