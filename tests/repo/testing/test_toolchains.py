"""Tests of other languages, each run by its real tool: outcomes, ids, selections, code that does not load."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from whimbrel.app.repo.environment.toolchains import plan_toolchain
from whimbrel.app.repo.testing.adapters import (
    CommandAdapter,
    PytestAdapter,
    RunRequest,
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
    assert type(detected) is type(example.adapter) and why.score > 80
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
    (error,) = run.report.collection_errors
    assert example.code in error.message, "where the fault lies is told"
    path.write_text(fine.replace(example.wrong, example.right))
    run = await made.runner.run(purpose="repaired")
    assert not run.report.failing() and run.report.passing_ids() >= {example.passing, example.failing}
    await made.runner.close()
    assert not made.leftovers()


@pytest.mark.parametrize("name", EXAMPLES)
async def test_a_framework_of_another_language_is_run_and_read(name: str, project):
    await check(project, EXAMPLES[name])


JS_TEST = """\
import { describe, expect, it, test } from 'vitest';
import { sum } from './sum.js';

test('nothing is nothing', () => { expect(sum(0, 0)).toBe(0); });
describe('sum (of two)', () => {
  it('adds', () => { expect(sum(1, 2)).toBe(3); });
  it.skip('waits', () => {});
});
"""
JS_PARTS: Mapping[str, str] = {
    "code": "sum.js",
    "wrong": "a - b",
    "right": "a + b",
    "broken": "a - - - b }",
    "passing": "sum.test.js::nothing is nothing",
    "failing": "sum.test.js::sum (of two) > adds",
    "skipped": "sum.test.js::sum (of two) > waits",
    "message": "3",
    "uncollected": "sum.test.js",
}
VITEST = Example(
    VitestAdapter(),
    {
        # The script watches: what is run must not.
        "package.json": '{"type": "module", "scripts": {"test": "vitest --watch"}, "devDependencies": {"vitest": "*"}}\n',
        ".gitignore": "node_modules\n",
        "sum.js": JS_SUM,
        "sum.test.js": JS_TEST,
    },
    **JS_PARTS,
)
JEST = Example(
    JestAdapter(),
    {
        "package.json": '{"scripts": {"test": "jest --watchAll"}, "devDependencies": {"jest": "*"}}\n',
        ".gitignore": "node_modules\n",
        "sum.js": JS_SUM.replace("export function sum", "exports.sum = function"),
        "sum.test.js": "const { sum } = require('./sum.js');\n" + JS_TEST.split("\n", 2)[2],
    },
    **JS_PARTS,
)


@pytest.mark.toolchain
@pytest.mark.parametrize("example", [pytest.param(VITEST, id="vitest"), pytest.param(JEST, id="jest")])
async def test_vitest_and_jest_are_run_once_and_read(example: Example, project):
    modules = Path(os.environ.get("WHIMBREL_TEST_NODE_MODULES", "/nonexistent"))
    if not (modules / example.adapter.name).is_dir():
        pytest.skip(f"needs {example.adapter.name} in the folder WHIMBREL_TEST_NODE_MODULES")

    async def with_modules(*arguments: Any, **values: Any) -> Any:
        made = await project(*arguments, **values)
        (made.workspace.root / "node_modules").symlink_to(modules)
        assert adapter_in(made.workspace.root, "npm test") == example.adapter
        return made

    await check(with_modules, example)


POM = """\
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>org.example</groupId><artifactId>calc</artifactId><version>1</version>
  <properties>
    <maven.compiler.source>17</maven.compiler.source><maven.compiler.target>17</maven.compiler.target>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies><dependency>
    <groupId>junit</groupId><artifactId>junit</artifactId><version>4.13.2</version><scope>test</scope>
  </dependency></dependencies>
  <build><plugins>
    <plugin><artifactId>maven-surefire-plugin</artifactId><version>2.22.3</version></plugin>
    <plugin><artifactId>maven-compiler-plugin</artifactId><version>3.10.1</version></plugin>
    <plugin><artifactId>maven-resources-plugin</artifactId><version>3.3.0</version></plugin>
  </plugins></build>
</project>
"""
MAVEN = Example(
    MavenAdapter(),
    {
        "pom.xml": POM,
        ".gitignore": "target/\n",
        "src/main/java/org/example/Calc.java": (
            "package org.example;\npublic class Calc {\n"
            "  public static int sum(int a, int b) { return a - b; }\n}\n"
        ),
        "src/test/java/org/example/CalcTest.java": """\
package org.example;

import static org.junit.Assert.assertEquals;
import org.junit.Ignore;
import org.junit.Test;

