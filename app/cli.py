"""The `whimbrel` command: a table of commands and nothing else.

Each command lives in ``app/commands`` and is imported when it is invoked, so that
``whimbrel --help`` stays within a tenth of a second and 20 MB.
"""

from __future__ import annotations

import sys

try:
    import errno
    import os
    from pathlib import Path
    from typing import Any, NoReturn

    import click

    from .lazy_group import lazy_group
except KeyboardInterrupt:
    # Loading takes a moment, and whoever thinks better of it then wants no traceback either.
    sys.stderr.write("whimbrel: cancelled\n")
    sys.exit(130)

_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO)

_COMMANDS: dict[str, tuple[str, str, str]] = {
    # name: (module below app.commands, attribute, one line for --help)
    "fix-issue": ("fix_issue", "command", "Issue and repository in; verified patch and evidence out."),
    "batch": ("batch", "command", "Run fix-issue on many issues, several at a time, resumable."),
    "tui": ("tui", "command", "The terminal interface (also: whimbrel without arguments)."),
    "run": (
        "run",
        "command",
        "One turn of a conversation about a repository; the answer on standard output.",
    ),
    "acp": ("acp", "command", "The agent for editors that speak the Agent Client Protocol."),
    "locate": ("locate", "command", "Rank files, functions and lines that may hold the fault."),
    "apply": ("apply", "apply", "Apply the last verified patch to your working tree."),
    "undo": ("apply", "undo", "Take the last applied patch back."),
    "report": ("report", "command", "A run's result as JUnit, SARIF, annotations, Markdown, ..."),
    "ci": ("ci", "command", "Repair a failing pipeline (the GitHub Action and GitLab template run it)."),
    "hook": ("hook", "group", "Git hooks: test what would be committed, propose a patch."),
    "doctor": ("doctor", "command", "What is here, what is missing, what each missing thing costs."),
    "model": ("model", "group", "Probe a model's endpoint, list its models, keep its key."),
    "session": ("session", "group", "Look at, search, rewind, export and import recorded runs."),
    "config": ("config", "group", "Show and change settings."),
    "mcp": ("mcp", "group", "List and check MCP servers."),
    "permissions": ("permissions", "group", "Remembered answers; how a command is understood and judged."),
    "trust": ("trust", "command", "Agree to what a repository configures, or take that back."),
    "serve": ("serve", "command", "Serve a model over HTTP (OpenAI and Anthropic form, metrics)."),
    "engine": (
        "engine",
        "group",
        "The native engine: plan, make, inspect, quantize and check checkpoints.",
    ),
    "licence": ("licence", "group", "The terms of model weights: show, accept, withdraw."),
    "sandbox": ("sandbox", "group", "Build, list and prune sandbox images."),
}


def _show_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value and not ctx.resilient_parsing:
        from .version import __version__

        click.echo(f"whimbrel {__version__}")
        ctx.exit()


@click.group(
    cls=lazy_group(_COMMANDS),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `whimbrel doctor`, then `whimbrel fix-issue --repo DIR`.",
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_show_version,
    help="Show the version and exit.",
)
@click.option("--debug", is_flag=True, help="Show tracebacks of errors.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Whimbrel, a coding agent for long hauls: locate, read, patch, test, retry, in a sandbox."""
    ctx.obj = {"debug": debug}


def _reader_left() -> NoReturn:
    """The reader of our output went away (`whimbrel ... | head`); that is not an error to report."""
    _silence_output()
    sys.exit(0)


def _silence_output() -> None:
    # What is still buffered would fail once more when the interpreter flushes it at its end.
    if sys.__stdout__ is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.__stdout__.fileno())


def _at_a_terminal() -> bool:
    # A standard stream that was closed before the start is None.
    streams: list[Any] = [sys.stdin, sys.stdout]
    return all(stream is not None and stream.isatty() for stream in streams)


def _folder_is_there() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _shown(text: str) -> str:
    """Names of files and values of options may hold anything: what drives a terminal is shown escaped."""
    return "".join(
        one if one.isprintable() else one.encode("unicode_escape", "surrogatepass").decode() for one in text
    )


def main(arguments: list[str] | None = None) -> Any:
    """Entry point of the console script; turns every known error into one line and its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if not arguments and _at_a_terminal():
        arguments = ["tui"]
    debug = "--debug" in arguments[:1]
    output = sys.stdout
    try:
        code = cli.main(args=arguments, prog_name="whimbrel", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        sys.exit(0)
    except click.ClickException as error:
        error.show(sys.stderr)
        sys.exit(2 if isinstance(error, click.UsageError) else error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("whimbrel: cancelled", err=True)
        sys.exit(130)
    except SystemExit:
        # click itself turns a broken pipe into exit code 1; that it replaced the stream is the only sign.
        if sys.stdout is not output:
            _reader_left()
        raise
    except BrokenPipeError:
        _reader_left()
    except Exception as error:
        from ..sandbox.base.errors import ConfigError, WhimbrelError

        if debug:
            raise
        if isinstance(error, OSError) and error.errno in _CANNOT_WRITE:
            _silence_output()
            where = f" to {error.filename}" if error.filename else ""
            click.echo(f"whimbrel: cannot write{where}: {error.strerror}", err=True)
            sys.exit(ConfigError.exit_code)
        if isinstance(error, FileNotFoundError) and not _folder_is_there():
            click.echo(
                "whimbrel: the current directory does not exist any more (cd to one that does)", err=True
            )
            sys.exit(2)
        if isinstance(error, WhimbrelError):
            click.echo(f"whimbrel: {_shown(error.one_line())}", err=True)
            sys.exit(error.exit_code)
        # Last resort, on purpose broad: a person gets one line, `--debug` gets the traceback.
        click.echo(
            f"whimbrel: internal error: {type(error).__name__}: {_shown(str(error))} "
            "(run again as `whimbrel --debug ...` for the traceback)",
            err=True,
        )
        sys.exit(1)
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
