"""A server process whose model is a script: it says one word, then waits for a file to be there.

python serving.py FILE DRAIN_SECONDS
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3]))

from whimbrel.engine.chat import Finished, TextDelta, Usage
from whimbrel.engine.serve.backend import GenerationEvent, GenerationRequest
from whimbrel.engine.serve.run import Settings, serve

from tests.engine.serve.scripted import Scripted


async def wait_for_file(_: GenerationRequest) -> AsyncGenerator[GenerationEvent]:
    yield TextDelta(text="begun ")
    while not Path(sys.argv[1]).exists():  # noqa: ASYNC110 - another process makes it
        await asyncio.sleep(0.01)
    yield TextDelta(text="done")
    yield Usage(input_tokens=1, output_tokens=2)
    yield Finished(reason="stop")


if __name__ == "__main__":
    settings = Settings(port=0, drain_s=float(sys.argv[2]))
    sys.exit(serve(Scripted(wait_for_file), settings, version="0"))
