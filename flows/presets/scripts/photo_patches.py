"""Write the folders of the preset `patches`: squares of the two photographs that scikit-learn ships, a class for each.

python flows/presets/scripts/photo_patches.py flows/presets/data/patches
"""

from __future__ import annotations

import sys
from pathlib import Path

from PIL import Image
from sklearn.datasets import load_sample_images

SIDE = 32


def main(target: Path) -> None:
    """Write every square, none of which overlaps another, as PNG."""
    images = load_sample_images()
    for path, pixels in zip(images.filenames, images.images, strict=True):
        folder = target / Path(path).stem
        folder.mkdir(parents=True, exist_ok=True)
        photo = Image.fromarray(pixels)
        for top in range(0, photo.height - SIDE + 1, SIDE):
            for left in range(0, photo.width - SIDE + 1, SIDE):
                photo.crop((left, top, left + SIDE, top + SIDE)).save(folder / f"{top:03d}_{left:03d}.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
