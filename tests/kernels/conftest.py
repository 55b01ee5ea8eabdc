"""The kernels' library, built once where a compiler is, and one run for each variant this processor has."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from whimbrel.kernels.native import build, library


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "variant" in metafunc.fixturenames:
        metafunc.parametrize("variant", [*library.VARIANTS, "numpy"], indirect=True)


@pytest.fixture(scope="session")
def built() -> None:
    """Brings the library up to date with the sources."""
    if build.compiler() is None:
        if os.environ.get("CI") == "true":
            pytest.fail("no C++ compiler, and CI installs one")
        pytest.skip("no C++ compiler on this machine")
    build.ensure(lambda _: None)
    library.forget()  # another process may have built it


@pytest.fixture
def variant(request: pytest.FixtureRequest) -> Iterator[str]:
    """Runs the test with one variant of the kernels."""
    if request.param != "numpy":
        request.getfixturevalue("built")
        if request.param not in library.usable():
            pytest.skip(f"this processor has no {request.param}")
    with library.using(request.param):
        yield request.param
