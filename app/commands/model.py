"""``whimbrel model``: what a model's endpoint can do, and the key for it."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from .shared import allow_http_option, not_empty

if TYPE_CHECKING:
    from ...engine.remote.endpoint import Endpoint
    from ...engine.remote.listing import Listed
    from ...engine.remote.profile import Profile

MAX_SHOWN = 20
"""Model names in an error text."""

_KINDS = ["openai", "vllm", "sglang", "llamacpp", "ollama", "deepseek", "kimi-api", "openrouter"]
_dialect_option = click.option(
    "--dialect", type=click.Choice(_KINDS), help="The kind of server, where it cannot be recognised."
)


@click.group()
def group() -> None:
    """Find out what a model's endpoint can do; keep its key in the system's keyring."""


@group.command("probe")
@click.argument("url", metavar="URL", callback=not_empty)
@click.option("--model", "name", callback=not_empty, metavar="NAME", help="Which of the server's models.")
@_dialect_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object on standard output.")
@click.option("--refresh", is_flag=True, help="Ask again although an answer is kept.")
@click.option(
    "--timeout",
    type=click.FloatRange(1, 3600),
    default=120.0,
    show_default=True,
    help="Seconds for all of it.",
)
@allow_http_option
def probe_command(
    url: str, name: str | None, dialect: str | None, as_json: bool, refresh: bool, timeout: float
) -> None:
    """Ask a model about a dozen short questions and show what its endpoint can do.

    URL is its address (https://host/v1), or a model string such as vllm:NAME@URL.
    What is found out is kept for a week and used by every run with this model.
    """
    profile, cached = asyncio.run(
        _probe(url, name, dialect, refresh, timeout, tell=_nothing if as_json else _progress)
    )
    if as_json:
        click.echo(profile.model_dump_json(indent=2))
    else:
        _show(profile, cached)


@group.command("list")
@click.argument("url", metavar="URL", callback=not_empty)
@_dialect_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object a line.")
@allow_http_option
def list_command(url: str, dialect: str | None, as_json: bool) -> None:
    """The models a server offers, with their context windows where it tells them."""
    models = asyncio.run(_list(_endpoint(url, "", dialect)))
    if as_json:
        import json

        for model in models:
            line = {"name": model.name, "owner": model.owner, "context_window": model.window}
            click.echo(json.dumps(line))
        return
    if not models:
        click.echo("the server lists no models", err=True)
    width = max((len(model.name) for model in models), default=0)
    for model in models:
        click.echo(f"{_plain(model.name):<{min(width, 60)}}  {model.window or 'window unknown'}")


@group.command("login")
@click.argument("host", metavar="HOST", callback=not_empty)
def login(host: str) -> None:
    """Keep the key for HOST in the system's keyring (needs the extra `keyring`).

    The key is read without echo, or from standard input where that is no terminal. HOST is
    a name such as openrouter.ai, with its port where it has one, or the model's address.
    Variables such as WHIMBREL_API_KEY come first when a key is looked for.
    """
    from ...engine.remote.credentials import store_key

    place = _host(host)
    if sys.stdin is not None and sys.stdin.isatty():
        # getpass: what is typed goes to no history, no kill ring and no screen.
        import getpass

        key = getpass.getpass(f"API key for {place} (not shown): ")
    else:
        key = sys.stdin.readline(8192) if sys.stdin is not None else ""
    store_key(place, key)
    click.echo(f"the key for {place} is in the system's keyring")


@group.command("logout")
@click.argument("host", metavar="HOST", callback=not_empty)
def logout(host: str) -> None:
    """Delete the key for HOST from the system's keyring."""
    from ...engine.remote.credentials import forget_key

    place = _host(host)
    if not forget_key(place):
        raise click.ClickException(f"no key for {place} was kept")
    click.echo(f"the key for {place} is deleted")


# ---------------------------------------------------------------- what the commands do


async def probe_endpoint(url: str, tell: Callable[[str], None]) -> tuple[Profile, bool]:
    """What the endpoint of an address or model string can do, and whether that was known already.

    Raises:
        UsageError, ModelError: no address, several models, or the server does not answer.
    """
    return await _probe(url, None, None, False, 120.0, tell=tell)


async def list_endpoint(url: str) -> list[Listed]:
    """The models a server offers; errors as for ``probe_endpoint``."""
    return await _list(_endpoint(url, "", None))


async def _probe(
    url: str,
    name: str | None,
    dialect: str | None,
    refresh: bool,
    timeout: float,
    *,
    tell: Callable[[str], None],
) -> tuple[Profile, bool]:
    from ...engine.remote.probe import probe
    from ...engine.remote.transport import Transport
    from ..agent.profiles import profile_store

    store = profile_store()
    endpoint = _endpoint(url, name or "", dialect)
    if not endpoint.model:
        endpoint = await _choose(endpoint)
    known = None if refresh else store.load(endpoint.base_url, endpoint.model)
    if known is not None and known.complete and (dialect is None or known.dialect == dialect):
        return known, True
    transport = Transport(endpoint, timeout_s=min(60.0, timeout))
    try:
        profile = await probe(transport, seconds=timeout, tell=tell)
    finally:
        await transport.close()
    if not store.save(profile):
        click.echo("whimbrel: the answer could not be kept in the cache folder", err=True)
    return profile, False


async def _choose(endpoint: Endpoint) -> Endpoint:
    """The server's only model."""
    from dataclasses import replace

    from ...sandbox.base.errors import UsageError

    models = await _list(endpoint)
    if len(models) == 1:
        return replace(endpoint, model=models[0].name)
    names = ", ".join(_plain(model.name) for model in models[:MAX_SHOWN])
    more = f" and {len(models) - MAX_SHOWN} more" if len(models) > MAX_SHOWN else ""
    what = f"the server has {len(models)} models: {names}{more}" if models else "the server lists no models"
    raise UsageError(what, hint="say which with --model NAME")


async def _list(endpoint: Endpoint) -> list[Listed]:
    from ...engine.remote.listing import list_models
    from ...engine.remote.transport import Transport

    transport = Transport(endpoint, timeout_s=30.0)
    try:
        async with asyncio.timeout(60.0):
            return await list_models(transport)
    except TimeoutError as error:
        from ...sandbox.base.errors import ModelError

        raise ModelError(f"{endpoint.base_url} did not answer in time") from error
    finally:
        await transport.close()


def _endpoint(url: str, name: str, dialect: str | None) -> Endpoint:
    """Of an address or a model string; the family is guessed from the host where it is not given."""
    from urllib.parse import urlsplit

    from ...engine.remote.credentials import stored_key
    from ...engine.remote.dialects import DIALECTS, recognise
    from ...engine.remote.endpoint import resolve
    from ...sandbox.base.errors import UsageError

    kind, colon, rest = url.partition(":")
    if colon and kind == "anthropic":
        raise UsageError(
            f"{url!r}: only servers in the form of chat completions are asked",
            hint="a model in the Messages form needs no probe: use it with --model",
        )
    if colon and kind in DIALECTS and not rest.startswith("//"):
        from ...engine.models import split_address

        own_name, url = split_address(rest)
        name, dialect = name or own_name, dialect or kind
    elif "://" not in url:
        raise UsageError(f"{url!r} is no address", hint="write it like http://127.0.0.1:8000/v1")
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        host = ""
    prefix = dialect or recognise(host).prefix
    return resolve(prefix, name, url, os.environ, stored_key)


def _host(text: str) -> str:
    from ...engine.remote.endpoint import check_address

    address = text if "://" in text else f"https://{text}"
    return check_address(address, {"WHIMBREL_ALLOW_HTTP": "1"})[1]


# ---------------------------------------------------------------- what people see


def _show(profile: Profile, cached: bool) -> None:
    from ...engine.remote.dialects import DIALECTS
    from ...engine.remote.profile import FACTS

    title = DIALECTS[profile.dialect].title if profile.dialect in DIALECTS else profile.dialect
    click.echo(f"{_plain(profile.model)} at {profile.base_url}, spoken to as {title}")
    if cached:
        hours = max(0, int((time.time() - profile.made_at) / 3600))
        click.echo(f"  (kept from {hours} hours ago; --refresh asks again)")
    for name, label in FACTS.items():
        fact = profile.facts.get(name)
        if fact is not None:
            click.echo(f"  {label:<26} {_value(fact.value):<18} {_plain(fact.how)}".rstrip())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if value == "":
        return "none"
    return "unknown" if value is None else _plain(str(value))


def _plain(text: str) -> str:
    """A server's words cannot steer the terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _progress(text: str) -> None:
    if sys.stderr is not None and sys.stderr.isatty():
        click.echo(f"  asking about: {text}", err=True)


def _nothing(_: str) -> None:
    """Machines read the output; nothing else is wanted."""
