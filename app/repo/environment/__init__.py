"""Finding, planning and checking the environment in which a project's tests run."""

from .model import EditableInstall, ProjectEnvironment, Recipe
from .outputs import build_outputs, find_build_outputs
from .plan import make_mount_points, plan_environment
from .recipe import Configuration, load_configuration
from .verify import run_setup, verify_environment

__all__ = [
    "Configuration",
    "EditableInstall",
    "ProjectEnvironment",
    "Recipe",
    "build_outputs",
    "find_build_outputs",
    "load_configuration",
    "make_mount_points",
    "plan_environment",
    "run_setup",
    "verify_environment",
]
