"""The data set reader: the official layout, bad photos, folders that do not belong."""

import dataclasses
import io
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf
from dogsnap.serving.photos import preprocessing
from dogsnap.training import dataset
from dogsnap.training.evaluation.labelled_photos import find_examples
from lab import boxes, photo_lists, picture_views
from PIL import Image
from support import colour_photos
from support.photos import BREEDS, make_data_set, make_frames


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data_set(tmp_path / "dogs", per_breed=6, test_per_breed=2)


def test_classes_are_the_sorted_folders_named_by_the_breeds_file_and_else_by_themselves(
    data, tmp_path
) -> None:
    assert dataset.breed_folders(data) == sorted(BREEDS)
    places = {
        example.path.parent.name: example.breed for example in dataset.read_list(data, "train_list")
    }
    assert places == {name: place for place, name in enumerate(sorted(BREEDS))}
    named = {"id": "n00000001", "name": "red hound of Tests", "name_zh": "红猎犬"}
    (tmp_path / "breeds.json").write_text(json.dumps([named]))
    labels = photo_lists.labels_of(dataset.breed_folders(data), tmp_path / "breeds.json")
    assert labels[0] == named
    assert labels[1] == {"id": "n00000002", "name": "green terrier", "name_zh": "green terrier"}


def test_the_validation_cut_takes_the_same_number_of_every_breed_and_is_repeatable(
    data: Path,
) -> None:
    examples = dataset.read_list(data, "train_list")
    training, validation = dataset.split_validation(examples, 2, seed=7)
    assert sorted(example.breed for example in validation) == [0, 0, 1, 1, 2, 2]
    assert set(training).isdisjoint(validation)
    assert len(training) + len(validation) == len(examples)
    assert dataset.split_validation(examples[::-1], 2, seed=7) == (training, validation)
    assert dataset.split_validation(examples, 2, seed=8)[1] != validation


