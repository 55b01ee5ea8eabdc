"""`whimbrel run`: one turn of a conversation, headless."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from .shared import (
    check_sandbox,
    common_fields,
    not_empty,
    path_given,
    permission_rules,
    repository_options,
    said,
    settings_options,
    settle,
    turn_options,
)

if TYPE_CHECKING:
    from ...engine.chat import ImagePart


@click.command("run", short_help="One turn of a conversation about a repository; the answer on stdout.")
@click.argument("prompt", metavar="PROMPT|-")
@repository_options
@click.option("--continue", "latest", is_flag=True, help="Go on with this repository's last session.")
@click.option("--resume", callback=not_empty, metavar="ID", help="Go on with a session (start of its id).")
@click.option(
    "--fork", callback=not_empty, metavar="ID[@SEQ]", help="Go on in a copy, as it was after message SEQ."
)
@click.option(
    "--files",
    type=click.Choice(["session", "repository"]),
    default="session",
    show_default=True,
    help="In a continued session: the files as it left them, or as they are now.",
)
@click.option(
    "--picture", "pictures", multiple=True, callback=not_empty, metavar="FILE",
    help="A PNG, JPEG, GIF or WebP file for the model to look at; may be given several times.",
)  # fmt: skip
@turn_options
@click.option("--output", metavar="PATH", callback=path_given, help="Folder for result.json and patch.diff.")
@click.option("--apply", "apply_patch", is_flag=True, help="Apply what was changed to the working tree.")
@click.option("--json", "as_json", is_flag=True, help="JSON lines on standard output, nothing else there.")
@settings_options
@click.pass_context
def command(ctx: click.Context, prompt: str, **given: Any) -> None:
    """Asks or tells the model something about a repository: a question, a feature, a fix.

    PROMPT is text, or - for standard input; --picture shows one with it. The model works
    on a copy in a sandbox; your files, index and branches are not touched unless you say
    --apply. Only the final answer goes to standard output.

    Exit codes: 0 answered (which is no proof that a change is right: see `fix-issue`);
    2 usage; 4 the session's files do not fit the repository any more; 5 denied; 6 budget;
    7 loop; 8 model; 9 sandbox unavailable; 10 configuration; 11 tests cannot run here;
    130 cancelled; 143 terminated.
    """
    check_sandbox(given)
    given["rules"] = permission_rules(given)
    from ...sandbox.base.errors import WhimbrelError
    from ..config import Settings
    from ..fix.options import FixOptions
    from ..talk.main import run_turn
    from ..talk.options import TalkOptions

    named = said(ctx, "model") or bool(given["profile"])
    named = named or any(override.strip().startswith("model.name") for override in given["overrides"])
    settings, refused = Settings(), None
    try:
        settings = settle(ctx, given)
    except WhimbrelError as error:
        refused = error  # told after the result file is there
    shown: tuple[ImagePart, ...] = ()
    if given["pictures"] and refused is None:
        from ..talk.images import load_images

        try:
            shown = load_images(given["pictures"])
        except WhimbrelError as error:
            refused = error
    options = FixOptions(
        **common_fields(given, settings),
        revision=given["commit"],
        max_candidates=settings.limits.candidates,
    )
    talk = TalkOptions(
        base=options,
        prompt=prompt,
        images=shown,
        resume=given["resume"],
        latest=given["latest"],
        fork=given["fork"],
        files=given["files"],
        model_given=named,
    )
    debug = bool((ctx.obj or {}).get("debug"))
    sys.exit(run_turn(talk, as_json=given["as_json"], debug=debug, refused=refused))
