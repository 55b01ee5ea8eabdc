"""Finding, planning and checking the environment in which a project's tests run."""

from .model import EditableInstall, ProjectEnvironment, Recipe

__all__ = ["EditableInstall", "ProjectEnvironment", "Recipe"]
