"""Plain layers, and layers that make C monotone in the horizon."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

GROUPS = PLANES = 4  # of a min-max network
ROWS = 3072
"""How many proposed actions, over all examples, should go through a critic at a time: from some 4,000 on XLA
takes three times as long for each."""


class MLP(eqx.Module):
    """Linear layers with ReLU between them, each optionally normalised before its ReLU.

    Works on the last axis. Many inputs of one example, such as proposed actions, are given at once: as a
    second `vmap` within that over the batch, normalising takes XLA four times as long.
    """

    layers: list[eqx.nn.Linear]
    norms: list[eqx.nn.LayerNorm]

    def __init__(self, sizes: Sequence[int], layer_norm: bool, key: Array):
        keys = jax.random.split(key, len(sizes) - 1)
        pairs = zip(sizes[:-1], sizes[1:], keys, strict=True)
        self.layers = [eqx.nn.Linear(a, b, key=k) for a, b, k in pairs]
        self.norms = [eqx.nn.LayerNorm(width) for width in sizes[1:-1]] if layer_norm else []

    def __call__(self, x: Array) -> Array:
        for i, layer in enumerate(self.layers[:-1]):
            x = _linear(layer, x)
            if self.norms:
                x = _normalised(self.norms[i], x)
            x = jax.nn.relu(x)
        return _linear(self.layers[-1], x)


def _linear(layer: eqx.nn.Linear, x: Array) -> Array:
    assert layer.bias is not None
    return x @ layer.weight.T + layer.bias


def _normalised(norm: eqx.nn.LayerNorm, x: Array) -> Array:
    assert norm.weight is not None
    assert norm.bias is not None
    apart = x - x.mean(-1, keepdims=True)
    scale = jax.lax.rsqrt((apart**2).mean(-1, keepdims=True) + norm.eps)
    return apart * scale * norm.weight + norm.bias


class Hazards(eqx.Module):
    """Logits of C that rise with h: C_h = 1 − Π_{k ≤ h} (1 − hazard_k), an MLP giving each hazard's logit."""

    mlp: MLP
    horizons: int = eqx.field(static=True)

    def __call__(self, x: Array) -> Array:
        # Hazards of 1 / (1 + H) to begin with, or long horizons would start out sure.
        outputs = self.mlp(x)
        z = outputs.reshape(*x.shape[:-1], -1, self.horizons) - jnp.log(self.horizons)
        return cumulated_logits(z).reshape(outputs.shape)


def cumulated_logits(hazards: Array) -> Array:
    """Logits of C for h = 1..H from the hazards' logits, on the last axis.

    With S_h = Σ_{k ≤ h} softplus(z_k) = −log(1 − C_h), the logit of C_h is log(e^S − 1) = S + log(1 − e^−S).
    """
    passed = jnp.cumsum(jax.nn.softplus(hazards), axis=-1) + 1e-30  # the logarithm of 0 has no slope
    return passed + jnp.log(-jnp.expm1(-passed))


class MinMax(eqx.Module):
    """Sill's monotone network (1998): the least over groups of the largest of planes that rise with h.

    The horizon is the last input. The planes' offsets may depend on the others in any way: by an MLP.
    """

    mlp: MLP
    log_slopes: Array  # (outputs, GROUPS, PLANES)

    def __init__(self, mlp: MLP, outputs: int, horizons: int):
        self.mlp = mlp
        # Groups from gentle, which bound C from above, to steep, which let it rise within a few steps.
        spread = jnp.linspace(0.0, jnp.log(horizons), GROUPS)
        self.log_slopes = jnp.tile(spread[:, None], (outputs, 1, PLANES))

    def __call__(self, x: Array) -> Array:
        # Offsets in units of the horizon: a steep plane need not move further than a gentle one.
        offsets = self.mlp(x[:-1]).reshape(self.log_slopes.shape)
        return (jnp.exp(self.log_slopes) * (x[-1] + offsets)).max(-1).min(-1)
