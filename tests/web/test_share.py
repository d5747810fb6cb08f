"""Sharing and saving the card, over https-like localhost and over plain http in the LAN."""

from PIL import Image, ImageStat


def test_the_card_is_saved_as_a_picture_of_photo_breed_and_percentage(open_phone, dog, tmp_path):
    phone = open_phone()
    phone.snap(dog)
    with phone.page.expect_download() as download:
        phone.tap("save")
    file = tmp_path / "card.jpg"
    download.value.save_as(file)
    phone.page.get_by_text("图片已保存").wait_for()
    with Image.open(file) as card:
        assert (card.format, card.size) == ("JPEG", (1000, 800))
        photo, words = card.crop((0, 0, 1000, 320)), card.crop((0, 600, 1000, 740))
        assert ImageStat.Stat(photo).stddev[0] > 10  # a photo, not a plain ground
        assert words.convert("L").getextrema()[1] > 240  # white words ...
        assert ImageStat.Stat(words).median[0] < 90  # ... on a dark ground


def test_a_link_to_the_breed_goes_to_the_clipboard_where_there_is_no_share_sheet(open_phone, dog):
    phone = open_phone("desktop", permissions=["clipboard-read", "clipboard-write"])
    phone.snap(dog)
    breed = phone.rows()[0]
    phone.tap("share")
    phone.page.get_by_text("Link copied").wait_for()
    text = phone.page.evaluate("navigator.clipboard.readText()")
    assert breed in text
    friend = open_phone("desktop", path=text.split("/", 3)[3])
    friend.screen.locator(".facts").wait_for()
    assert friend.title() == breed


def test_the_share_sheet_gets_title_link_and_the_card_as_a_picture(open_phone, dog):
    phone = open_phone()
    phone.page.evaluate(
        """() => {
            navigator.canShare = () => true
            navigator.share = async (data) => { window.shared = {title: data.title, url: data.url,
                files: data.files.map(({name, type, size}) => ({name, type, size}))} }
        }"""
    )
    phone.snap(dog)
    phone.tap("share")
    phone.page.wait_for_function("() => window.shared")
    shared = phone.page.evaluate("window.shared")
    assert phone.rows()[0] in shared["title"]
    assert "#/pages/breed/breed?id=n" in shared["url"]
    assert shared["files"][0]["type"] == "image/jpeg"
    assert shared["files"][0]["size"] > 10_000


def test_over_plain_http_in_the_lan_everything_works_and_share_copies_the_link(open_phone, dog):
    phone = open_phone(host="phone.test")
    assert phone.page.evaluate("isSecureContext") is False
    assert phone.snap(dog) == "breed"
    phone.tap("share")
    link = phone.page.get_by_role("dialog").get_by_role("textbox")
    assert link.input_value().startswith("http://phone.test:")
    copied = link.input_value()
    assert "#/pages/breed/breed?id=n" in copied
    phone.page.evaluate(
        "document.execCommand = (name) => (window.did = [name, getSelection().toString()], true)"
    )
    phone.page.get_by_role("dialog").get_by_role("button", name="复制").click()
    phone.page.get_by_text("链接已复制").wait_for()
    assert phone.page.evaluate("did") == ["copy", copied]
    phone.back()
    phone.screen.locator(".recent-item").wait_for()


def test_a_toast_takes_two_lines_at_most_on_a_narrow_phone(open_phone, colour_server, red_dog):
    size = {"width": 360, "height": 740}
    phone = open_phone(server=colour_server, locale="en-US", viewport=size)
    phone.snap(red_dog)
    phone.page.evaluate(
        "() => { HTMLAnchorElement.prototype.click = () => { throw new Error('refused') } }"
    )
    phone.tap("save")
    toast = phone.page.locator(".wx-toast")
    assert toast.inner_text() == "The picture could not be saved."
    lines = "each => { const text = document.createRange(); text.selectNodeContents(each); return text.getClientRects().length }"
    assert toast.evaluate(lines) <= 2
