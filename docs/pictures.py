"""Pictures of the gallery that pages show, kept in `docs/_static`.

python docs/pictures.py   after the gallery was built, as `make docs-pictures` does
"""

from __future__ import annotations

import re
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent
SHOWN = re.compile(r"\]\((?:docs/)?_static/(\w+)_(\d)\.png\)")


def main() -> None:
    """Copy each picture with 256 colours, a third of the bytes."""
    for page in (HERE.parent / "README.md", *HERE.glob("*.md")):
        for name, number in SHOWN.findall(page.read_text("utf-8")):
            with Image.open(HERE / f"gallery/images/sphx_glr_{name}_00{number}.png") as picture:
                small = picture.convert("RGB").quantize(256, dither=Image.Dither.NONE)
            small.save(HERE / f"_static/{name}_{number}.png", optimize=True)


if __name__ == "__main__":
    main()
