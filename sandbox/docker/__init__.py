"""Commands in a Docker (or Podman) container. The SDK is imported when a sandbox starts, not here."""

from .sandbox import DockerSandbox

__all__ = ["DockerSandbox"]
