"""The data set reader: the official layout, bad photos, folders that do not belong."""

from pathlib import Path

import pytest
from photos import BREEDS, make_data_set
from PIL import Image

from backend.training import dataset


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return make_data_set(tmp_path / "dogs", per_breed=6, test_per_breed=2)


def test_the_class_order_is_the_order_of_the_sorted_folders(data: Path) -> None:
    assert dataset.breed_folders(data) == sorted(BREEDS)
    examples = dataset.read_list(data, "train_list")
    assert {example.path.parent.name: example.breed for example in examples} == {
        name: i for i, name in enumerate(sorted(BREEDS))
    }


def test_labels_take_their_names_from_the_breeds_file_and_else_from_the_folder(data: Path, tmp_path: Path) -> None:
    breeds = tmp_path / "breeds.json"
    breeds.write_text('[{"id": "n00000001", "name": "red hound of Tests", "name_zh": "红猎犬"}]', encoding="utf-8")
    labels = dataset.labels_of(dataset.breed_folders(data), breeds)
    assert labels[0] == {"id": "n00000001", "name": "red hound of Tests", "name_zh": "红猎犬"}
    assert labels[1] == {"id": "n00000002", "name": "green terrier", "name_zh": "green terrier"}


def test_the_validation_cut_takes_the_same_number_of_every_breed_and_is_repeatable(data: Path) -> None:
    examples = dataset.read_list(data, "train_list")
    training, validation = dataset.split_validation(examples, 2, seed=7)
    assert sorted(example.breed for example in validation) == [0, 0, 1, 1, 2, 2]
    assert set(training).isdisjoint(validation)
    assert len(training) + len(validation) == len(examples)
    assert dataset.split_validation(examples[::-1], 2, seed=7) == (training, validation)
    assert dataset.split_validation(examples, 2, seed=8)[1] != validation


def test_a_missing_and_a_truncated_photo_are_named_and_skipped(data: Path) -> None:
    examples = dataset.read_list(data, "train_list")
    examples[0].path.unlink()
    whole = examples[1].path.read_bytes()
    examples[1].path.write_bytes(whole[: len(whole) // 2])
    said: list[str] = []
    assert dataset.readable(examples, said.append) == examples[2:]
    assert len(said) == 2
    assert "no such file" in said[0]
    assert str(examples[0].path) in said[0]
    assert "truncated" in said[1]
    assert str(examples[1].path) in said[1]


def test_photos_that_pillow_reads_and_tensorflow_does_not_are_named_and_skipped(data: Path) -> None:
    examples = dataset.read_list(data, "train_list")
    with Image.open(examples[0].path) as photo:
        photo.save(examples[0].path, "TIFF")
        photo.save(examples[1].path, "WEBP", save_all=True, append_images=[photo.rotate(90)])
        photo.save(examples[2].path, "WEBP")
    said: list[str] = []
    assert dataset.readable(examples, said.append) == examples[2:]
    assert said[1].endswith("an animated WebP")


def test_the_archives_of_stanford_are_read_as_they_unpack_once_their_lists_are_text(data: Path) -> None:
    (data / "images").rename(data / "Images")
    assert dataset.breed_folders(data) == sorted(BREEDS)
    assert all(example.path.is_file() for example in dataset.read_list(data, "train_list"))
    (data / "train_list.txt").unlink()
    (data / "train_list.mat").write_bytes(b"MATLAB 5.0 MAT-file")
    with pytest.raises(dataset.DatasetError, match=r"train_list.mat becomes it by: python -c .* > .*train_list\.txt"):
        dataset.read_list(data, "train_list")


def test_a_name_with_a_space_is_one_photo(data: Path) -> None:
    name = "n00000001-red_hound/my dog.jpg"
    (data / "train_list.txt").write_text(f"\n{name}\n")
    assert [example.path for example in dataset.read_list(data, "train_list")] == [data / "images" / name]


def test_a_data_set_without_one_readable_photo_is_refused(data: Path) -> None:
    examples = dataset.read_list(data, "test_list")
    for example in examples:
        example.path.write_text("not a photo")
    with pytest.raises(dataset.DatasetError, match="none of 6 photos could be read"):
        dataset.readable(examples, lambda sentence: None)


def test_a_folder_too_many_or_too_few_is_named(data: Path) -> None:
    labels = dataset.labels_of(dataset.breed_folders(data), None)
    (data / "images" / "n00000009-cat").mkdir()
    with pytest.raises(dataset.DatasetError, match="n00000009"):
        dataset.check_folders(dataset.breed_folders(data), labels)
    with pytest.raises(dataset.DatasetError, match="no class folder for breed n00000003"):
        dataset.check_folders(sorted(BREEDS)[:2], labels)


def test_a_list_that_names_an_unknown_folder_says_the_line(data: Path) -> None:
    (data / "train_list.txt").write_text("n00000001-red_hound/n00000001_0.jpg\nn7-wolf/1.jpg\n")
    with pytest.raises(dataset.DatasetError, match=r"train_list\.txt:2 names the folder n7-wolf"):
        dataset.read_list(data, "train_list")


def test_an_empty_place_is_refused_with_the_layout_that_was_expected(tmp_path: Path) -> None:
    with pytest.raises(dataset.DatasetError, match="expected the Stanford Dogs layout"):
        dataset.breed_folders(tmp_path)


def test_the_two_halves_of_a_folder_share_no_photo(data: Path) -> None:
    taught, checked = (dataset.every_second_photo(data / "images", first) for first in (0, 1))
    assert set(taught).isdisjoint(checked)
    assert len(taught) + len(checked) == 24
