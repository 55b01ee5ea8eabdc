"""Which kernels the native engine would run on."""

from __future__ import annotations

import asyncio

from .finding import Finding, State

_SLOWER = "the native engine computes with numpy: the same results, many times slower"


async def kernels() -> list[Finding]:
    return await asyncio.to_thread(_look)


def _look() -> list[Finding]:
    try:
        from ...kernels.arrays import KernelError
        from ...kernels.native import build, library
    except ImportError:
        cost, line = "no native engine", "pip install 'whimbrel[native]'"
        return [Finding("hardware", "kernels", State.MISSING, "numpy is not installed", cost, line)]
    try:
        found = library.status()
    except KernelError as problem:
        cost, line = "the native engine refuses to start", "unset WHIMBREL_KERNELS"
        return [Finding("hardware", "kernels", State.MISSING, str(problem), cost, line)]
    if found.variant != "numpy":
        threads = f"{found.threads} thread{'s' if found.threads > 1 else ''}"
        detail = f"{found.variant}, {threads}"
        if found.variant == "portable":
            cost = "this processor has no AVX2 that they could use: several times slower"
            return [Finding("hardware", "kernels", State.LIMITED, detail, cost)]
        return [Finding("hardware", "kernels", State.OK, detail)]
    if build.compiler() is None:
        detail = f"{found.reason}; no C++ compiler is installed"
        return [
            Finding(
                "hardware", "kernels", State.LIMITED, detail, _SLOWER, f"install g++, then {library.REBUILD}"
            )
        ]
    forced = found.reason.startswith("WHIMBREL_KERNELS")
    line = "unset WHIMBREL_KERNELS" if forced else library.REBUILD
    return [Finding("hardware", "kernels", State.LIMITED, found.reason, _SLOWER, line)]
