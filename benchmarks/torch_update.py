"""The library's update, written plainly for eager PyTorch, to measure against."""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import nn

from clearning.config import Config


def torch_updates(config: Config, inputs: int, actions: int) -> Callable[[], None]:
    """A function that makes `updates_per_episode` updates on ready-made batches."""
    torch.manual_seed(0)
    torch.set_num_threads(torch.get_num_threads())
    every = config.form == "all-horizons"
    horizons, batch = config.max_horizon, config.batch_size

    def network() -> nn.Sequential:
        sizes = (inputs + (not every), *config.hidden)
        layers: list[nn.Module] = []
        for a, b in pairwise(sizes):
            layers += [nn.Linear(a, b), *([nn.LayerNorm(b)] if config.layer_norm else []), nn.ReLU()]
        return nn.Sequential(*layers, nn.Linear(sizes[-1], actions * (horizons if every else 1)))

    online, target = network(), network()
    target.load_state_dict(online.state_dict())
    optimiser = torch.optim.Adam(online.parameters(), lr=1e-3, fused=True)
    s, following = torch.randn(batch, inputs), torch.randn(batch, inputs)
    action = torch.randint(actions, (batch,))
    h = torch.randint(1, horizons + 1, (batch,))
    reached = (torch.rand(batch) < 0.1).float()

    def outputs(net: nn.Module, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
        if every:
            return net(x).view(batch, actions, horizons)
        return net(torch.cat([x, (h / horizons)[:, None]], 1))[:, :, None]

    def one_update() -> None:
        with torch.no_grad():
            greedy = outputs(online, following, h - 1).argmax(1, keepdim=True)
            value = torch.sigmoid(outputs(target, following, h - 1).gather(1, greedy)[:, 0])
            if every:
                value = torch.cat([reached[:, None], value[:, :-1]], 1)
            else:
                value = torch.where((h == 1)[:, None], reached[:, None], value)
            y = reached[:, None] + (1 - reached[:, None]) * value
        chosen = outputs(online, s, h)[torch.arange(batch), action]
        loss = nn.functional.binary_cross_entropy_with_logits(chosen, y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        with torch.no_grad():
            for p, q in zip(target.parameters(), online.parameters(), strict=True):
                p.lerp_(q, config.target_rate)

    def run() -> None:
        for _ in range(config.updates_per_episode):
            one_update()

    return run
