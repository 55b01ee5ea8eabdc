"""Widgets: data in, pixels out. None knows the application, none holds logic of the agent."""
