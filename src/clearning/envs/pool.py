"""Copies of a Gymnasium environment, stepped here or in processes of their own."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

from clearning.envs import worker
from clearning.envs.worker import EnvGroup, Seen, told
from clearning.errors import ClearningError
from clearning.types import EnvSpec

PATIENCE = 5.0  # seconds a worker has to end by itself
OPENING = 300.0  # seconds it has at least to import and open the environments


class EnvironmentFailed(ClearningError):
    """An environment raised, died, hung or showed what is no number, in the middle of a training."""


class Pool:
    """Environments numbered 0..count−1, spread over groups that work at the same time."""

    def __init__(self, spec: EnvSpec, count: int, groups: "Sequence[LocalGroup | RemoteGroup]"):
        self.spec, self.count, self.groups = spec, count, groups
        self.owner = np.array_split(np.arange(count), len(groups))
        self.seeds = np.zeros(0, np.int64)
        self.steps = 0

    def reset(self, seeds: np.ndarray) -> Seen:
        """Start an episode in the first environments, one for each seed."""
        self.seeds, self.steps = seeds, 0
        parts = [(g, seeds[mine[mine < len(seeds)]]) for g, mine in zip(self.groups, self.owner, strict=True)]
        return self._ask(
            np.arange(len(seeds)), [(g, "reset", part.tolist()) for g, part in parts if len(part)]
        )

    def step(self, which: np.ndarray, actions: np.ndarray) -> Seen:
        """Step some environments, whose numbers must ascend."""
        self.steps += 1
        asked = []
        for group, mine in zip(self.groups, self.owner, strict=True):
            chosen = (which >= mine[0]) & (which <= mine[-1])
            if chosen.any():
                asked.append((group, "step", (which[chosen] - mine[0]).tolist(), actions[chosen]))
        return self._ask(which, asked)

    def _ask(self, which: np.ndarray, requests: list[tuple]) -> Seen:
        try:
            for group, *request in requests:
                group.send(request)
            answers = [group.receive() for group, *_ in requests]
        except EnvironmentFailed as error:
            raise EnvironmentFailed(f"{self.spec.name}: {error}, {self._moment()}") from error
        spec = self.spec
        sizes = {"observation": spec.observation_size, "achieved": spec.goal_size, "desired": spec.goal_size}
        for name, size in sizes.items():
            for answer in answers:
                self._check_size(name, size, getattr(answer, name))
        seen = Seen(*(np.concatenate(column) for column in zip(*answers, strict=True)))
        for name in sizes:
            finite = np.isfinite(getattr(seen, name)).all(1)
            if not finite.all():
                moment = f"{self._moment()} with seed {self.seeds[which[finite.argmin()]]}"
                raise EnvironmentFailed(f"{spec.name} showed NaN or infinity in its {_part(name)}, {moment}")
        return seen

    def _check_size(self, name: str, size: int, found: np.ndarray) -> None:
        if found.shape[1:] != (size,):
            raise EnvironmentFailed(
                f"{self.spec.name} showed shape {found.shape[1:]} in its {_part(name)} where its space says "
                f"({size},), {self._moment()}"
            )

    def _moment(self) -> str:
        return f"at step {self.steps} of an episode" if self.steps else "at a reset"

    def close(self) -> None:
        for group in self.groups:
            group.close()


def _part(name: str) -> str:
    return f"'{name}'" if name == "observation" else f"'{name}_goal'"


class LocalGroup:
    """Environments stepped in this process."""

    def __init__(self, group: EnvGroup):
        self.group = group
        self.request: list[Any] = []

    def send(self, request: list[Any]) -> None:
        self.request = request

    def receive(self) -> Seen:
        name, *arguments = self.request
        try:
            return getattr(self.group, name)(*arguments)
        except Exception as error:
            raise EnvironmentFailed(f"the environment raised {told(error)}") from error

    def close(self) -> None:
        """The environment is the user's to close."""


class RemoteGroup:
    """Environments stepped in a process of their own."""

    def __init__(self, name: str, options: dict[str, Any], count: int, action_repeat: int, timeout: float):
        here, there = Pipe()
        self.timeout = timeout
        recipe = {"file": there.fileno(), "name": name, "options": options, "count": count}
        recipe |= {"action_repeat": action_repeat, "registered": worker.registration(name)}
        command = [sys.executable, "-P", str(Path(worker.__file__)), json.dumps(recipe)]
        path = os.pathsep.join(p or os.getcwd() for p in sys.path)
        self.process = subprocess.Popen(
            command,
            pass_fds=[there.fileno()],
            env=os.environ | {"PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=2,  # what an environment prints must not mix with our own output
        )
        there.close()
        self.connection: Connection = here  # pyright: ignore[reportAttributeAccessIssue]
        self.ready = False

    def send(self, request: list[Any]) -> None:
        if not self.ready:
            self.receive_ready()
        try:
            self.connection.send(tuple(request))
        except OSError:
            self._died()

    def receive_ready(self) -> None:
        answer = self._answer(max(self.timeout, OPENING))
        if answer != "ready":
            raise EnvironmentFailed(f"a worker could not open the environment: {answer}")
        self.ready = True

    def receive(self) -> Seen:
        answer = self._answer(self.timeout)
        if isinstance(answer, str):
            raise EnvironmentFailed(f"the environment raised {answer}")
        return Seen(*answer)

    def _answer(self, timeout: float) -> Any:
        try:
            if self.connection.poll(timeout):
                return self.connection.recv()
        except (EOFError, OSError):
            return self._died()
        self.process.kill()
        raise EnvironmentFailed(
            f"a process that stepped the environment did not answer for {timeout:g} s (see env_timeout)"
        )

    def _died(self) -> Any:
        try:
            code = self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            raise EnvironmentFailed("a process that stepped the environment no longer answers") from None
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        raise EnvironmentFailed(f"a process that stepped the environment ended {how}")

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.connection.send(("close",))
        self.connection.close()
        try:
            self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
