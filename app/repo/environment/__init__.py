"""Finding, planning and checking the environment in which a project's tests run."""

from .causes import Cause
from .diagnose import diagnose, environment_causes
from .model import EditableInstall, ProjectEnvironment, Recipe
from .outputs import build_outputs, find_build_outputs
from .plan import make_mount_points, plan_environment
from .recipe import Configuration, find_recipe, load_configuration
from .services import run_setup, start_services, stop_services
from .verify import verify_environment

__all__ = [
    "Cause",
    "Configuration",
    "EditableInstall",
    "ProjectEnvironment",
    "Recipe",
    "build_outputs",
    "diagnose",
    "environment_causes",
    "find_build_outputs",
    "find_recipe",
    "load_configuration",
    "make_mount_points",
    "plan_environment",
    "run_setup",
    "start_services",
    "stop_services",
    "verify_environment",
]
