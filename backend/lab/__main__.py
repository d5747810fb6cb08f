"""`python -m lab`: trains, calibrates and measures the shipped network."""

import click
from dogsnap.errors import DogsnapError

from lab.commands.calibrate import calibrate
from lab.commands.card import card
from lab.commands.opinion import opinion
from lab.commands.phone import phone
from lab.commands.train import train


class Group(click.Group):
    def invoke(self, ctx: click.Context) -> object:
        """Run a command. Raises click.ClickException for what cannot be done."""
        try:
            return super().invoke(ctx)
        except (DogsnapError, OSError, RuntimeError, ValueError) as error:
            raise click.ClickException(str(error).partition("\n")[0]) from error


@click.group(cls=Group)
def main() -> None:
    """Make the network that ships, and the numbers that it answers with."""


for command in (train, calibrate, opinion, phone, card):
    main.add_command(command)

if __name__ == "__main__":
    main(prog_name="python -m lab")
