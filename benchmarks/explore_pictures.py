"""Pictures of the explorer for the docs, from trained runs.

python benchmarks/explore_pictures.py CAR OTHER_CAR ROBOT [--out docs/images]
"""

import argparse
from pathlib import Path
from typing import Any

from explorer import browser, explorer

PATIENCE = 180_000  # milliseconds, for the search of the true answer on a busy machine
DESKTOP, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}


def shoot(opened: Any, url: str, size: dict[str, int], path: Path, seen: str) -> None:
    """Wait until a text is on the page, and take its picture."""
    page = opened.new_page(viewport=size, device_scale_factor=1)
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    page.wait_for_function("text => document.body.innerText.includes(text)", arg=seen)
    page.wait_for_timeout(1500)
    page.screenshot(path=path)
    page.close()
    print(path, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("car", type=Path)
    parser.add_argument("other", type=Path)
    parser.add_argument("robot", type=Path)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    given = parser.parse_args()
    with browser() as opened:
        with explorer(given.car, given.other) as served:
            shoot(opened, f"{served.url}#h=15", PHONE, given.out / "explore-phone.png", "by what was learned")
            shoot(opened, f"{served.url}#h=15&outline=1", DESKTOP, given.out / "explore.png", "truly")
        with explorer(given.robot) as served:
            shoot(
                opened,
                f"{served.url}#moment=9&h=12",
                DESKTOP,
                given.out / "explore-episodes.png",
                "It arrived",
            )


if __name__ == "__main__":
    main()
