"""What all tests share: settings, statistics with a stated false-alarm rate, and random finite worlds."""

import os

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["MPLBACKEND"] = "Agg"
os.environ["NPROC"] = "1"  # of XLA's threads: with more, equal bits are not promised
# Most of the tests' time is compiling. What comes out is the same mathematics, made with less care for speed.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

import tempfile
from pathlib import Path

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from clearning.agent import Agent
from clearning.cli import main
from clearning.config import Config
from clearning.core.tabular import FiniteMDP
from clearning.envs import make_world
from clearning.networks import build_network
from clearning.runs import RunFolder

# Many tests trace the same program anew; compiled once, it is read back. Each process has its own folder,
# so that none reads what another has half written, and no command that a test kills writes to it.
_COMPILED = tempfile.TemporaryDirectory(prefix="clearning-compiled-")
jax.config.update("jax_compilation_cache_dir", _COMPILED.name)
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)

# The same examples on every run. `pytest --hypothesis-profile=explore` looks for new ones.
_SLOW_IS_FINE = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile(
    "clearning",
    deadline=None,
    max_examples=40,
    derandomize=True,
    suppress_health_check=_SLOW_IS_FINE,
)
settings.register_profile("explore", deadline=None, max_examples=400, suppress_health_check=_SLOW_IS_FINE)
# For `make mutation`: what tells a mutant does so within a few examples, and none need be made smaller.
_NO_SHRINKING = [Phase.explicit, Phase.generate]
settings.register_profile(
    "mutation", settings.get_profile("clearning"), max_examples=20, phases=_NO_SHRINKING
)
settings.load_profile("clearning")

# How often a statistical test would fail although the code is right, had its key not been fixed.
FALSE_ALARM = 1e-6


def assert_frequencies(observed: np.ndarray, probability: np.ndarray) -> None:
    """Counts come from a distribution (chi-square); what has no probability must not occur at all."""
    observed, probability = np.ravel(observed), np.ravel(probability)
    possible = probability > 0
    assert observed[~possible].sum() == 0
    expected = observed.sum() * probability[possible] / probability.sum()
    assert expected.min() >= 5, "too few draws for a chi-square test"
    assert stats.chisquare(observed[possible], expected).pvalue > FALSE_ALARM


def assert_share(count: int, total: int, probability: float) -> None:
    """So many of the total are what a probability would give (exact binomial test)."""
    assert stats.binomtest(int(count), int(total), probability).pvalue > FALSE_ALARM


@st.composite
def finite_mdps(
    draw,
    *,
    states: tuple[int, int] = (2, 5),
    actions: tuple[int, int] = (1, 3),
    deterministic: bool | None = None,
    identity: bool | None = None,
) -> FiniteMDP:
    """Worlds with some absorbing states, and states themselves or any sets of states as goals."""
    n, m = draw(st.integers(*states)), draw(st.integers(*actions))
    one_outcome = draw(st.booleans()) if deterministic is None else deterministic
    goals_are_states = draw(st.booleans()) if identity is None else identity
    if one_outcome:
        table = np.eye(n)[draw(hnp.arrays(np.int64, (n, m), elements=st.integers(0, n - 1)))]
    else:
        weight = draw(hnp.arrays(np.int64, (n, m, n), elements=st.integers(0, 3))).astype(np.float64)
        weight[..., 0] += weight.sum(-1) == 0
        table = weight / weight.sum(-1, keepdims=True)
    dead = draw(hnp.arrays(np.bool_, n))
    table[dead] = np.eye(n)[dead][:, None, :]
    goals = draw(st.integers(1, 3))
    reached = np.eye(n, dtype=bool) if goals_are_states else draw(hnp.arrays(np.bool_, (n, goals)))
    return FiniteMDP(table, reached, dead)


def untrained_run(folder: Path, config: Config, preset: str | None = None, seed: int = 0) -> Path:
    """A run folder whose agent has learned nothing."""
    run, spec = RunFolder(folder), make_world(config).spec
    run.create(config, seed, preset, {"custom_env": False, "custom_network": False})
    Agent(build_network(spec, config, jax.random.key(seed)), spec, config).save(run.agent_file)
    return folder


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a command."""
    try:
        main(list(arguments))
        code = 0
    except SystemExit as stop:
        code = int(stop.code or 0)
    out, err = capsys.readouterr()
    return code, out, err


def assert_refused(capsys, arguments: list[str], code: int, words: str) -> None:
    """A command ends with this exit code and a sentence that has these words."""
    found, _, err = run(capsys, *arguments)
    assert found == code
    assert words in err
    assert "Traceback" not in err


@pytest.fixture(scope="module", autouse=True)
def forget_programs():
    """A file's compiled programs serve few others, and are kept on disk; in memory they came to gigabytes."""
    yield
    jax.clear_caches()
