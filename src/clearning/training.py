"""THE loop: collect, update, evaluate, save; and how it stops and goes on."""

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from clearning import buffer as ring
from clearning.agent import Agent, NetworkBuilder
from clearning.agents import learner_kind
from clearning.agents.learner import Learner
from clearning.buffer import Buffer
from clearning.config import Config
from clearning.engine import Engine, build_engine, exploration, learning_rate, observe
from clearning.envs.external import EnvironmentFailed
from clearning.errors import ClearningError, WriteFailed
from clearning.evaluate import evaluate
from clearning.files import named_arrays
from clearning.networks import build_network
from clearning.recorded import RecordedWorld, Recording, groups
from clearning.rollout import own_dial
from clearning.runs import Counters, RunFolder

BUDGETS = ("episodes", "env_steps", "updates")  # of a config, by the names of their counters
RECENT = 100  # training episodes that "success on training goals" looks back on


class Status(NamedTuple):
    """What a progress display shows."""

    counters: Counters
    config: Config
    progress: float
    updates: int
    updates_per_second: float
    train_success: float | None
    last_evaluation: dict[str, Any] | None


@dataclass(frozen=True)
class Callbacks:
    """A user's own functions, each called with the agent as it is now and a record of what happened.

    One that returns False stops the training, which is saved and can be resumed.
    """

    after_episode: Callable[[Agent, dict[str, Any]], Any] | None = None
    after_evaluation: Callable[[Agent, dict[str, Any]], Any] | None = None
    after_checkpoint: Callable[[Agent, dict[str, Any]], Any] | None = None


class Interrupted(ClearningError):
    """The training was asked to stop before its end; what it had is saved."""

    def __init__(self, message: str, exit_code: int):
        super().__init__(message)
        self.exit_code = exit_code


