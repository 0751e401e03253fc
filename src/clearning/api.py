"""What a user imports: train, resume and load."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, overload

import gymnasium

from clearning.agent import Agent, NetworkBuilder
from clearning.agents import check_method
from clearning.config import Config, replace_settings
from clearning.ensemble import Ensemble
from clearning.envs import ExternalEnv, is_gymnasium_id, make_world, refuse_foreign_module
from clearning.episode_files import read_recording
from clearning.errors import ClearningError, UsageError
from clearning.fitness import refuse_unfit
from clearning.presets import gymnasium_defaults, recorded_defaults
from clearning.presets import preset as find_preset
from clearning.progress import progress_display
from clearning.recorded import RecordedWorld, Recording, fitted, offline_settings, world_of
from clearning.runs import RunFolder, check_seed, run_folders
from clearning.tensorboard import tensorboard_rows
from clearning.training import Callbacks, run_training


def train(
    preset: str | Config | None = None,
    *,
    env: Any = None,
    seed: int = 0,
    preset_name: str | None = None,
    out: str | Path | None = None,
    callbacks: Callbacks | None = None,
    network: NetworkBuilder | None = None,
    tensorboard: bool = False,
    quiet: bool = False,
    from_episodes: str | Path | None = None,
    **settings: Any,
) -> Agent:
    """Train and return the agent.

    preset: a preset's name or a whole Config; without either, the default settings (those for Gymnasium
        environments where `env` is one, or where there is none).
    env: a Gymnasium id, a gymnasium.Env (one episode at a time, so parallel_envs is then 1), or your own in
        JAX (see `clearning.GoalEnv`); else the config's.
    preset_name: what to call a Config in the run folder, where it started from a preset.
    out: a run folder to write metrics, checkpoints and the agent to; without it, nothing is written.
    network: a function (spec, config, key) -> network, for your own (see `clearning.Network`).
    from_episodes: learn from recorded episodes and collect none: an .npz or HDF5 file, or a Minari dataset
        (docs/offline.md). Without a preset or `env`, no environment is needed, only `reached_within`.
    settings: single settings by their names in `Config`.
    """
    if from_episodes is not None:
        settings = settings | {"from_episodes": str(from_episodes)}
    config, name = _settings(preset, env, preset_name, settings)
    env = None if isinstance(env, str) else env
    recording = read_recording(config.from_episodes) if config.from_episodes else None
    world = _world(config, env, recording)
    if recording:
        recording = fitted(recording, world)
        config = offline_settings(config, recording, world.spec)
    # Before any folder is made:
    check_method(world.spec, config)
    refuse_unfit(world, config, network)
    check_seed(seed)
    if env is not None:
        config = replace(config, env=world.spec.name)
    folder = RunFolder(out) if out is not None else None
    if tensorboard and folder is None:
        raise UsageError("TensorBoard files need a run folder: give `out`.")
    custom = {"custom_env": env is not None, "custom_network": network is not None}
    with folder.locked() if folder else nullcontext():
        if folder:
            folder.create(config, seed, name, custom)
        return _run(world, config, seed, folder, callbacks, network, tensorboard, quiet, recording)


def _world(config: Config, env: Any, recording: Recording | None) -> Any:
    """The environment, or where there is none, what the recorded episodes show of it."""
    if recording and env is None and not config.env:
        return world_of(recording, config.reached_within)
    return make_world(config, env)


def _settings(
    preset: str | Config | None, env: Any, preset_name: str | None, settings: dict[str, Any]
) -> tuple[Config, str | None]:
    """The config that was asked for, and the name of the preset that it is, or started from."""
    if isinstance(env, str):
        settings = settings | {"env": env}
    named = settings.get("env", "")
    gym = isinstance(env, gymnasium.Env) or is_gymnasium_id(named)
    if isinstance(preset, Config):
        start = preset
    elif preset:
        start = find_preset(preset)
    elif settings.get("from_episodes") and env is None and not named:
        start = recorded_defaults()
    else:
        start = gymnasium_defaults() if gym else Config()
    other = env is not None and named != start.env
    if other:  # another environment has other options, and is not what the preset is for
        settings = {"env_options": {}} | settings
    if isinstance(env, gymnasium.Env) and not isinstance(preset, Config):
        settings = {"parallel_envs": 1} | settings
    name = preset if isinstance(preset, str) else preset_name
    return replace_settings(start, settings), None if other else name


def resume(
    run: str | Path,
    *,
    env: Any = None,
    callbacks: Callbacks | None = None,
    network: NetworkBuilder | None = None,
    tensorboard: bool = False,
    quiet: bool = False,
) -> Agent:
    """Go on with a run from its last checkpoint; a finished one just gives its agent."""
    folder = RunFolder(run)
    config, seed, record = folder.read()
    if record.get("custom_env") and env is None:
        raise UsageError(f"{run} was trained on your own environment: call clearning.resume with `env=`.")
    if record.get("custom_network") and network is None:
        raise UsageError(f"{run} has a custom network: call clearning.resume with `network=`.")
    if env is None:
        refuse_foreign_module(config)
    recording = None
    if config.from_episodes and not (folder.checkpoint_file.is_file() and folder.agent_file.is_file()):
        recording = read_recording(config.from_episodes)  # else the checkpoint has it
    if config.env or env is not None or recording:
        world = _world(config, env, recording)
    else:
        world = RecordedWorld(load(run, network).spec, config.reached_within)
    folder.refuse_changed_spaces(world.spec)
    if recording:
        recording = fitted(recording, world)
        if offline_settings(config, recording, world.spec) != config:
            raise ClearningError(f"{config.from_episodes} is no longer what {run} began with: train anew.")
    check_method(world.spec, config)
    refuse_unfit(world, config, network)
    with folder.locked():
        return _run(world, config, seed, folder, callbacks, network, tensorboard, quiet, recording)


@overload
def load(run: str | Path, network: NetworkBuilder | None = None) -> Agent: ...
@overload
def load(run: list[Any] | tuple[Any, ...], network: NetworkBuilder | None = None) -> Ensemble: ...
def load(run: Any, network: NetworkBuilder | None = None) -> Any:
    """The trained agent of a run folder or agent file, without any environment; several make an ensemble."""
    if isinstance(run, list | tuple):
        return Ensemble([load(one, network) for one in run])
    path = Path(run)
    if path.is_dir():
        folder = run_folders(path)[0] if (path / "config.json").is_file() else RunFolder(path)
        folder.read()
        if not folder.agent_file.is_file():
            raise UsageError(f"{run} has no agent yet: it comes with the first checkpoint.")
        path = folder.agent_file
    return Agent.load(path, network)


def _run(
    env: Any,
    config: Config,
    seed: int,
    folder: RunFolder | None,
    callbacks: Callbacks | None,
    network: NetworkBuilder | None,
    tensorboard: bool,
    quiet: bool,
    recording: Recording | None,
) -> Agent:
    title = f"{env.spec.name}, seed {seed}"
    try:
        with progress_display(title, quiet) as show, tensorboard_rows(folder, tensorboard) as log_row:
            return run_training(env, config, seed, folder, callbacks, network, show, log_row, recording)
    finally:
        if isinstance(env, ExternalEnv):
            env.close()
