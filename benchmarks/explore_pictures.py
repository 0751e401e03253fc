"""Pictures of the explorer for the docs, from trained runs.

python benchmarks/explore_pictures.py CAR OTHER_CAR ROBOT [--out docs/images]
"""

import argparse
from pathlib import Path
from typing import Any

from explorer import browser, explorer

PATIENCE = 180_000  # milliseconds, for the search of the true answer on a busy machine
DESKTOP, PHONE = {"width": 1280, "height": 860}, {"width": 390, "height": 844}


def shoot(opened: Any, url: str, size: dict[str, int], path: Path, seen: str, count: int = 1) -> None:
    """Wait until so many of something are on the page, and take its picture."""
    page = opened.new_page(viewport=size, device_scale_factor=1)
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    page.wait_for_function("([what, n]) => document.querySelectorAll(what).length >= n", arg=[seen, count])
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
            path = given.out / "explore-phone.png"
            shoot(opened, f"{served.url}#h=15", PHONE, path, "path.way", 2)
            path = given.out / "explore.png"
            shoot(opened, f"{served.url}#h=15&outline=1", DESKTOP, path, "path.outline", 2)
        with explorer(given.robot) as served:
            path = given.out / "explore-episodes.png"
            shoot(opened, f"{served.url}#moment=9&h=12", DESKTOP, path, "path.learned", 2)


if __name__ == "__main__":
    main()
