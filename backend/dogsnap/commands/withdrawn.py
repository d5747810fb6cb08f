"""Commands that went to the laboratory in 0.3.0; the next release does not know them."""

import click


def _say_where(name: str) -> click.Command:
    @click.command(
        name, context_settings={"ignore_unknown_options": True, "allow_extra_args": True}
    )
    def command() -> None:
        raise click.ClickException(
            f"`dogsnap {name}` is withdrawn: the shipped network is made by `python -m lab {name}`, "
            "in a checkout"
        )

    return command


calibrate = _say_where("calibrate")
