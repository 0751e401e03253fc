"""One fault each, done to a real training: what it must say, what must be left, and how it goes on."""

import fcntl
import os
import signal
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from chaos_runs import Process, World, check_last_good, require, run_to_the_end

Fault = Callable[[World], None]


def begun(world: World, folder: Path, checkpoints: int = 3) -> Process:
    """A training that has written a few checkpoints."""
    log = world.folder / f"{folder.parent.name}-{folder.name}.log"  # not on a disk that will be full
    process = Process(world.train(folder), log)
    process.after_checkpoints(folder, checkpoints)
    require(process.running(), f"it ended too soon: {log.read_text()[-300:]}")
    return process


def ends_with(process: Process, code: int, *words: str) -> None:
    """The exit code, and one last sentence that says these things."""
    found, told = process.end()
    last = told.strip().splitlines()[-1] if told.strip() else ""
    require(found == code, f"exit code {found} instead of {code}: {last}")
    require("Traceback" not in told, f"a traceback: {last}")
    for word in words:
        require(word in last, f"'{word}' is not in: {last}")


def by_signal(number: int, code: int, twice: bool = False) -> Fault:
    def fault(world: World) -> None:
        folder = world.new_folder()
        process = begun(world, folder)
        process.kill(number)
        if twice:
            time.sleep(0.005)  # signals that come together are one
            process.kill(number)
        ends_with(process, code, "clearning: ")
        check_last_good(folder)
        run_to_the_end(folder, world)

    return fault


def full_disk(world: World) -> None:
    folder = world.folder / "disk" / "run"
    folder.parent.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder.parent], check=True)
    try:
        process = begun(world, folder)
        filler = folder.parent / "filler"
        with open(filler, "wb", buffering=0) as file:
            while process.running():  # what a checkpoint frees when it replaces the last is filled again
                try:
                    file.write(bytes(4096))
                except OSError:
                    time.sleep(0.01)
        ends_with(process, 1, "Could not write", "No space left on device", "is kept", "clearning resume")
        check_last_good(folder)
        filler.unlink()
        run_to_the_end(folder, world)
    finally:
        subprocess.run(["umount", folder.parent], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Nobody creates or renames a file there; for root, whom permissions do not stop, by the file's flags."""
    get, change, immutable = 0x80086601, 0x40086602, 0x10
    handle = os.open(folder, os.O_RDONLY)
    mode = os.fstat(handle).st_mode
    try:
        if os.geteuid():
            os.fchmod(handle, 0o500)
        else:
            flags = struct.unpack("l", fcntl.ioctl(handle, get, bytes(8)))[0]
            fcntl.ioctl(handle, change, struct.pack("l", flags | immutable))
        yield
    finally:
        if os.geteuid():
            os.fchmod(handle, mode)
        else:
            fcntl.ioctl(handle, change, struct.pack("l", flags))
        os.close(handle)


def read_only_folder(world: World) -> None:
    folder = world.new_folder()
    process = begun(world, folder)
    with read_only(folder):
        ends_with(process, 1, "Could not write", "is kept", "clearning resume")
    check_last_good(folder)
    run_to_the_end(folder, world)


def two_processes(world: World) -> None:
    folder = world.new_folder()
    first = begun(world, folder)
    first.kill(signal.SIGSTOP)  # or it would be at its end before the second has looked
    for words in (world.resume(folder), world.train(folder)):
        second = Process(words, folder.with_suffix(".second.log"))
        ends_with(second, 1, f"Process {first.pid} on", "is at work in")
    first.kill(signal.SIGCONT)
    code, told = first.end()
    require(code == 0, f"the first ended with {code}: {told[-300:]}")
    run_to_the_end(folder, world)


def jumping_clock(world: World) -> None:
    """By hours and days, forth and back, at every reading."""
    folder = world.new_folder()

    def prepare() -> None:
        for name in ("time", "perf_counter"):
            setattr(time, name, _jumping(getattr(time, name)))

    code, told = Process(world.train(folder), folder.with_suffix(".log"), prepare).end()
    require(code == 0, f"ended with {code}: {told[-300:]}")
    run_to_the_end(folder, world)


def _jumping(clock: Callable[[], float]) -> Callable[[], float]:
    calls = [0]

    def read() -> float:
        calls[0] += 1
        return clock() + (0, 3600, -86400, 1e6, -1e6)[calls[0] % 5]

    return read


def divergence(world: World) -> None:
    """A learning rate that no network survives: nothing that is not finite is ever saved."""
    folder = world.new_folder()
    process = Process(world.train(folder, learning_rate=1e38), folder.with_suffix(".log"))
    ends_with(process, 1, "is no longer finite at update ", "smaller --learning-rate")
    if (folder / "checkpoint.safetensors").exists():
        check_last_good(folder)
        again = Process(world.resume(folder), folder.with_suffix(".log"))
        ends_with(again, 1, "is no longer finite at update ")


def broken_environment(how: str, words: str) -> Fault:
    def fault(world: World) -> None:
        folder = world.new_folder()
        process = begun(world, folder)
        world.flag.write_text(how)
        try:
            ends_with(process, 1, words, "saved; go on with `clearning resume")
        finally:
            world.flag.unlink()
        check_last_good(folder)
        run_to_the_end(folder, world)

    return fault


def killed_worker(world: World) -> None:
    folder = world.new_folder()
    process = begun(world, folder)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[0]), signal.SIGKILL)
    ends_with(process, 1, "ended by signal 9", "saved; go on with `clearning resume")
    run_to_the_end(folder, world)


ANYWHERE: dict[str, Fault] = {
    "SIGTERM": by_signal(signal.SIGTERM, 143),
    "SIGINT twice": by_signal(signal.SIGINT, 130, twice=True),
    "disk full": full_disk,
    "folder made read-only": read_only_folder,
    "a second process on the run folder": two_processes,
    "a clock that jumps": jumping_clock,
    "divergence": divergence,
}
WORKERS: dict[str, Fault] = {
    "a worker that raises": broken_environment("raise", "raised RuntimeError: the motor is hot"),
    "a worker that hangs": broken_environment("hang", "did not answer for 20 s"),
    "a worker that shows NaN": broken_environment("nan", "showed NaN or infinity in its 'observation'"),
    "a worker that shows a wrong shape": broken_environment("shape", "where its space says (10,)"),
    "a killed worker": killed_worker,
}
NEEDS_ROOT = ("disk full",)  # to mount a small disk
