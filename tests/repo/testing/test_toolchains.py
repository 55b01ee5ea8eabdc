"""Tests of other languages, each run by its real tool: outcomes, ids, selections, code that does not load."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.repo.environment.toolchains import plan_toolchain
from whimbrel.app.repo.testing.adapters import (
    CommandAdapter,
    adapter_for_command,
    adapter_in,
    detect_adapter,
)
from whimbrel.app.repo.testing.compiled import CtestAdapter, MavenAdapter
from whimbrel.app.repo.testing.golang import GoAdapter
from whimbrel.app.repo.testing.javascript import JestAdapter, NodeAdapter, VitestAdapter
from whimbrel.app.repo.testing.problems import RunProblem
from whimbrel.app.repo.testing.rust import CargoAdapter
from whimbrel.app.repo.testing.toolchain import Toolchain


@dataclass(frozen=True)
class Example:
    """A project with a passing, a failing and a skipped test, and how to repair and to break it."""

    adapter: Any
    files: Mapping[str, str]
    code: str
    """The file with the fault."""
    wrong: str
    right: str
    broken: str
    """What makes the file impossible to build or load."""
    passing: str
    failing: str
    skipped: str
    message: str
    """In the failing case."""
    uncollected: str
    """The test file that cannot be used while the code is broken."""


JS_SUM = "export function sum(a, b) {\n  return a - b;\n}\n"
NODE = Example(
    NodeAdapter(),
    {
        "package.json": '{"type": "module", "scripts": {"test": "node --test"}}\n',
        "sum.js": JS_SUM,
        "test/sum.test.js": """\
import { describe, it, test } from 'node:test';
import assert from 'node:assert';
import { sum } from '../sum.js';

test('nothing is nothing', () => { assert.equal(sum(0, 0), 0); });
describe('sum / of (two)', () => {
  it('adds', () => { assert.equal(sum(1, 2), 3); });
  it('waits', { skip: true }, () => {});
});
""",
    },
    code="sum.js", wrong="a - b", right="a + b", broken="a - - - b }",
    passing="test/sum.test.js::nothing is nothing",
    failing="test/sum.test.js::sum / of (two) > adds",
    skipped="test/sum.test.js::sum / of (two) > waits",
    message="3", uncollected="test/sum.test.js",
)  # fmt: skip
GO = Example(
    GoAdapter(),
    {
        "go.mod": "module example.org/calc\n\ngo 1.19\n",
        "calc/calc.go": "package calc\n\nfunc Sum(a, b int) int {\n\treturn a - b\n}\n",
        "calc/calc_test.go": """\
package calc

import "testing"

func TestNothing(t *testing.T) {
	if Sum(0, 0) != 0 {
		t.Fatal("not nothing")
	}
}

func TestSum(t *testing.T) {
	t.Run("small numbers", func(t *testing.T) {
		if got := Sum(1, 2); got != 3 {
			t.Errorf("got %d, want 3", got)
		}
	})
}

func TestLater(t *testing.T) {
	t.Skip("not now")
}
""",
    },
    code="calc/calc.go", wrong="a - b", right="a + b", broken="a - undefined",
    passing="calc::TestNothing", failing="calc::TestSum/small_numbers", skipped="calc::TestLater",
    message="got -1, want 3", uncollected="calc/calc_test.go",
)  # fmt: skip
CARGO = Example(
    CargoAdapter(),
    {
        "Cargo.toml": '[package]\nname = "calc"\nversion = "0.1.0"\nedition = "2021"\n\n[lib]\ndoctest = false\n',
        "Cargo.lock": 'version = 3\n\n[[package]]\nname = "calc"\nversion = "0.1.0"\n',
        ".gitignore": "target\n",
        "src/lib.rs": """\
