"""The endings of photo files."""

from pathlib import Path

# Formats that TensorFlow decodes.
PHOTO_ENDINGS = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".gif", ".bmp", ".webp")
# Formats that TensorFlow does not decode; `training.dataset.photo_bytes` makes them
# readable for it.
CONVERTED_ENDINGS = (".heic", ".heif", ".avif")
READ_ENDINGS = (*PHOTO_ENDINGS, *CONVERTED_ENDINGS)


def is_photo(file: Path) -> bool:
    return file.suffix.lower() in PHOTO_ENDINGS