def test_photos_that_cannot_be_read_are_named_and_skipped_and_none_is_refused(data: Path) -> None:
    examples = dataset.read_list(data, "train_list")
    first = [example.path for example in examples[:6]]
    with Image.open(first[0]) as photo:
        photo.save(first[0], "TIFF")  # which Pillow reads, and TensorFlow does not
        photo.save(first[1], "WEBP", save_all=True, append_images=[photo.rotate(90)])
        photo.save(first[2], "WEBP")
    first[3].unlink()
    first[4].write_bytes(first[4].read_bytes()[: first[4].stat().st_size // 2])
    heic = as_heic(first[5])
    heic.write_bytes(heic.read_bytes()[:200])
    examples[5] = dataset.Example(heic, 0)
    said: list[str] = []
    assert dataset.readable(examples, said.append) == [examples[2], *examples[6:]]
    assert [line.split(":")[0] for line in said] == [
        f"skipped {path}" for path in (*first[:2], *first[3:5], heic)
    ]
    for line, fault in zip(
        said[1:4], ("an animated WebP", "no such file", "truncated"), strict=True
    ):
        assert fault in line
    with pytest.raises(ValueError, match=f"{heic.name}: "):
        dataset.photo_bytes(heic)
    with pytest.raises(dataset.DatasetError, match="none of 1 photos could be read"):
        dataset.readable(examples[3:4], said.append)


def as_heic(path: Path) -> Path:
    """The photo as a HEIC file in its place."""
    with Image.open(path) as photo:
        photo.convert("RGB").save(path.with_suffix(".HEIC"), "HEIF", quality=95)
    path.unlink()
    return path.with_suffix(".HEIC")


def read_for_training(photo: Path) -> np.ndarray:
    read = tf.data.Dataset.from_tensors(str(photo)).map(picture_views.read)
    return read.get_single_element().numpy()


def test_phones_heic_photos_are_found_read_and_decoded_for_training(data: Path) -> None:
    first = dataset.read_list(data, "train_list")[0].path
    before = read_for_training(first)
    heic = as_heic(first)
    labels = [{"id": name.partition("-")[0], "name": name} for name in sorted(BREEDS)]
    for examples in (
        find_examples(data, None, labels, pytest.fail),
        [dataset.Example(each, 0) for each in dataset.photos_below(data)],
    ):
        assert heic in [each.path for each in dataset.readable(examples, pytest.fail)]
    read = read_for_training(heic)
    assert read.shape == before.shape
    assert abs(read.mean(axis=(0, 1)) - before.mean(axis=(0, 1))).max() < 5
    assert (
        preprocessing.decode(tf.constant(dataset.photo_bytes(heic))).numpy().shape == before.shape
    )


@pytest.mark.parametrize("orientation", [3, 6, 8])
def test_photos_that_a_camera_stored_turned_are_measured_and_learned_upright(
    tmp_path: Path, orientation: int
) -> None:
    tall = Image.new("RGB", (40, 60), "red")
    tall.paste("blue", (0, 0, 40, 20))
    turned = colour_photos.stored(tall, orientation)
    file = tmp_path / "turned.jpg"
    file.write_bytes(colour_photos.with_orientation(turned, orientation, quality=95))
    pixels = preprocessing.decode(tf.constant(dataset.photo_bytes(file))).numpy()
    assert pixels.shape == (60, 40, 3)
    assert pixels[5, 20, 2] > pixels[5, 20, 0]  # blue is above
    plain = tmp_path / "plain.jpg"
    tall.save(plain)
    assert dataset.photo_bytes(plain) == plain.read_bytes()


def test_the_archives_of_stanford_are_read_as_they_unpack_once_their_lists_are_text(
    data: Path, tmp_path: Path
) -> None:
    with pytest.raises(dataset.DatasetError, match="expected the Stanford Dogs layout"):
        dataset.breed_folders(tmp_path)
    (data / "images").rename(data / "Images")
    assert dataset.breed_folders(data) == sorted(BREEDS)
    assert all(example.path.is_file() for example in dataset.read_list(data, "train_list"))
    (data / "train_list.txt").unlink()
    with pytest.raises(dataset.DatasetError, match=r"loadmat reads train_list\.mat"):
        dataset.read_list(data, "train_list")


def test_every_fold_has_as_many_photos_of_each_breed_and_a_crop_is_with_its_picture(
    data: Path,
) -> None:
    crops = dataset.read_list(data, "train_list")
    pictures = [dataclasses.replace(each, path=each.path.with_suffix(".webp")) for each in crops]
    parts = photo_lists.folds([*crops, *reversed(pictures)])
    assert (parts[: len(crops)] == parts[len(crops) :][::-1]).all()
    for breed in range(3):
        inside = [part for part, each in zip(parts, crops, strict=False) if each.breed == breed]
        assert max(Counter(inside).values()) - min(Counter(inside).values()) <= 1
        assert len(set(inside)) == dataset.FOLDS


def test_the_widest_strip_beside_the_dog_shows_none(tmp_path: Path) -> None:
    pixels = np.full((100, 200, 3), 120, np.uint8)
    pixels[20:90, 20:120] = (200, 60, 50)
    photos = [tmp_path / f"{name}.png" for name in ("left", "wide")]
    for photo in photos:
        Image.fromarray(pixels).save(photo)
    boxes = [(0.1, 0.2, 0.6, 0.9), (0.1, 0.2, 0.9, 0.9)]
    examples = [
        dataset.Example(photo, 0, photo, box) for photo, box in zip(photos, boxes, strict=True)
    ]
    two = dataclasses.replace(examples[0], others=((0.7, 0.2, 0.9, 0.9),))
    (part,) = photo_lists.without_dogs([*examples, two, dataset.Example(photos[0], 0)])
    strip = np.asarray(Image.open(io.BytesIO(part)))
    assert strip.shape == (100, 80, 3)
    assert (strip == 120).all()


def test_a_class_folder_that_the_network_does_not_know_or_that_is_missing_is_named(
    data: Path, tmp_path: Path
) -> None:
    ids = [name.partition("-")[0] for name in dataset.breed_folders(data)]
    (tmp_path / "recipe.json").write_text('{"validation_per_breed": 2, "seed": 1}')
    (tmp_path / "labels.json").write_text(json.dumps([{"id": breed} for breed in ids]))
    training, validation = photo_lists.read_parts(tmp_path, data, None, print)
    assert {example.breed for example in validation} == set(range(len(ids)))
    assert training
    (data / "images" / "n00000000-cat").mkdir()
    with pytest.raises(dataset.DatasetError, match=r"received 4 folders .*different: n00000000"):
        photo_lists.read_parts(tmp_path, data, None, print)


@pytest.mark.parametrize(
    ("box", "fault"),
    [
        ("0.5\t0.1\t0.4\t0.9", "the box 0.5 0.1 0.4 0.9 is not inside the picture"),
        ("0.1\t0.1\t0.4\t1.2", "not inside the picture"),
        ("-0.1\t0.1\t0.4\t0.9", "not inside the picture"),
        ("nan\t0.1\t0.4\t0.9", "not inside the picture"),
        ("0.2\t0.1\t0.2\t0.9", "not inside the picture"),
        ("0.1\t0.1\t0.4", "expected lines `photo x0 y0 x1 y1`"),
        ("a\tb\tc\td", "expected lines `photo x0 y0 x1 y1`"),
    ],
)
def test_whole_pictures_with_an_impossible_box_or_without_boxes_are_refused(
    data: Path, frames: Path, tmp_path: Path, box: str, fault: str
) -> None:
    examples = dataset.read_list(data, "train_list")
    head, first, *rest = (frames / "boxes.tsv").read_text().splitlines()
    name = first.split("\t")[0]
    (frames / "boxes.tsv").write_text("\n".join([head, f"{name}\t{box}", *rest]) + "\n")
    with pytest.raises(dataset.DatasetError, match=fault):
        boxes.with_boxes(examples, frames)
    with pytest.raises(dataset.DatasetError, match="expected lines"):
        boxes.with_boxes(examples, tmp_path / "none")


def test_a_name_with_a_space_is_one_photo_and_a_folder_of_no_breed_is_refused(data: Path) -> None:
    (data / "train_list.txt").write_text("\nn00000001-red_hound/my dog.jpg\n")
    examples = dataset.read_list(data, "train_list")
    assert [example.path for example in examples] == [
        data / "images" / "n00000001-red_hound" / "my dog.jpg"
    ]
    (data / "train_list.txt").write_text("n00000001-red_hound/n00000001_0.jpg\nn7-wolf/1.jpg\n")
    with pytest.raises(dataset.DatasetError, match=r"train_list\.txt names the folder n7-wolf"):
        dataset.read_list(data, "train_list")


def test_the_two_halves_of_a_folder_share_no_photo(data: Path) -> None:
    taught, checked = (
        photo_lists.every_second_photo(data / "images", first, pytest.fail) for first in (0, 1)
    )
    assert set(taught).isdisjoint(checked)
    assert len(taught) + len(checked) == 24


@pytest.fixture
def frames(data: Path, tmp_path: Path) -> Path:
    """Whole pictures of `data`, with boxes."""
    return make_frames(data, tmp_path / "frames")


def test_whole_pictures_and_boxes_are_found_by_the_names_of_their_crops_and_a_missing_one_is_named(
    data: Path, frames: Path
) -> None:
    crops, said = dataset.read_list(data, "train_list"), []
    head, _, second, *rest = (frames / "boxes.tsv").read_text().splitlines()
    (frames / "boxes.tsv").write_text("\n".join([head, second, *rest]) + "\n")
    examples = boxes.with_boxes(crops, frames)
    assert [example.path for example in examples] == [crop.path for crop in crops]
    assert (examples[0].frame, examples[0].box) == (None, None)
    name, *sides = second.split("\t")
    assert (examples[1].frame, examples[1].box) == (
        frames / "images" / name,
        tuple(map(float, sides)),
    )
    examples[3].frame.unlink()
    assert len(dataset.readable(examples, said.append)) == len(examples) - 1
    assert said == [
        f"skipped {examples[3].path}: its whole picture {examples[3].frame}: no such file"
    ]


def test_an_index_has_the_columns_that_are_read(data: Path) -> None:
    (data / "index.tsv").write_text("a\tb\n", encoding="utf-8")
    with pytest.raises(dataset.DatasetError, match="expected the columns breed and photo"):
        dataset.rows_of_index(data)
    (data / "index.tsv").write_text("breed\tphoto\nbeagle\t1.jpg\nbeagle\n", encoding="utf-8")
    with pytest.raises(dataset.DatasetError, match="photo 2 has no photo; expected the columns"):
        dataset.rows_of_index(data)
    # of classes that are independent, a photo may show none
    (data / "index.tsv").write_text("breed\tphoto\n\t1.jpg\n", encoding="utf-8")
    assert dataset.rows_of_index(data) == [{"breed": "", "photo": "1.jpg"}]


def test_photos_behind_links_are_found_and_links_that_lead_back_up_end(tmp_path):
    for name in ("photos/a", "photos/b", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
        Image.new("RGB", (8, 8)).save(tmp_path / name / "1.png")
    (tmp_path / "photos" / "c").symlink_to(tmp_path / "elsewhere")
    for name in ("a", "b"):
        (tmp_path / "photos" / name / "up").symlink_to(tmp_path / "photos")
    (tmp_path / "photos" / "itself").symlink_to("itself")
    found = dataset.list_photos(tmp_path / "photos")
    names = [photo.relative_to(tmp_path / "photos").as_posix() for photo in found]
    assert names == ["a/1.png", "b/1.png", "c/1.png"]


def test_photos_are_found_by_every_ending_of_their_formats(tmp_path):
    names = ["a.JPG", "b.jfif", "c.jpe", "d.webp"]
    for name in (*names, "e.tiff"):
        (tmp_path / name).touch()
    assert [path.name for path in dataset.list_photos(tmp_path)] == names