def run_training(
    env: Any,
    config: Config,
    seed: int,
    folder: RunFolder | None = None,
    callbacks: Callbacks | None = None,
    network: NetworkBuilder | None = None,
    show: Callable[[Status], None] = lambda status: None,
    log_row: Callable[[dict[str, Any]], None] = lambda row: None,
    recording: Recording | None = None,
) -> Agent:
    """Train from the start, or from the folder's checkpoint, to the end of the config's budget.

    A training that starts from recorded episodes collects none; its checkpoint holds them too.
    """
    engine = build_engine(env, config)
    training = Training.start(env, config, seed, folder, network, recording)
    callbacks = callbacks or Callbacks()
    base = jax.random.key(seed)
    last_evaluation: dict[str, Any] | None = None
    times: deque[float] = deque(maxlen=20)  # seconds of an update in the latest iterations

    with catch_signals() as caught, training.told_what_is_kept():
        if training.counters.owes_evaluation:
            with training.saved_if_environment_fails():
                log_row(training.evaluate())
            training.save()
        while not training.counters.finished:
            began = time.perf_counter()
            count = training.counters
            key_collect, key_update = jax.random.split(jax.random.fold_in(base, count.iteration))
            epsilon = jnp.float32(exploration(config, count.episodes))
            with training.saved_if_environment_fails():
                training.buffer, episodes = engine.collect(
                    training.learner, training.buffer, key_collect, epsilon
                )
            training.learner = observe(training.learner, episodes)
            training.count_episodes(np.asarray(episodes.success), np.asarray(episodes.length))
            for i in range(training.updates_due(engine.chunk) // engine.chunk):
                key = jax.random.fold_in(key_update, i) if i else key_update
                training.update(engine, key, jnp.float32(training.progress))
                times.append(seconds_since(began) / ((i + 1) * engine.chunk))
            if count.finished:
                # Not iterations of their own: a training is never saved between its last episode and these.
                rounds = round(config.final_share * count.iteration)
                for i in range(rounds):
                    if caught:
                        told = f"Stopped in the final updates, not saved half done.{training.kept()}"
                        raise Interrupted(told, 128 + caught[0])
                    training.update(engine, jax.random.fold_in(key_update, i), jnp.float32((i + 1) / rounds))
                    show(training.status(per_second(times), last_evaluation))
            count.seconds += seconds_since(began)

            go_on = training.call(callbacks.after_episode, success=episodes.success, length=episodes.length)
            if training.is_due(config.evaluate_every):
                with training.saved_if_environment_fails():
                    last_evaluation = training.evaluate()
                log_row(last_evaluation)
                go_on &= training.call(callbacks.after_evaluation, **last_evaluation)
            show(training.status(per_second(times), last_evaluation))
            if training.is_due(config.checkpoint_every) or caught or not go_on:
                training.save()
                go_on &= training.call(callbacks.after_checkpoint, episodes=count.episodes)
            if (caught or not go_on) and not count.finished:
                raise Interrupted(training.farewell(), 128 + caught[0] if caught else 1)
    return training.agent()


@dataclass
class Training:
    """A training under way: its arrays, its counters, and what can be done with them."""

    env: Any
    config: Config
    folder: RunFolder | None
    custom_network: bool
    learner: Learner
    buffer: Buffer
    counters: Counters

    @classmethod
    def start(
        cls,
        env: Any,
        config: Config,
        seed: int,
        folder: RunFolder | None,
        network: NetworkBuilder | None,
        recording: Recording | None,
    ) -> "Training":
        spec = env.spec
        # Folded in at 2³¹ − 1, which no iteration reaches.
        key = jax.random.fold_in(jax.random.key(seed), 2**31 - 1)
        learner = learner_kind(spec, config).start((network or build_network)(spec, config, key))
        buffer = ring.init(spec, config.buffer_capacity)
        counters = Counters()
        if folder and folder.checkpoint_file.exists():
            learner, buffer, counters = folder.load_checkpoint(learner, buffer)
        elif recording:
            add = jax.jit(ring.add, donate_argnums=0)
            for episodes in groups(recording):
                learner, buffer = observe(learner, episodes), add(buffer, episodes)
            counters.episodes = len(recording.length)
            counters.env_steps = int(recording.length.sum()) * config.action_repeat
        if folder:
            folder.cut_metrics(counters.metrics_bytes)
        return cls(env, config, folder, network is not None, learner, buffer, counters)

    @property
    def progress(self) -> float:
        """How much of the budget is spent, from 0 to 1."""
        limits = [getattr(self.config, what) for what in BUDGETS]
        spent = [getattr(self.counters, what) for what in BUDGETS]
        return min(max(n / limit for n, limit in zip(spent, limits, strict=True) if limit), 1.0)

    def updates_due(self, chunk: int) -> int:
        """Updates that the episodes so far call for and that were not made yet; recorded ones always call."""
        config, count = self.config, self.counters
        if config.from_episodes:
            return chunk
        if count.episodes < config.random_episodes:
            return 0
        if not config.updates_per_step:
            return config.updates_per_episode * config.parallel_envs
        return int(config.updates_per_step * count.env_steps) - count.updates

    def count_episodes(self, success: np.ndarray, length: np.ndarray) -> None:
        count = self.counters
        count.iteration += 1
        count.episodes += len(success)
        count.new_steps = int(length.sum()) * self.config.action_repeat
        count.env_steps += count.new_steps
        count.new_updates = 0
        count.recent_success = (*count.recent_success, *success.tolist())[-RECENT:]
        count.finished = self.progress >= 1.0

    def update(self, engine: Engine, key: Array, rate_progress: Array) -> None:
        """Make one chunk of updates, `rate_progress` of the way down the learning rate."""
        progress = jnp.float32(self.progress)
        try:
            self.learner, metrics = engine.update(self.learner, self.buffer, key, progress, rate_progress)
        except EnvironmentFailed as error:  # its check; between collecting and updating nothing is saved
            raise ClearningError(f"{error}.{self.kept()}") from error
        self.counters.updates += engine.chunk
        self.counters.new_updates += engine.chunk
        self.counters.finished = self.progress >= 1.0
        losses = np.asarray(metrics["loss"])
        if not np.isfinite(losses).all():
            first = self.counters.updates - engine.chunk + int(np.isfinite(losses).argmin()) + 1
            self.refuse_divergence("loss", first)
        self.counters.losses = (*self.counters.losses, float(losses.mean()))

    def refuse_divergence(self, what: str, update: int) -> NoReturn:
        raise ClearningError(
            f"The {what} is no longer finite at update {update}: try a smaller --learning-rate.{self.kept()}"
        )

    def is_due(self, every: int) -> bool:
        """Whether this iteration crossed a multiple of what `every` counts, or was the last."""
        count = self.counters
        if self.config.every_counts == "steps":
            now, before = count.env_steps, count.env_steps - count.new_steps
        elif self.config.every_counts == "updates":
            now, before = count.updates, count.updates - count.new_updates
        else:
            now, before = count.episodes, count.episodes - self.config.parallel_envs
        return count.finished or now // every > before // every

    def evaluate(self) -> dict[str, Any]:
        """Run the test set, if there is an environment, and write a row of metrics."""
        began = time.perf_counter()
        count = self.counters
        count.owes_evaluation = True  # should the environment fail now, resuming begins with this row
        found = {}
        if not isinstance(self.env, RecordedWorld):
            dial = own_dial(self.config)
            found = evaluate(self.agent().network, self.env, self.config, dial, optimum=False).summary()
        count.seconds += seconds_since(began)
        row = {
            "episodes": count.episodes,
            "env_steps": count.env_steps,
            "updates": int(self.learner.updates),
            "train_success": float(np.mean(count.recent_success)) if count.recent_success else None,
            "loss": float(np.mean(count.losses)) if count.losses else None,
            **{f"eval_{k}": found.get(k) for k in ("success", "steps", "distance", "final_distance")},
            "eval_held": found.get("held"),
            "learning_rate": float(learning_rate(self.config, self.progress)),
            "seconds": count.seconds,
        }
        count.losses, count.owes_evaluation = (), False
        if self.folder:
            count.metrics_bytes = self.folder.append_metrics(row)
        return row

    def save(self) -> None:
        # The loss tells of an update that went astray only at the next one.
        if not all(np.isfinite(x).all() for x in named_arrays(self.learner).values()):
            self.refuse_divergence("network", self.counters.updates)
        if self.folder:
            # In this order: a kill between the two must not leave a finished run with an older agent.
            self.agent().save(self.folder.agent_file)
            self.folder.save_checkpoint(self.learner, self.buffer, self.counters)

    def agent(self) -> Agent:
        network = self.learner.target if self.config.act_with == "average" else self.learner.network
        return Agent(network, self.env.spec, self.config, self.custom_network)

    @contextmanager
    def saved_if_environment_fails(self) -> Iterator[None]:
        """What was trained before an environment failed is kept."""
        try:
            yield
        except EnvironmentFailed as error:
            self.save()
            raise ClearningError(f"{error}. {self.farewell()}") from error

    @contextmanager
    def told_what_is_kept(self) -> Iterator[None]:
        """A full disk, or a folder that is read-only now, costs what came after the last checkpoint."""
        try:
            yield
        except WriteFailed as error:
            assert self.folder  # nothing else is written to
            again = f"Once it can be written, go on with `clearning resume {self.folder.path}`."
            raise ClearningError(f"{error}{self.kept()} {again}") from error

    def kept(self) -> str:
        """What a training that cannot be saved as it is leaves behind."""
        if not self.folder:
            return ""
        if not self.folder.checkpoint_file.exists():
            return f" There was no checkpoint yet in {self.folder.path}."
        return f" The last checkpoint is kept in {self.folder.path}."

    def call(self, callback: Callable[[Agent, dict[str, Any]], Any] | None, **record: Any) -> bool:
        """Call a user's function; False if it asks to stop."""
        if callback is None:
            return True
        return callback(self.agent(), {**vars(self.counters), **record}) is not False

    def status(self, rate: float, last_evaluation: dict[str, Any] | None) -> Status:
        recent = self.counters.recent_success
        success = float(np.mean(recent)) if recent else None
        updates = int(self.learner.updates)
        return Status(
            replace(self.counters), self.config, self.progress, updates, rate, success, last_evaluation
        )

    def farewell(self) -> str:
        """How far a training came, and how to go on."""
        count = self.counters
        spent = f"{count.updates} updates" if self.config.from_episodes else f"{count.episodes} episodes"
        if not self.folder:
            return f"Stopped after {spent}, not saved: no folder."
        return f"Stopped after {spent}, saved; go on with `clearning resume {self.folder.path}`."


def seconds_since(began: float) -> float:
    """Seconds since a reading of the clock; none if it was set back."""
    return max(time.perf_counter() - began, 0.0)


def per_second(times: Sequence[float]) -> float:
    """A rate out of the seconds that each took; the median passes over the iterations that compile."""
    median = float(np.median(times)) if times else 0.0
    return 1 / median if median else 0.0


@contextmanager
def catch_signals() -> Iterator[list[int]]:
    """Collect SIGINT and SIGTERM instead of dying of them; a second SIGINT is no longer caught."""
    caught: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield caught  # only the main thread may set handlers
        return

    def handle(number: int, frame: Any) -> None:
        caught.append(number)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    previous = {n: signal.signal(n, handle) for n in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
