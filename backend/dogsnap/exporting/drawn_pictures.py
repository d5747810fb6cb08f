"""Pictures of dogs that are drawn by code, for judging a network without
photos: the same on every machine.
"""

import numpy as np

COUNT = 24


def drawn_pictures(size: tuple[int, int], count: int = COUNT) -> np.ndarray:
    """Float32 (count, height, width, 3) in [0, 1]: a four-legged animal of two
    coat colours on a lawn, each in its own way.
    """
    random = np.random.Generator(np.random.PCG64(7))
    return np.stack([_picture(size, random) for _ in range(count)])


def _picture(size: tuple[int, int], random: np.random.Generator) -> np.ndarray:
    height, width = size
    y = np.linspace(0, 1, height, dtype=np.float32)[:, np.newaxis]
    x = np.linspace(0, 1, width, dtype=np.float32)[np.newaxis]
    horizon = random.uniform(0.3, 0.7)
    lawn = np.where(y > horizon, 1, 0)[..., np.newaxis]
    green = random.uniform((0.1, 0.3, 0.05), (0.4, 0.6, 0.3))
    picture = lawn * green + (1 - lawn) * random.uniform(0.5, 0.95, 3)
    brightness = random.uniform(0.05, 0.9)
    coat = brightness * np.array([1, random.uniform(0.6, 1), random.uniform(0.3, 0.9)])
    patch = random.uniform(0.05, 0.95, 3)
    wide = random.uniform(0.2, 0.3)
    high = random.uniform(0.1, 0.16)
    leg_y = 0.55 + 1.6 * high
    leg_height = 1.1 * high
    parts = [
        (0.5 - 0.8 * wide, leg_y, 0.03, leg_height, coat),
        (0.5 - 0.5 * wide, leg_y, 0.03, leg_height, coat),
        (0.5 + 0.5 * wide, leg_y, 0.03, leg_height, coat),
        (0.5 + 0.8 * wide, leg_y, 0.03, leg_height, coat),
        (0.5, 0.55, wide, high, coat),
        (0.5 + random.uniform(-0.4, 0.4) * wide, 0.53, 0.4 * wide, 0.7 * high, patch),
        (0.5 - 1.2 * wide, 0.45, 0.3 * wide, 0.02, coat),  # tail
        (0.5 + wide, 0.37, 0.1, 0.1, coat),  # head
        (0.5 + wide - 0.08, 0.33, 0.03, random.uniform(0.05, 0.11), patch),  # ears
        (0.5 + wide + 0.06, 0.33, 0.03, random.uniform(0.05, 0.11), patch),
        (0.5 + wide + 0.08, 0.41, 0.06, 0.04, patch),  # muzzle
        (0.5 + wide + 0.13, 0.4, 0.018, 0.015, np.full(3, 0.03)),
        (0.5 + wide + 0.03, 0.35, 0.012, 0.012, np.full(3, 0.03)),  # eye
    ]
    for centre_x, centre_y, radius_x, radius_y, colour in parts:
        inside = ((x - centre_x) / radius_x) ** 2 + ((y - centre_y) / radius_y) ** 2 <= 1
        picture = np.where(inside[..., np.newaxis], colour, picture)
    light = 0.75 + 0.5 * (x * random.uniform(0, 1) + y * random.uniform(-0.5, 0.5))
    grain = random.normal(0, random.uniform(0.02, 0.1), (*size, 1))
    return np.clip(picture * light[..., np.newaxis] + grain, 0, 1).astype(np.float32)
