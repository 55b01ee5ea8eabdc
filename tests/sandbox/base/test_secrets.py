"""Secret values never reach what is written or shown."""

from __future__ import annotations

from whimbrel.sandbox.base.secrets import is_secret_name, redact, redact_bytes, redact_json

ENVIRON = {
    "OPENAI_API_KEY": "sk-Canary-0123456789",
    "my_service_token": 'quote"backslash\\end',
    "SHORT_TOKEN": "abc",
    "PATH": "/usr/bin:/bin-directory",
    "TOKEN_FILE": "/run/secrets/token",
}


def test_a_key_is_replaced_by_the_name_of_its_variable_whatever_its_letter_case() -> None:
    text = "header: Bearer SK-CANARY-0123456789, again sk-canary-0123456789."
    assert (
        redact(text, ENVIRON) == "header: Bearer [redacted:OPENAI_API_KEY], again [redacted:OPENAI_API_KEY]."
    )


def test_a_key_inside_a_json_string_is_found_in_its_escaped_form() -> None:
    assert "backslash" not in redact('{"t": "quote\\"backslash\\\\end"}', ENVIRON)


def test_short_values_paths_and_ordinary_variables_stay_readable() -> None:
    text = "abc /usr/bin:/bin-directory /run/secrets/token"
    assert redact(text, ENVIRON) == text


def test_raw_bytes_that_are_not_utf8_are_redacted_too() -> None:
    assert (
        redact_bytes(b"\xff\x00 SK-canary-0123456789 \xfe", ENVIRON)
        == b"\xff\x00 [redacted:OPENAI_API_KEY] \xfe"
    )


def test_nested_values_and_keys_of_json_are_redacted_and_other_types_kept() -> None:
    value = {"a": ["x sk-canary-0123456789", 1, None, True], "sk-canary-0123456789": 2.5}
    assert redact_json(value, ENVIRON) == {
        "a": ["x [redacted:OPENAI_API_KEY]", 1, None, True],
        "[redacted:OPENAI_API_KEY]": 2.5,
    }


def test_the_longer_of_two_overlapping_secrets_wins() -> None:
    environ = {"A_TOKEN": "12345678", "B_TOKEN": "1234567890abcdef"}
    assert redact("1234567890abcdef", environ) == "[redacted:B_TOKEN]"


def test_names_that_mean_secrets_are_told_from_names_that_only_look_so() -> None:
    assert all(
        map(is_secret_name, ("GITHUB_TOKEN", "aws_secret_access_key", "DB_PASSWORD", "WHIMBREL_API_KEY"))
    )
    assert not any(
        map(is_secret_name, ("KEYBOARD", "MONKEY_PATCH", "TOKENIZERS_PARALLELISM", "SSH_KEY_PATH"))
    )


def test_a_password_inside_an_address_is_a_secret_whatever_its_variable_is_called() -> None:
    environ = {
        "DATABASE_URL": "postgres://me:canary-pw-1234@db.example/x",
        "PLAIN_URL": "https://db.example/x",
    }
    assert (
        redact("login canary-pw-1234 at db.example", environ) == "login [redacted:DATABASE_URL] at db.example"
    )
