"""Reliability diagrams: what an agent promises against what happens."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from clearning.plots.style import BLUE, TITLES, VERMILION, WIDTH, save, styled


def reliability_diagram(found: Mapping[str, Any]) -> Figure:
    """Share of goals reached in time by predicted probability; if recalibrated, on the held-out rollouts."""
    mended = found.get("recalibration")
    series = [("C as learned", found, BLUE)]
    if mended:
        series = [("C as learned", mended["before"], BLUE), (mended["kind"], mended["after"], VERMILION)]
    elif found["recalibrated_by"]:
        series = [(f"C, {found['recalibrated_by']}", found, BLUE)]
    with styled():
        figure = Figure((WIDTH / 2, WIDTH / 2 * 1.25), layout="constrained")  # its upper part is about square
        top, bottom = figure.subplots(2, 1, sharex=True, height_ratios=(4, 1))
        top.plot([0, 1], [0, 1], color="0.6", lw=0.9, ls="--", zorder=1)
        for i, (name, judged, color) in enumerate(series):
            points = {k: np.asarray(v) for k, v in judged["reliability"].items()}
            spread = [points["observed"] - points["low"], points["high"] - points["observed"]]
            scores = judged["overall"]
            label = f"{name}: ECE {scores['ece']:.3f}, Brier {scores['brier']:.3f}"
            top.errorbar(
                points["predicted"], points["observed"], np.maximum(spread, 0.0), color=color, marker="o",
                ms=4.5, mec="white", mew=0.6, lw=1.4, elinewidth=1.0, capsize=2, label=label, clip_on=False,
            )  # fmt: skip
            width = 0.08 / len(series)
            centre = (np.floor(np.minimum(points["predicted"], 0.999) * 10) + 0.5) / 10
            share = 100 * points["size"] / points["size"].sum()
            bottom.bar(centre + (i - (len(series) - 1) / 2) * width, share, width, color=color)
        top.set(ylabel="goals reached in time", xlim=(0, 1), ylim=(0, 1))
        top.legend(loc="upper left")
        bottom.set(xlabel="predicted probability", ylabel="rollouts, %")
        for ax in (top, bottom):
            ax.set_axisbelow(True)
            ax.grid(color="0.92", lw=0.6)
        name = found["env"]
        top.set_title(f"{TITLES.get(name, name)}, {series[0][1]['overall']['rollouts']:,} rollouts")
    return figure


def write_reliability(found: Mapping[str, Any], run: str, out: str | None = None) -> Path:
    """Write the diagram of a run, or of the first of several seeds."""
    path = Path(out) if out else Path(run) / "figures" / "reliability.png"
    return save(reliability_diagram(found.get("runs", [found])[0]), path)
