"""The table of settings: flags, environment and defaults come from it, and what it does not know is refused."""

import subprocess
import sys
from pathlib import Path

import click
import pytest
from dogsnap.settings import WITHDRAWN, Settings, flag, table, variable, warn_of_withdrawn


def test_the_environment_wins_over_defaults_and_flags_over_the_environment():
    environ = {
        "DOGSNAP_PORT": "9000",
        "DOGSNAP_MAX_BODY_MB": "3",
        "DOGSNAP_MODELS": "/a/b",
        "HOME": "/",
    }
    settings = Settings.from_environment(environ, port=9001)
    assert (settings.port, settings.max_body_mb, settings.models) == (9001, 3, "/a/b")
    for text, value in (("true", True), ("1", True), ("no", False), ("False", False), ("0", False)):
        assert Settings.from_environment({"DOGSNAP_ENABLE_CORS": text}).enable_cors is value


def test_a_settings_file_says_what_neither_flag_nor_environment_says(tmp_path):
    file = tmp_path / "settings"
    file.write_text("# ours\nDOGSNAP_PORT=1\n\n DOGSNAP_MAX_BODY_MB = 2 \nDOGSNAP_QUEUE_SIZE=3\n")
    settings = Settings.from_environment(
        {"DOGSNAP_MAX_BODY_MB": "5"}, port=6, settings_file=str(file)
    )
    assert (settings.port, settings.max_body_mb, settings.queue_size) == (6, 5, 3)


# Lines as systemd's EnvironmentFile, Compose's env_file, dotenv and shells take them, and the token in them.
TOKEN = "a-long #random/text=1"
LINES = {
    '"{}"': TOKEN,
    "'{}'": TOKEN,
    '"{}" # of the server': TOKEN,
    "  '{}'\t# of the server": TOKEN,
    '"{}\\"\\\\\\$"': TOKEN + '"\\$',
    "'{}\\n'": TOKEN + "\\n",
    "{} # of the server": "a-long",
    "a#b # c": "a#b",
    "a b": "a b",
    "it's": "it's",
    "": "",
    '""': "",
}


@pytest.mark.parametrize("before", ["", "export ", "  ", "\ufeff", "\ufeff# ours\n\n; or\n"])
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_a_settings_file_is_read_as_other_programs_read_it(tmp_path, before, end):
    file = tmp_path / "settings"
    for equals in ("=", " = "):
        for line, value in LINES.items():
            text = before + "DOGSNAP_ADMIN_TOKEN" + equals + line.format(TOKEN)
            file.write_bytes((text + end).encode())
            settings = Settings.from_environment({}, settings_file=str(file))
            assert settings.admin_token == value, text


@pytest.mark.parametrize("line", ["DOGSNAP_ADMIN_TOKEN: {}", "DOGSNAP_ADMIN_TOKEN {}", '=\'{}"',
                                  "DOGSNAP_PORT=1 DOGSNAP_ADMIN_TOKEN={}",
                                  'DOGSNAP_ADMIN_TOKEN="{}', "DOGSNAP_ADMIN_TOKEN='{}' x", "- {}"])  # fmt: skip
def test_a_line_that_cannot_be_read_is_named_by_its_number_and_shows_no_value(tmp_path, line):
    (tmp_path / "settings").write_text("# ours\n" + line.format("a-long-random-text"))
    with pytest.raises(click.UsageError, match="line 2") as error:
        Settings.from_environment({}, settings_file=str(tmp_path / "settings"))
    assert "random" not in error.value.format_message()


def test_a_value_of_the_settings_file_refers_to_no_variable_but_in_single_quotes(tmp_path):
    file = tmp_path / "settings"
    for value in ('"${TOKEN_OF_OURS}"', "$(cat token-of-ours)"):
        file.write_text(f"DOGSNAP_ADMIN_TOKEN={value}")
        with pytest.raises(click.UsageError, match="refers to a variable") as error:
            Settings.from_environment({}, settings_file=str(file))
        assert "ours" not in error.value.format_message().lower()
    file.write_text("DOGSNAP_ADMIN_TOKEN='a${long}random-text'")
    assert Settings.from_environment({}, settings_file=str(file)).admin_token[1] == "$"


def test_a_variable_has_no_quotes_and_no_line_end_of_windows(tmp_path):
    """As `docker run --env-file` passes them on, which does not read what it passes."""
    assert Settings.from_environment({"DOGSNAP_DEFAULT_MODEL": "half\r"}).default_model == "half"
    for value in ('"a-long-random-text"', "'a-long-random-text'"):
        with pytest.raises(click.UsageError, match="DOGSNAP_ADMIN_TOKEN is in quotes") as error:
            Settings.from_environment({"DOGSNAP_ADMIN_TOKEN": value})
        assert "random" not in error.value.format_message()


def test_an_empty_variable_leaves_the_default_and_an_empty_flag_is_refused(tmp_path):
    """Compose fills ${MODEL:-} in so; "$MODELS" of a shell without it is a slip."""
    (tmp_path / "settings").write_text("DOGSNAP_PORT=\n")
    given = {"DOGSNAP_DEFAULT_MODEL": " ", "DOGSNAP_SETTINGS_FILE": str(tmp_path / "settings")}
    assert Settings.from_environment(given) == Settings(settings_file=str(tmp_path / "settings"))
    with pytest.raises(click.BadParameter, match="it is empty; leave it out for the default"):
        Settings.from_environment({}, models="")