pub fn sum(a: i32, b: i32) -> i32 {
    a - b
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing() {
        assert_eq!(super::sum(0, 0), 0);
    }
    #[test]
    fn adds() {
        assert_eq!(super::sum(1, 2), 3);
    }
    #[test]
    #[ignore]
    fn later() {}
}
""",
    },
    code="src/lib.rs", wrong="a - b", right="a + b", broken="a - c",
    passing="src/lib.rs::tests::nothing", failing="src/lib.rs::tests::adds", skipped="src/lib.rs::tests::later",
    message="assertion", uncollected="src/lib.rs",
)  # fmt: skip
CTEST = Example(
    CtestAdapter(),
    {
        "CMakeLists.txt": """\
cmake_minimum_required(VERSION 3.16)
project(calc C)
enable_testing()
add_executable(check check.c calc.c)
add_test(NAME nothing COMMAND check 0 0 0)
add_test(NAME adds.two COMMAND check 1 2 3)
add_test(NAME later COMMAND check skip)
set_tests_properties(later PROPERTIES SKIP_RETURN_CODE 77)
""",
        "calc.c": "int sum(int a, int b) { return a - b; }\n",
        "check.c": """\
#include <stdio.h>
#include <stdlib.h>
int sum(int a, int b);
int main(int count, char **words) {
  if (count < 4) return 77;
  int got = sum(atoi(words[1]), atoi(words[2]));
  printf("got %d\\n", got);
  return got != atoi(words[3]);
}
""",
    },
    code="calc.c", wrong="a - b", right="a + b", broken="a - c",
    passing="nothing", failing="adds.two", skipped="later", message="", uncollected="CMakeLists.txt",
)  # fmt: skip
EXAMPLES = {"node": NODE, "go": GO, "cargo": CARGO, "ctest": CTEST}


def needs(*programs: str) -> None:
    """Skips where a toolchain is missing; CI installs these."""
    for program in programs:
        if shutil.which(program) is None:
            if os.environ.get("CI") == "true":
                pytest.fail(f"{program} is missing")
            pytest.skip(f"needs {program}")


def outcomes(run) -> dict[str, str]:
    return {case.id: case.outcome.value for case in run.report.cases}


async def check(project, example: Example) -> None:
    """The same for every framework."""
    assert isinstance(example.adapter, Toolchain)
    needs(*example.adapter.toolchain)
    planned = await plan_toolchain(Path("/nowhere"), "host", example.adapter.toolchain, os.environ, None)
    made = await project(dict(example.files), adapter=example.adapter, python="", env=dict(planned.env))
    detected, why = detect_adapter(made.workspace.root)
    assert detected == example.adapter and why.score > 80
    run = await made.runner.run(purpose="baseline")
    seen = outcomes(run)
    assert run.problem is None and run.report.complete, run.problem_detail
    assert (seen[example.passing], seen[example.failing], seen[example.skipped]) == (
        "passed",
        "failed",
        "skipped",
    )
    case = run.report.by_id()[example.failing]
    assert example.message in case.message and example.uncollected == case.path
    assert "\x1b" not in case.output + case.message
    # A single test by its id; then a whole file.
    run = await made.runner.run([example.failing], purpose="one")
    assert outcomes(run) == {example.failing: "failed"}
    run = await made.runner.run([example.uncollected], purpose="file")
    assert outcomes(run) == seen
    path = made.workspace.root / example.code
    fine = path.read_text()
    path.write_text(fine.replace(example.wrong, example.broken))
    run = await made.runner.run(purpose="broken")
    assert [error.path for error in run.report.collection_errors] == [example.uncollected]
    assert run.problem is RunProblem.COLLECTION_ERROR_IN_CODE and not run.report.passing_ids()
    path.write_text(fine.replace(example.wrong, example.right))
    run = await made.runner.run(purpose="repaired")
    assert not run.report.failing() and run.report.passing_ids() >= {example.passing, example.failing}
    await made.runner.close()
    assert not made.leftovers()


@pytest.mark.parametrize("name", EXAMPLES)
async def test_a_framework_of_another_language_is_run_and_read(name: str, project):
    await check(project, EXAMPLES[name])
