"""Screens and dialogs over the conversation; each imports only what it shows."""