@pytest.mark.parametrize("text", ["PORT=1", "DOGSNAP_PORT", "DOGSNAP_PROT=1"])
def test_a_line_of_the_settings_file_that_means_nothing_is_refused(tmp_path, text):
    (tmp_path / "settings").write_text(text)
    with pytest.raises(click.UsageError, match=text.partition("=")[0]):
        Settings.from_environment({"DOGSNAP_SETTINGS_FILE": str(tmp_path / "settings")})


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("DOGSNAP_PROT", "1", "unknown setting in the environment: DOGSNAP_PROT"),
        ("DOGSNAP_PORT", "http", "'http' is not a valid integer"),
        ("DOGSNAP_ENABLE_CORS", "maybe", "'maybe' is not a valid boolean"),
        (
            "DOGSNAP_RUN_THREADS",
            "0",
            "--run-threads (DOGSNAP_RUN_THREADS): 0 is not in the range x>=1",
        ),
        ("DOGSNAP_QUEUE_SIZE", "-1", "-1 is not in the range x>=0"),
        *(
            ("DOGSNAP_POLL_SECONDS", value, f"{value} is out of range; expected at most 4294967296")
            for value in ("1e30", "inf", "nan")
        ),
        *(
            ("DOGSNAP_ADMIN_TOKEN", value, "refers to a variable, which is not filled in")
            for value in (
                "${ADMIN_TOKEN_OF_OURS}",
                "$(ADMIN_TOKEN_OF_OURS)",
                "$ADMIN_TOKEN_OF_OURS",
                "$token",
            )
        ),
        *(
            (name, value, "refers to a variable, which is not filled in")
            for name, value in (
                ("DOGSNAP_MODELS", "$HOME/models"),
                ("DOGSNAP_MODELS", "s3://$bucket/models"),
                ("DOGSNAP_SWITCH_LOG", "redis://:$PASSWORD@host:6379"),
                ("AIP_STORAGE_URI", "gs://$BUCKET/models"),
                ("AIP_HEALTH_ROUTE", "$(ROUTE)"),
            )
        ),
        # These only look like a service link of Kubernetes.
        ("DOGSNAP_PORT", "http://10.0.0.1:80", "is not a valid integer"),
        ("DOGSNAP_PREDICTOR_PORT", "8500", "unknown setting"),
        ("DOGSNAP_SERVICE_HOSTS", "10.0.0.1", "unknown setting"),
        ("DOGSNAP_SERVICE_PORT", "http", "unknown setting"),
    ],
)
def test_what_is_misspelt_or_out_of_range_is_refused_by_name(name, value, sentence):
    with pytest.raises(click.UsageError) as error:
        Settings.from_environment({name: value})
    assert sentence in error.value.format_message()
    assert name in error.value.format_message()


def test_a_flag_that_no_shell_has_read_is_refused_as_well():
    with pytest.raises(click.UsageError, match="--models refers to a variable"):
        Settings.from_environment({}, models="$(MODELS)")


def test_what_is_withdrawn_is_named_in_one_warning_and_otherwise_ignored(tmp_path, caplog):
    file = tmp_path / "settings"
    file.write_text("DOGSNAP_FEEDBACK_ASK=three\nDOGSNAP_PORT=9\n")
    given = {"settings_file": str(file), "max_photos": "many", "warm_up": False}
    environ = {"DOGSNAP_GRPC_TRUSTED_PROXIES": "1", "HOME": "/"}
    expected = Settings(port=9, settings_file=str(file))
    assert Settings.from_environment(environ, **given) == expected
    warn_of_withdrawn(environ, **given)
    (record,) = caplog.records
    for name in ("feedback_ask", "max_photos", "warm_up", "grpc_trusted_proxies"):
        assert f"{flag(name)} ({variable(name)}): {WITHDRAWN[name]}" in record.getMessage()
    warn_of_withdrawn({"DOGSNAP_PORT": "9"}, host="::1", max_photos=None)
    assert len(caplog.records) == 1
    assert not {row.name for row in table()} & set(WITHDRAWN)


SERVICE_LINKS = {
    "DOGSNAP_SERVICE_HOST": "10.0.0.1",
    "DOGSNAP_SERVICE_PORT": "80",
    "DOGSNAP_SERVICE_PORT_HTTP": "80",
    "DOGSNAP_PORT": "tcp://10.0.0.1:80",
    "DOGSNAP_PORT_8501_TCP": "tcp://10.0.0.1:8501",
    "DOGSNAP_PORT_8501_TCP_PROTO": "tcp",
    "DOGSNAP_PORT_8501_TCP_PORT": "8501",
    "DOGSNAP_PORT_8501_TCP_ADDR": "10.0.0.1",
    "DOGSNAP_PREDICTOR_SERVICE_HOST": "10.0.0.2",
    "DOGSNAP_PREDICTOR_PORT": "tcp://10.0.0.2:8500",
    "DOGSNAP_GRPC_PORT": "tcp://10.0.0.3:8500",
}


def test_the_service_links_of_kubernetes_and_variables_of_tests_and_clients_are_no_settings():
    others = {"DOGSNAP_TEST_DATA": "/data", "DOGSNAP_KEY": "dogsnap_1"}
    assert Settings.from_environment(SERVICE_LINKS | others) == Settings()


def test_every_setting_is_a_flag_of_serve_with_variable_and_default_in_its_help():
    command = [Path(sys.executable).with_name("dogsnap"), "serve", "--help"]
    text = " ".join(
        subprocess.run(command, env={}, capture_output=True, text=True, check=True).stdout.split()
    )
    for row in table():
        assert flag(row.name) in text
        assert f"[{variable(row.name)}, default: {row.default}]" in text


def test_the_largest_number_that_clients_of_tensorflow_serving_write_is_taken():
    assert (
        Settings.from_environment({"DOGSNAP_DEADLINE_MS": str(2**31 - 1)}).deadline_ms == 2**31 - 1
    )
