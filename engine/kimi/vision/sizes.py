"""How large an image is once it has been made smaller, and how many rows it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass

IN_PATCH_LIMIT = 65_536
"""Patches of one image before it is made smaller, where nothing says otherwise."""
SIDE_LIMIT = 512
"""Patches along one side."""


@dataclass(frozen=True)
class ImageLimits:
    """How images are made smaller and padded.

    Args:
        patch: pixels on a side of a patch.
        merge: patches on a side of what becomes one row of the text model.
        patches: most patches of an image.
        side: most patches along one side.
    """

    patch: int = 14
    merge: int = 2
    patches: int = IN_PATCH_LIMIT
    side: int = SIDE_LIMIT

    def size(self, width: int, height: int) -> tuple[int, int]:
        """Width and height after scaling down; images are never enlarged."""
        longest = self.side * self.patch
        squares = max(1, width // self.patch) * max(1, height // self.patch)
        scale = min(1.0, math.sqrt(self.patches / squares), longest / width, longest / height)
        return min(max(1, int(width * scale)), longest), min(max(1, int(height * scale)), longest)

    def grid(self, width: int, height: int) -> tuple[int, int]:
        """Columns and rows of patches, padding included."""
        unit = self.patch * self.merge
        wide, high = self.size(width, height)
        return -(-wide // unit) * self.merge, -(-high // unit) * self.merge

    def rows(self, width: int, height: int) -> int:
        """Rows the image takes in the text model."""
        across, down = self.grid(width, height)
        return across * down // self.merge**2
