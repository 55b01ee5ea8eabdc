"""Model strings."""

from __future__ import annotations

import subprocess
import sys

import pytest
from whimbrel.engine.models import load_model
from whimbrel.sandbox.base.errors import ConfigError, UsageError


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ("embedded", "embedded"),
        ("vllm:org/model", "vllm:org/model"),
        ("vllm:org/model@https://gpu.example/v1", "vllm:org/model"),
        ("openai:m@http://127.0.0.1:8080/v1", "openai:m"),
        ("openai:family/m@2026-01@http://localhost:1234", "openai:family/m@2026-01"),
    ],
)
def test_valid_strings_give_a_model_without_contacting_anything(spec: str, name: str) -> None:
    assert load_model(spec, environ={}).name == name


@pytest.mark.parametrize("spec", ["", "gpt", "openai:", "mystery:x", "vllm:@http://localhost", "embedded:x"])
def test_other_strings_are_a_usage_error_that_lists_the_forms(spec: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_model(spec, environ={})
    assert "embedded" in caught.value.one_line() and "vllm:NAME@" in caught.value.one_line()


def test_a_folder_that_is_not_there_says_so() -> None:
    with pytest.raises(ConfigError, match="is no folder"):
        load_model("kimi:model", environ={})


def test_plain_http_to_another_machine_is_refused_unless_allowed() -> None:
    spec = "vllm:m@http://gpu.example:8000/v1"
    with pytest.raises(ConfigError, match=r"plain HTTP to gpu\.example") as caught:
        load_model(spec, environ={"WHIMBREL_API_KEY": "k"})
    assert "WHIMBREL_ALLOW_HTTP=1" in caught.value.hint
    assert load_model(spec, environ={"WHIMBREL_ALLOW_HTTP": "1"}).name == "vllm:m"
    for host in ("localhost", "127.0.0.1", "127.8.9.1", "[::1]"):
        load_model(f"vllm:m@http://{host}:8000/v1", environ={})


@pytest.mark.parametrize("host", ["localhost.example", "127.0.0.1.example", "10.0.0.1", "[::2]"])
def test_addresses_that_only_look_local_are_refused_too(host: str) -> None:
    with pytest.raises(ConfigError):
        load_model(f"vllm:m@http://{host}/v1", environ={})


@pytest.mark.parametrize("address", ["gpu-host:8000/v1", "gpu-host:8000", "ftp://gpu-host/v1", "gpu-host/v1"])
def test_an_address_without_a_usable_scheme_is_refused_and_not_taken_for_a_name(address: str) -> None:
    with pytest.raises(ConfigError, match=r"is not an http\(s\) address"):
        load_model(f"vllm:m@{address}", environ={})
    for name in ("m@2024", "llama3:8b@sha256:ab12", "org/x@main"):
        assert load_model(f"vllm:{name}", environ={}).name == f"vllm:{name}"


def test_a_missing_key_names_the_variable() -> None:
    with pytest.raises(ConfigError) as caught:
        load_model("openai:gpt", environ={})
    assert "OPENAI_API_KEY" in caught.value.hint
    assert load_model("openai:gpt", environ={"OPENAI_API_KEY": "k"}).name == "openai:gpt"


def test_credentials_in_the_address_are_refused_without_showing_them() -> None:
    with pytest.raises(ConfigError) as caught:
        load_model("vllm:m@https://me:secret@host/v1", environ={})
    assert "secret" not in caught.value.one_line()


def test_naming_the_embedded_model_imports_no_http_client() -> None:
    code = (
        "import sys; from whimbrel.engine.models import load_model; load_model('embedded');"
        "sys.exit(any(name in sys.modules for name in ('openai', 'httpx', 'httpx2')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
