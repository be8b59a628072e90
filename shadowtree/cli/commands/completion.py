"""`shadowtree completion`: print the script with which a shell completes commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion_command(context: click.Context, shell: str) -> None:
    """Print the completion script for SHELL.

    \b
    Once for this shell:      eval "$(shadowtree completion bash)"
    For every bash to come:   shadowtree completion bash >> ~/.bashrc
    For every zsh to come:    shadowtree completion zsh >> ~/.zshrc
    For every fish to come:   shadowtree completion fish > ~/.config/fish/completions/shadowtree.fish
    """
    completion_class = get_completion_class(shell)
    if completion_class is None:
        raise click.UsageError(f"no completion for {shell}")
    completion = completion_class(context.find_root().command, {}, "shadowtree", "_SHADOWTREE_COMPLETE")
    click.echo(completion.source())
