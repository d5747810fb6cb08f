"""Pictures of a folder, each with an answer of its own."""

from dogsnap.commands.helpers.picture_files import translate

ALIKE = ("a.jpg", "a.png", "a.jpg.jpg", "b.png")


def test_pictures_of_names_that_differ_in_the_ending_alone_have_an_answer_each(tmp_path, capsys):
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()
    for name in ALIKE:
        (folder / name).write_bytes(name.encode())

    def answer(body: dict) -> dict:
        (row,) = body["instances"]
        return {"predictions": [row]}

    translate(folder, out, "", answer)
    answered = {file.name: file.read_text() for file in out.iterdir()}
    assert answered == {
        "a.jpg.png": "a.jpg",
        "a.png.png": "a.png",
        "a.jpg.jpg.png": "a.jpg.jpg",
        "b.png": "b.png",
    }
    assert "wrote 4 of 4 pictures" in capsys.readouterr().out
