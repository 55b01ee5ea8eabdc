"""`whimbrel hook`: git hooks that test what would enter history and propose a patch when it fails."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .age import process_age_s
from .shared import Decorator, check_sandbox, not_empty, path_given, python_option, settle, together

if TYPE_CHECKING:
    from ..config import Settings
    from ..hook.places import HooksFolder

_HOOKS = ("pre-commit", "pre-merge-commit", "commit-msg", "pre-push")
_DEFAULT_TIME = {"pre-push": 300.0}
_TIME = 60.0

_repo = click.option(
    "--repo", metavar="PATH", callback=path_given, default=".", help="The repository (default: here)."
)
_types = click.option(
    "--type", "names", multiple=True, type=click.Choice([*_HOOKS, "all"]), help="Which hook (repeatable)."
)


def _duration(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    from ..fix.options import parse_duration

    try:
        return None if value is None else parse_duration(value)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


def _run_options() -> Decorator:
    """Options of a run, which `install` writes into the hook."""
    return together(
        click.option("--all", "everything", is_flag=True, help="Run all tests, not only those affected."),
        click.option(
            "--max-time",
            metavar="DURATION",
            callback=_duration,
            help="Ends the hook (default 60s, 5m for pre-push); what is not tested by then passes.",
        ),
        click.option("--warn-only", is_flag=True, help="Say what fails, stop nothing."),
        click.option("--strict", is_flag=True, help="Stop also what cannot be tested (time, sandbox)."),
        click.option("--no-repair", is_flag=True, help="Only test: look for no patch."),
        click.option("--apply", "apply_patch", is_flag=True, help="Write a verified patch to your files."),
        click.option(
            "--model", callback=not_empty, default="embedded", show_default=True, help="As of fix-issue."
        ),
        click.option(
            "--effort", type=click.Choice(["auto", "low", "high", "max"]), default="auto", show_default=True
        ),
        click.option(
            "--sandbox",
            type=click.Choice(["auto", "docker", "bwrap", "host", "outer"]),
            default="auto",
            show_default=True,
            help="Where tests run; host and outer do not isolate.",
        ),
        click.option("--image", callback=not_empty, help="Container image for the docker sandbox."),
        click.option("--network", is_flag=True, help="Let the sandbox reach the network."),
        click.option("--no-build", is_flag=True, help="Never build images or environments."),
        click.option("--trust", is_flag=True, help="Obey what the repository configures."),
        click.option("-v", "--verbose", is_flag=True, help="Show progress."),
        python_option,
    )


@click.group("hook", short_help="Git hooks: test what would be committed, propose a patch.")
def group() -> None:
    """Git hooks that test exactly what would be committed or pushed, and propose a patch when it fails."""


@group.command("run")
@click.argument("hook", type=click.Choice(_HOOKS))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@_run_options()
@click.pass_context
def run(ctx: click.Context, hook: str, arguments: tuple[str, ...], **given: Any) -> None:
    """Runs one hook, with the ARGUMENTS that git gives it. WHIMBREL_SKIP=1 skips it.

    Tests the staged files (pre-push: the pushed commits), never the working tree; changes neither
    your files nor the index. Exit code 0 lets git go on; 4 tests fail; 130 cancelled; 2 and 10 wrong
    options. With --strict also 6, 9 and 11 as of fix-issue, where nothing could be tested.
    """
    check_sandbox(given)
    from ..hook.run import HookOptions, run_hook

    settings = _settled(ctx, given)
    options = HookOptions(
        hook=hook,
        arguments=arguments,
        model=given["model"],
        effort=given["effort"],
        sandbox=given["sandbox"],
        image=given["image"],
        network=given["network"],
        python=given["python"],
        trust=given["trust"],
        allow_build=not given["no_build"],
        max_time_s=given["max_time"] or _DEFAULT_TIME.get(hook, _TIME),
        spent_s=process_age_s(),
        everything=given["everything"],
        warn_only=given["warn_only"],
        strict=given["strict"],
        repair=not given["no_repair"],
        apply=given["apply_patch"],
        verbose=given["verbose"],
        settings=settings,
    )
    sys.exit(run_hook(options))


def _settled(ctx: click.Context, given: dict[str, Any]) -> Settings:
    """The settings; they fill ``given`` where an option was not given. Raises ConfigError."""
    import os

    from ..config import Settings

    if os.environ.get("WHIMBREL_SKIP", "0") not in ("", "0"):
        return Settings()
    # The time of a whole command is not that of a hook, which has its own.
    wanted = {name: value for name, value in given.items() if name != "max_time"}
    wanted |= {"repo": Path(), "profile": None, "overrides": ()}
    settings = settle(ctx, wanted)
    given.update(
        (name, wanted[name]) for name in ("model", "effort", "sandbox", "image", "network", "no_build")
    )
    if given["max_time"] is None:
        given["max_time"] = settings.hook.time
    given["apply_patch"] = given["apply_patch"] or settings.hook.apply
    return settings


@group.command("install")
@_repo
@_types
@click.option("--force", is_flag=True, help="Also into a folder that other repositories share.")
@_run_options()
def install(repo: Path, names: tuple[str, ...], force: bool, **given: Any) -> None:
    """Installs the hook (pre-commit unless --type says otherwise) with the options given.

    Goes where git looks: .git/hooks, core.hooksPath, husky's folder. A hook that is there already
    runs first and keeps its arguments, input and exit code.
    """
    check_sandbox(given)
    from ..hook import install as work

    folder = _folder(repo)
    chosen = _chosen(names) or ("pre-commit",)
    for remark in work.install(folder, chosen, _as_words(given), force=force):
        click.echo(remark)
    click.echo(f"installed in {folder.path}: {', '.join(chosen)}")


@group.command("uninstall")
@_repo
@_types
def uninstall(repo: Path, names: tuple[str, ...]) -> None:
    """Takes the hooks out (all unless --type says otherwise); earlier ones come back as they were."""
    from ..hook import install as work

    folder = _folder(repo)
    gone = work.uninstall(folder, _chosen(names) or _HOOKS)
    click.echo(f"taken out of {folder.path}: {', '.join(gone)}" if gone else "no hook of Whimbrel is there")


@group.command("status")
@_repo
def status(repo: Path) -> None:
    """Says which hooks are installed, and where."""
    from ..hook import install as work

    folder = _folder(repo)
    click.echo(f"hooks of {folder.path}{' (core.hooksPath)' if folder.configured else ''}")
    for state in work.states(folder):
        text = "installed" if state.installed else "another hook" if state.foreign else "-"
        if state.installed and state.earlier:
            text += ", after the hook that was there"
        elif state.foreign and state.earlier:
            text += "; an earlier one lies in whimbrel-chained"
        click.echo(f"  {state.name:<17} {text}")


def _folder(repo: Path) -> HooksFolder:
    import os

    from ..hook.context import read_context
    from ..hook.places import hooks_folder

    context = read_context(os.environ if repo == Path() else {}, repo.absolute())
    return hooks_folder(context.top, context.git_dir)


def _chosen(names: tuple[str, ...]) -> tuple[str, ...]:
    return _HOOKS if "all" in names else tuple(name for name in _HOOKS if name in names)


def _as_words(given: dict[str, Any]) -> list[str]:
    """The options as the hook's script gives them to `run`."""
    words: list[str] = []
    flags = (
        ("everything", "--all"),
        ("warn_only", "--warn-only"),
        ("strict", "--strict"),
        ("no_repair", "--no-repair"),
        ("apply_patch", "--apply"),
        ("network", "--network"),
        ("no_build", "--no-build"),
        ("trust", "--trust"),
        ("verbose", "--verbose"),
    )
    words += [option for name, option in flags if given[name]]
    if given["max_time"] is not None:
        words += ["--max-time", f"{given['max_time']:g}s"]
    values = (
        ("model", "embedded"),
        ("effort", "auto"),
        ("sandbox", "auto"),
        ("image", None),
        ("python", None),
    )
    for name, default in values:
        if given[name] != default:
            words += [f"--{name}", str(given[name])]
    return words
