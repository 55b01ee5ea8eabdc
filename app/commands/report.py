"""`whimbrel report`: a result in the form that another tool reads."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from .shared import not_empty, path_given


@click.command("report", short_help="A run's result as JUnit, SARIF, annotations, Markdown, ...")
@click.argument("result", metavar="RESULT", type=click.Path(path_type=Path))
@click.option(
    "--format",
    "format_",
    required=True,
    type=click.Choice(["junit", "sarif", "github", "markdown", "swebench", "jsonl"]),
    help="github: annotations, and the step's summary where GITHUB_STEP_SUMMARY names one.",
)
@click.option(
    "-o", "--output", metavar="FILE", callback=path_given, help="Write it there (default: standard output)."
)
@click.option("--instance-id", callback=not_empty, metavar="ID", help="Of the SWE-bench instance.")
def command(result: Path, format_: str, output: Path | None, instance_id: str | None) -> None:
    """Turns RESULT (the --output folder of a run, or its result.json) into a report.

    Text that comes from tests, issues and models is shown and cannot act: no markup, mention, workflow
    command or control character of it survives.
    """
    from ...sandbox.base.errors import UsageError
    from ..reports import render
    from ..reports.writing import add_summary, load_result, write

    data, folder = load_result(result)
    try:
        report = render(format_, data, folder=folder, instance_id=instance_id or "")
    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        # The file may come from anywhere, and be anything.
        raise UsageError(
            f"{result} is no whole result of Whimbrel: no {format_} can be made of it"
        ) from error
    if format_ == "github":
        add_summary(data)
    if output is not None:
        write(output, report)
    else:
        sys.stdout.buffer.write(report)