public class CalcTest {
  @Test public void nothing() { assertEquals(0, Calc.sum(0, 0)); }
  @Test public void adds() { assertEquals(3, Calc.sum(1, 2)); }
  @Ignore @Test public void later() {}
}
""",
    },
    code="src/main/java/org/example/Calc.java", wrong="a - b", right="a + b", broken="a - c",
    passing="org.example.CalcTest#nothing", failing="org.example.CalcTest#adds",
    skipped="org.example.CalcTest#later", message="expected:<3>",
    uncollected="src/test/java/org/example/CalcTest.java",
)  # fmt: skip


@pytest.mark.toolchain
async def test_maven_is_run_offline_and_its_reports_are_read(project, monkeypatch: pytest.MonkeyPatch):
    """WHIMBREL_TEST_MAVEN_HOME: a home with .m2/repository that holds the plugins and junit."""
    home = Path(os.environ.get("WHIMBREL_TEST_MAVEN_HOME", "/nonexistent"))
    if not (home / ".m2" / "repository").is_dir():
        pytest.skip("needs a filled Maven repository in WHIMBREL_TEST_MAVEN_HOME")
    monkeypatch.setenv("HOME", str(home))
    await check(project, MAVEN)


@pytest.mark.parametrize(
    ("command", "adapter"),
    [
        ("node --test --watch test/", NodeAdapter(("test/",))),
        ("npx vitest", VitestAdapter()),
        ("vitest watch --config x.ts", VitestAdapter(("--config", "x.ts"))),
        ("npx jest --watchAll", JestAdapter(("--watchAll",))),
        ("go test -v ./pkg/...", GoAdapter(("./pkg/...",))),
        ("cargo test --workspace", CargoAdapter(("--workspace",))),
        ("mvn -q test", MavenAdapter(("-q",))),
        ("ctest -L fast", CtestAdapter(("-L", "fast"))),
        ("ctest --test-dir build", CommandAdapter("ctest --test-dir build")),
        ("go vet ./...", CommandAdapter("go vet ./...")),
        ("cargo test && true", CommandAdapter("cargo test && true")),
        ("npm test", CommandAdapter("npm test")),
    ],
)
def test_a_command_of_a_known_tool_becomes_its_adapter(command: str, adapter: Any):
    assert adapter_for_command(command) == adapter


@pytest.mark.parametrize(
    "adapter", [VitestAdapter(("--watch",)), JestAdapter(("--watchAll", "--watch")), NodeAdapter()], ids=str
)
def test_no_plan_watches(adapter: Any):
    request = RunRequest(
        root="/r", python="", inside="", base="/tmp/b", name="n", selection=("a.test.js::x > y",)
    )
    words = adapter.plan(request).argv
    assert not {"--watch", "--watchAll", "-w", "dev", "watch"} & set(words)
    assert adapter.name == "node" or {"--watch=false", "--watchAll=false"} & set(words)


async def test_a_watching_script_is_replaced_and_a_python_project_stays_one(project):
    watcher = '{"scripts": {"test": "vitest --watch"}}'
    made = await project({"package.json": watcher, "test_a.py": "def test_a(): pass\n", "setup.py": ""})
    assert adapter_in(made.workspace.root, "npm run test") == VitestAdapter()
    assert detect_adapter(made.workspace.root)[0] == PytestAdapter()


async def test_a_crash_a_missing_module_and_a_framework_that_is_not_installed_are_told_apart(project):
    needs("node", "go")
    env = {"PATH": os.environ["PATH"]}
    files = dict(GO.files) | {
        "crash/crash_test.go": "package crash\n\nimport (\n\t\"os\"\n\t\"testing\"\n)\n\n"
        "func TestGone(t *testing.T) { os.Exit(7) }\n",
    }  # fmt: skip
    made = await project(files, adapter=GoAdapter(), python="", env=env)
    run = await made.runner.run(["crash"], purpose="crash")
    assert outcomes(run) == {"crash::TestGone": "failed"} or outcomes(run) == {"crash::TestGone": "crashed"}
    made.write("calc/calc.go", 'package calc\n\nimport "example.com/gone/thing"\n\nvar X = thing.X\n')
    run = await made.runner.run(["calc"], purpose="missing")
    assert run.problem is RunProblem.MISSING_DEPENDENCY and "example.com/gone/thing" in run.problem_detail
    made.write("go.mod", "module example.org/calc\n\ngo 1.19\n\nrequire example.com/gone v1.0.0\n")
    run = await made.runner.run(purpose="not downloaded")
    assert run.problem is RunProblem.MISSING_DEPENDENCY and "module of example.com/gone" in run.problem_detail
    package = '{"devDependencies": {"jest": "1"}}'
    made = await project(
        {"package.json": package, "a.test.js": ""}, adapter=JestAdapter(), python="", env=env
    )
    run = await made.runner.run(purpose="uninstalled")
    assert run.problem is RunProblem.FRAMEWORK_MISSING and "jest is not installed" in run.problem_detail
