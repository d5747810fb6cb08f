"""`dogsnap console`: opens the console of a running server in a browser, logged in."""

import click

from dogsnap.commands.helpers.admin_client import Remote, server_options


@click.command()
@click.option("--open/--no-open", "is_opened", default=True, help="open the link in a browser")
@server_options
def console(server: Remote, is_opened: bool) -> None:
    """Print a link to the console, and open it.

    The link is taken once, within five minutes, and does not contain the token.
    """
    link = server.console_link()
    click.echo(link)
    if is_opened:
        click.launch(link)
